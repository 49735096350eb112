"""What `ebbtide eval` says: one JSON object, or a few lines."""

from typing import Any

from ebbtide.app.eval.summary import Interval, Summary
from ebbtide.engine.messages import ArmWidths, Memory
from ebbtide.engine.sizes import format_bytes


def average_bits(memory: Memory) -> float | None:
    """Mean width over the expert blocks that are in memory; None for a model without any."""
    blocks = {int(width): count for width, count in memory.width_histogram.items() if int(width) > 0}
    total = sum(blocks.values())
    return sum(width * count for width, count in blocks.items()) / total if total else None


def as_object(arm: str, found: Summary, at: ArmWidths | Memory) -> dict[str, Any]:
    """The fields of CONTRACTS, and more behind them. Without an arm's widths, `at` is what memory holds.

    `average_bits` of an arm that chooses token by token are planes read for a token of this text;
    `expert_bytes` are always bytes held.
    """
    bits = at.average_bits if isinstance(at, ArmWidths) else average_bits(at)
    bits = bits if found.read_bits is None else found.read_bits
    return {
        "perplexity": found.perplexity,
        "agreement": found.agreement,
        "kl": found.kl,
        "average_bits": bits,
        "expert_bytes": at.expert_bytes,
        "tokens": found.tokens,
        "arm": arm,
        "perplexity_interval": found.interval,
        "full_perplexity": found.full_perplexity,
        "increase": found.increase,
        "increase_interval": found.increase_interval,
        "fp16_bytes": at.fp16_bytes if isinstance(at, ArmWidths) else None,
    }


def as_lines(arm: str, found: Summary, at: ArmWidths | Memory) -> list[str]:
    """The same for people."""
    lines = [
        f"perplexity {found.perplexity:.4f} over {found.tokens:,} tokens{_between(found.interval, '{:.4f}')}"
    ]
    if isinstance(at, ArmWidths):
        size, share = format_bytes(at.expert_bytes), at.expert_bytes / at.fp16_bytes
        if found.read_bits is None:
            bits = f"{at.average_bits:.2f} bits a weight, {size} with scales"
        else:
            bits = f"{found.read_bits:.2f} bits a weight read for a token; held are {size} with scales"
        lines.append(f"experts ({arm}): {bits}, {share:.1%} of 16 bits")
    if found.increase is not None and found.kl is not None and found.agreement is not None:
        increase = f"{found.increase:+.2%}{_between(found.increase_interval, '{:+.2%}')}"
        lines.append(
            f"against every plane: perplexity {increase}, KL {found.kl:.4f} nats, "
            f"same likeliest token {found.agreement:.1%}"
        )
    return lines


def _between(interval: Interval | None, form: str) -> str:
    """Words for an interval, if there is one."""
    if interval is None:
        return ""
    low, high = (form.format(end) for end in interval)
    return f" (95% interval {low} to {high})"
