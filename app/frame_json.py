"""A frame of an engine as one JSON object: what `ebbtide top --json` and `--follow` print."""

import json
from typing import Any

import msgspec

from ebbtide.app.panel.inventory import bytes_of, uses_of
from ebbtide.engine.frames import Frame
from ebbtide.engine.messages import Decision, Residency


def phase_of(frame: Frame) -> str:
    """ "loading", "idle", "prefill" or "decode"."""
    if frame.loaded is None:
        return "loading"
    snapshot, finished = frame.snapshot, frame.finished
    if snapshot is None or (finished is not None and finished.request_id == snapshot.request_id):
        return "idle"
    return snapshot.phase


def frame_object(frame: Frame) -> dict[str, Any]:
    """Everything; what is not known yet is null."""
    snapshot, loaded = frame.snapshot, frame.loaded
    newest = frame.residency or snapshot or loaded
    return {
        "pid": frame.pid,
        "at": frame.at,
        "phase": phase_of(frame),
        "model": loaded.name if loaded is not None else None,
        "isa": loaded.isa if loaded is not None else None,
        "context_used": snapshot.context_used if snapshot is not None else 0,
        "context_size": loaded.ctx if loaded is not None else 0,
        "decode_tok_s": snapshot.decode_tok_s if snapshot is not None else 0.0,
        "prefill_tok_s": snapshot.prefill_tok_s if snapshot is not None else 0.0,
        "memory": plain(newest.memory) if newest is not None else None,
        "machine": plain(frame.machine) if frame.machine is not None else None,
        "experts": experts_object(frame.residency) if frame.residency is not None else None,
        "decisions": [plain(decision) for decision in frame.decisions],
    }


def plain(message: msgspec.Struct) -> dict[str, Any]:
    """The fields of a message, without the tag that tells messages apart on the pipe."""
    fields: dict[str, Any] = msgspec.to_builtins(message)
    fields.pop("type", None)
    return fields


def experts_object(residency: Residency) -> dict[str, Any]:
    """`widths` has a string for each layer and a digit for each expert: planes in memory, 0 = absent;
    `expert_bytes` are what these take, or those that are absent would.
    """
    layers, count = residency.layers, residency.experts
    uses, sizes = uses_of(residency), bytes_of(residency)
    spans = [(layer * count, (layer + 1) * count) for layer in range(layers if count else 0)]
    return {
        "layers": layers,
        "experts": count,
        "widths": ["".join(str(min(width, 9)) for width in residency.widths[a:b]) for a, b in spans],
        "uses": [uses[a:b].tolist() for a, b in spans],
        "pinned": [divmod(index, count) for index, pinned in enumerate(residency.pinned) if pinned],
        "bounds": [
            [*divmod(index, count), least, bool(residency.held[index])]
            for index, least in enumerate(residency.bounds)
            if least
        ],
        "average_bits": round(residency.average_bits, 3),
        "slots": residency.slots,
        "expert_bytes": [sizes[a:b] for a, b in spans],
        "spare_bytes": residency.spare_bytes,
    }


class FramePrinter:
    """Prints frames; each decision once."""

    def __init__(self) -> None:
        self._last: Decision | None = None

    def show(self, frame: Frame) -> None:
        """One line on standard output; escapes keep control characters off a terminal."""
        fresh = frame.decisions
        if self._last in fresh:
            fresh = fresh[fresh.index(self._last) + 1 :]
        if frame.decisions:
            self._last = frame.decisions[-1]
        print(json.dumps(frame_object(msgspec.structs.replace(frame, decisions=fresh))), flush=True)
