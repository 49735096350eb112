"""`/stats`: figures of the last answer and of memory, as text."""

from ebbtide.app.chat_session import ChatSession
from ebbtide.engine.messages import Finished, Memory
from ebbtide.engine.sizes import format_bytes


def describe_stats(session: ChatSession) -> str:
    """A few lines; what is not known is left out."""
    parts = []
    if session.finished is not None:
        parts.append(_answer(session.finished))
    if session.memory is not None:
        parts.append(_memory(session.memory))
    stored = session.keeper.store.stats()
    parts.append(
        f"Chats: {stored.chats:,} with {stored.messages:,} messages, {format_bytes(stored.disk_bytes)}"
    )
    return "\n".join(parts)


def _answer(finished: Finished) -> str:
    usage, timings = finished.usage, finished.timings
    return (
        f"Last answer: {usage.completion:,} tokens at {timings.decode_tok_s:.1f} tok/s, "
        f"first after {timings.first_token_s:.2f} s\n"
        f"Its prompt: {usage.prompt:,} tokens, {usage.cached:,} of them from the prefix cache"
    )


def _memory(memory: Memory) -> str:
    return (
        f"Memory: at most {format_bytes(memory.peak_bytes)} of {format_bytes(memory.budget_bytes)}; "
        f"{memory.expert_hit_rate:.1%} of experts found there, "
        f"{format_bytes(memory.bytes_paged_in)} read from disk"
    )
