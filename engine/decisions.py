"""What the engine decided, in a sentence each: the words of the event log."""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.engine.messages import Decision, Finished
from ebbtide.engine.sizes import format_bytes


def decision(kind: str, sentence: str, **numbers: float) -> Decision:
    """A decision of this moment."""
    return Decision(time.time(), kind, sentence, numbers)


def layer_range(layers: Sequence[int]) -> str:
    """The layers from first to last: "L03" or "L03\N{EN DASH}L29"; they need not be all of those between."""
    first, last = min(layers), max(layers)
    return f"L{first:02}" if first == last else f"L{first:02}\N{EN DASH}L{last:02}"


def count_of(count: int, noun: str) -> str:
    """ "1 expert", "38 experts"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def budget_resolved(wish: str, budget: int, fixed: int, room: int, experts: int, held: int) -> Decision:
    """`fixed`: dense weights and workspace; `room`: the arena, bytes; `held` of `experts` may stay in it."""
    asked = "" if wish.endswith("B") else f" ({wish})"
    sentence = (
        f"Budget {format_bytes(budget)}{asked}: {format_bytes(fixed)} fixed, {format_bytes(room)} to share"
    )
    if experts:
        sentence += f"; room for {held:,} of {count_of(experts, 'expert')}"
    return decision("budget", sentence, budget_bytes=budget, fixed_bytes=fixed, held=held, experts=experts)


def warmed(nbytes: int, seconds: float, resident: int, experts: int) -> Decision:
    sentence = (
        f"Read ahead while idle: {format_bytes(nbytes)} in {seconds:.1f} s, "
        f"{resident:,} of {experts:,} experts resident"
    )
    return decision("warm", sentence, bytes=nbytes, seconds=seconds, resident=resident, experts=experts)


def prompt_read(tokens: int, cached: int, seconds: float) -> Decision:
    """`tokens` were computed in `seconds`, after `cached` that were there already."""
    rate = tokens / seconds if seconds > 0 else 0.0
    sentence = f"Prompt: {count_of(tokens, 'token')} read in {seconds:.1f} s ({rate:,.0f} tok/s)"
    if cached:
        sentence += f", {cached:,} more were still in memory"
    return decision("prefill", sentence, tokens=tokens, cached=cached, seconds=seconds)


def answered(finished: Finished, hits: int, misses: int, moved: int) -> Decision:
    """`hits`, `misses` and `moved` bytes are those of this request."""
    sentence = f"Answer: {count_of(finished.usage.completion, 'token')}"
    rate = finished.timings.decode_tok_s
    if rate > 0:
        sentence += f" at {rate:.1f} tok/s"
    share = hits / (hits + misses) if hits + misses else 1.0
    if hits + misses:
        sentence += f"; {share:.0%} of experts were resident, {format_bytes(moved)} moved"
    return decision("answer", sentence, tok_s=rate, hit_rate=share, bytes=moved)


def kv_grew(tokens: tuple[int, int], nbytes: int, given: Sequence[int], experts: tuple[int, int]) -> Decision:
    """KV took `nbytes` while the context went through `tokens`; `given` experts by layer gave way.

    `experts`: their bytes before and after.
    """
    count, layers = sum(given), [layer for layer, number in enumerate(given) if number]
    sentence = (
        f"Context {tokens[0]:,} \N{RIGHTWARDS ARROW} {tokens[1]:,}: KV +{format_bytes(nbytes)}, "
        f"{count_of(count, 'expert')} gave way ({layer_range(layers)})"
    )
    if experts[1] < experts[0]:  # others may have come in meanwhile
        sentence += f", experts {format_bytes(experts[0])} \N{RIGHTWARDS ARROW} {format_bytes(experts[1])}"
    return decision(
        "kv", sentence, kv_bytes=nbytes, experts=count, expert_bytes=experts[1], context=tokens[1]
    )


def widths_changed(
    changed: tuple[int, int],
    experts: int,
    bits: tuple[float, float],
    kv_bytes: int | None,
    *,
    by_hand: bool = False,
) -> Decision:
    """Widths of (all, those lowered) experts of `experts` were changed, and with them the planes per weight
    before and after; KV has grown by `kv_bytes` meanwhile. None = these are the first widths of a load.
    `by_hand`: a person's bound made it.
    """
    count, lowered = changed
    raised = count - lowered
    if bits[1] < bits[0]:
        done, why = f"{count_of(lowered, 'expert')} lowered", "the conversation needs room"
        if kv_bytes is None:
            why = "so more of them fit into memory"
        elif kv_bytes > 0:
            why = f"the conversation took {format_bytes(kv_bytes)}"
    elif bits[1] > bits[0]:
        done, why = f"{count_of(raised, 'expert')} raised", "there is room for them"
        if kv_bytes is not None and kv_bytes < 0:
            why = f"{format_bytes(-kv_bytes)} are free again"
    else:
        done, why = f"{count_of(count, 'expert')} changed", "others are asked for now"
    if by_hand:
        why = "for a bound set by hand"
    average = f"{bits[0]:.2f} \N{RIGHTWARDS ARROW} {bits[1]:.2f}"
    if f"{bits[0]:.2f}" == f"{bits[1]:.2f}":
        average = f"still {bits[1]:.2f}"
    sentence = f"Precision: {done} of {experts:,}, on average {average} bits a weight: {why}"
    return decision(
        "widths",
        sentence,
        experts=count,
        lowered=lowered,
        bits_before=bits[0],
        bits=bits[1],
        kv_bytes=kv_bytes or 0,
    )


def widths_kept(reason: str, hint: str) -> Decision:
    """A change of widths failed, and nothing was changed."""
    return decision("widths", f"Precision stays as it is: {reason.rstrip('.')}. {hint}")


def learnt(added: int, tokens: int, notice: str = "") -> Decision:
    """Moments of so many tokens more are kept: now of `tokens`. `notice`: of what had to go first."""
    sentence = f"What chats show of the experts is kept: {count_of(tokens, 'token')}, {added:,} of them new"
    sentence = f"{sentence}. {notice}" if notice else sentence
    return decision("learning", sentence, added=added, tokens=tokens)


def learning_ended(reason: str, hint: str = "") -> Decision:
    """Nothing more is gathered from chats until the next load."""
    end = f" {hint}" if hint else ""
    return decision("learning", f"Chats add nothing more to the calibration: {reason.rstrip('.')}.{end}")


class Offer(NamedTuple):
    """What a quality would make of a load: the share of the experts that fit, bits a weight, nats a token."""

    quality: str
    held: float
    bits: float
    nats: float


def may_narrow(missed: float, offers: Sequence[Offer]) -> Decision:
    """Of an answer's experts the share `missed` had to be read; this is what could be done about it."""
    fit = ", ".join(
        f"{offer.quality} {offer.held:.0%} (+{math.expm1(offer.nats):.1%} perplexity)" for offer in offers
    )
    sentence = (
        f"{missed:.0%} of the experts asked for had to be read. With less precision more fit into memory: "
        f"{fit}; /quality NAME chooses"
    )
    numbers = {
        f"{offer.quality}_{name}": getattr(offer, name) for offer in offers for name in Offer._fields[1:]
    }
    return decision("advice", sentence, missed=missed, **numbers)


def may_narrow_unmeasured(missed: float) -> Decision:
    sentence = (
        f"{missed:.0%} of the experts asked for had to be read. With less precision more of them fit into "
        "memory (/quality); `ebbtide calibrate` tells what that costs"
    )
    return decision("advice", sentence, missed=missed)


def prefixes_dropped(tokens: int) -> Decision:
    sentence = f"Memory is full: {count_of(tokens, 'cached token')} of earlier chats dropped"
    return decision("prefix", sentence, tokens=tokens)


def room_lost(lost: int, left: int) -> Decision:
    """`lost` bytes of the budget could not be had; `left` are shared now."""
    sentence = (
        f"No more memory could be had: {format_bytes(lost)} of the budget are given up until the model is "
        f"loaded again, {format_bytes(left)} are left to share"
    )
    return decision("shortage", sentence, lost_bytes=lost, left_bytes=left)


def pins_lost(pins: Sequence[tuple[int, int]]) -> Decision:
    names = ", ".join(f"L{layer:02} expert {expert}" for layer, expert in pins[:3])
    more = f" and {len(pins) - 3} more" if len(pins) > 3 else ""
    sentence = f"Unpinned, because the context needs the memory: {names}{more}"
    return decision("unpin", sentence, pins=len(pins))


def by_hand(kind: str, done: str, layer: int, expert: int) -> Decision:
    """A person's wish that was granted; `done` = "pinned", "unpinned" or "evicted"."""
    return decision(kind, f"L{layer:02} expert {expert} {done} by hand", layer=layer, expert=expert)


def bounded(layer: int, expert: int, least: tuple[int, int], *, held: bool) -> Decision:
    """A person's bound; `least` planes of gate+up and of down, 0 = none any more."""
    name = f"L{layer:02} expert {expert}"
    bits = str(least[0]) if least[0] == least[1] else f"{least[0]}+{least[1]}"
    if held:
        sentence = f"{name} held at {bits} bits by hand"
    elif any(least):
        sentence = f"{name} keeps at least {bits} bits by hand"
    else:
        sentence = f"{name} has no bound any more"
    return decision("bound", sentence, layer=layer, expert=expert, least=min(least), held=int(held))


def refused(reason: str, hint: str) -> Decision:
    return decision("refused", f"{reason} {hint}")
