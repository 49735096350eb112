"""What can be done when the context is full. Nothing is ever left out unless the person says so."""

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.screens.picker import Choice
from ebbtide.app.token_rate import usual_tokens

GOAL = 0.5
"""Leave out so many of the oldest messages that about this share of the context is used."""
LEAST_ANSWER_TOKENS = 512
"""Room for an answer that a larger context is to have."""


def messages_to_leave_out(session: ChatSession, question: str = "") -> int:
    """How many of the oldest messages; whole pairs. `question`: what is to be asked and is not in the chat;
    without it the last question and its answer stay.
    """
    context = session.loaded.ctx if session.loaded is not None else 0
    sent = [message for message in session.conversation.path if not message.left_out]
    sizes = [session.rate.tokens(message.usual_tokens) for message in sent]
    total, count = sum(sizes) + session.rate.tokens(usual_tokens(question)), 0
    most = len(sent) - (0 if question else 2)
    while count + 2 <= most and (total > context * GOAL or count == 0):
        total -= sizes[count] + sizes[count + 1]
        count += 2
    return count


def larger_context(session: ChatSession, tokens: int) -> int:
    """A context in which a prompt of so many tokens and its answer have room; 0 where the model has none."""
    loaded = session.loaded
    if loaded is None or loaded.model_ctx <= max(loaded.ctx, tokens + LEAST_ANSWER_TOKENS):
        return 0
    wanted = max(2 * loaded.ctx, tokens + max(tokens // 4, LEAST_ANSWER_TOKENS))
    return int(min(1 << (wanted - 1).bit_length(), loaded.model_ctx))


def full_title(session: ChatSession, question_tokens: int = 0) -> str:
    """What is wrong. `question_tokens`: of a question that alone is longer than the context."""
    context = session.loaded.ctx if session.loaded is not None else 0
    if not question_tokens:
        return "The context is full"
    return f"The question alone ({question_tokens:,} tokens) is larger than the context ({context:,})"


def context_choices(session: ChatSession, question: str = "", question_tokens: int = 0) -> list[Choice]:
    """The ways out that help, the gentlest first."""
    back = Choice("edit", "Back to the prompt", "the text is kept")
    edit = Choice("edit", "Edit the last question", "the old one stays as a version")
    asked = question_tokens or session.context_used + session.counts.cost([question]).tokens
    ctx = larger_context(session, asked)
    larger = [Choice("ctx", f"Load again with a context of {ctx:,} tokens", "and ask there")] if ctx else []
    if question_tokens:
        return [*larger, back]  # no other chat helps
    count = messages_to_leave_out(session, question)
    trim = Choice("trim", f"Leave the oldest {count} messages out of what is sent", "/untrim undoes it")
    fork = Choice("fork", "Ask in a new chat", "this one stays as it is")
    return [*([trim] if count else []), fork, *larger, back if question else edit]
