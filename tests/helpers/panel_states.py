"""States of the memory panel, made of the messages that an engine would send."""

import struct
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from ebbtide.app.panel.feed import PanelFeed
from ebbtide.engine.messages import Decision, Loaded, Machine, Memory, Residency, Snapshot

MIB = 1 << 20
Place = tuple[int, int]


def memory(**fields: int) -> Memory:
    """300 MiB, 270 of them in use."""
    parts: dict[str, Any] = {
        "static_bytes": 60 * MIB,
        "expert_bytes": 160 * MIB,
        "kv_bytes": 40 * MIB,
        "transient_bytes": 10 * MIB,
        "free_bytes": 30 * MIB,
        "budget_bytes": 300 * MIB,
    }
    return Memory(**(parts | fields))


def loaded(layers: int = 30, experts: int = 8, name: str = "tiny") -> Loaded:
    return Loaded(name, "llama", 4096, 1000, layers, experts, "portable", 2, 0.5, memory())


def residency(
    layers: int,
    experts: int,
    width: Callable[[int, int], int] = lambda layer, expert: 8 if (layer + expert) % 4 else 0,
    pinned: Collection[Place] = (),
) -> Residency:
    """`width(layer, expert)` of each expert, and of both its blocks of 1 MiB; uses are their numbers."""
    places = [(layer, expert) for layer in range(layers) for expert in range(experts)]
    widths = [width(*place) for place in places]
    blocks = [widths[layer * experts :][:experts] for layer in range(layers) for _ in range(2)]
    return Residency(
        layers=layers,
        experts=experts,
        widths=bytes(widths),
        uses=struct.pack(f"<{len(places)}I", *range(len(places))),
        pinned=bytes(place in pinned for place in places),
        slots=[max(experts - 2, 1)] * layers,
        pages=struct.pack("<I", 32) * len(places),
        page_bytes=MIB // 16,
        spare_bytes=5 * MIB,
        memory=memory(),
        block_widths=bytes(here or 8 for row in blocks for here in row),
        width_bytes=[0, *(2 * MIB * widths.count(planes) for planes in range(1, 9))],
        average_bits=sum(here or 8 for here in widths) / max(len(widths), 1),
    )


def machine(**fields: int) -> Machine:
    figures: dict[str, Any] = {
        "process_bytes": 400 * MIB,
        "process_swap_bytes": 0,
        "app_bytes": 60 * MIB,
        "available_bytes": 9000 * MIB,
        "total_bytes": 16000 * MIB,
    }
    return Machine(**(figures | fields))


def on_card(**fields: Any) -> Machine:
    """The model is on a card of 10,000 MiB, of which others have 2,000 and ebbtide 350."""
    figures: dict[str, Any] = {
        "card": "RTX 3060",
        "card_own_bytes": 350 * MIB,
        "card_free_bytes": 7650 * MIB,
        "card_total_bytes": 10000 * MIB,
    }
    return msgspec.structs.replace(machine(), **(figures | fields))


def snapshot(tokens: int, hits: int, misses: int, moved: int, request_id: int = 1) -> Snapshot:
    ledger = memory(bytes_paged_in=moved)
    return Snapshot(
        request_id, "decode", 10, 10, tokens, 10 + tokens, 4096, 40.0, 200.0, ledger, hits, misses
    )


def decision(sentence: str, kind: str = "kv", at: float = 1.0) -> Decision:
    return Decision(at, kind, sentence, {"n": 1})


def feed(layers: int = 30, experts: int = 8) -> PanelFeed:
    """Everything is known, and a little has happened."""
    made = PanelFeed()
    made.take(loaded(layers, experts))
    if experts:
        made.take(residency(layers, experts, pinned=[(1, 2)]))
    made.take(machine())
    made.take(decision("Budget 300 MiB", "budget"))
    made.take(decision("Context 10 gave way"))
    made.take(decision("L01 expert 2 pinned by hand", "pin"))
    return made
