"""Moments from an importance matrix of llama.cpp (`llama-imatrix`), in both of its formats.

GGUF: `NAME.in_sum2` f32[E, K] holds sums of x^2 over the tokens that a matrix saw, `NAME.counts` f32[E, 1]
their number. The older format (little-endian): i32 entries, then for each i32 length and name, i32 calls,
i32 n, f32[n] means times calls; then i32 chunks, and length and name of the text. It counts nothing per
expert, and experts that saw no token have the mean 1.

Both weigh every token alike, whatever its gate, so mass and moments are close to those of a calibration, not
the same: as if the gates of a token's k experts were equal.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.gguf.faults import file_name, shown
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.precision.moments import F32, F64, Moments, means

GATE_UP_TENSORS = ("ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps")
DOWN_TENSORS = ("ffn_down_exps",)
SINGLE_TENSORS = {"gate_up": "ffn_gate", "down": "ffn_down"}
"""Files of old Mixtral models have a tensor per expert: `blk.N.ffn_gate.E.weight`."""
CHUNK_TOKENS = 512
"""The tool's default: the older format counts calls, of so many tokens each, and no uses."""
NAME_BYTES_LIMIT = 1024
HINT = "Give a file that `llama-imatrix` made for this model."


class Entry(NamedTuple):
    """Of one tensor: sums of squares f32[n], and the tokens f64[m] behind them, m = 1 or its experts."""

    sums: F32
    counts: F64


Entries = dict[str, Entry]


def read_imatrix(path: Path, spec: ModelSpec, model: str) -> Moments:
    """The moments for the model `spec`, called `model`. Raises ModelError for a file that cannot be read, is
    damaged or belongs to another model.
    """
    try:
        with path.open("rb") as stream:
            is_gguf = stream.read(4) == b"GGUF"
            entries = _read_gguf(path) if is_gguf else _read_legacy(path, stream)
    except OSError as error:
        raise ModelError(f"{file_name(path)} cannot be read: {error.strerror}", hint=HINT) from error
    return _moments(path, entries, spec, model)


def _read_gguf(path: Path) -> Entries:
    file = open_gguf(path)
    arrays: dict[str, F32] = {}
    with path.open("rb") as stream:
        for tensor in file.tensors.values():
            if tensor.type_name == "F32":
                stream.seek(tensor.offset)
                arrays[tensor.name] = np.frombuffer(stream.read(tensor.nbytes), "<f4").astype(np.float32)
    names = [name.removesuffix(".in_sum2") for name in arrays if name.endswith(".in_sum2")]
    entries = {}
    for name in names:
        counts = arrays.get(f"{name}.counts")
        if counts is None:
            raise ModelError(f"{file_name(path)} is damaged: {shown(name)} has no counts", hint=HINT)
        entries[name] = Entry(arrays[f"{name}.in_sum2"], counts.astype(np.float64))
    if not entries:
        raise ModelError(f"{file_name(path)} is a GGUF file, but no imatrix", hint=HINT)
    return entries


class _Damaged(Exception):
    """The bytes are no imatrix of the older format."""


def _read_legacy(path: Path, stream: BinaryIO) -> Entries:
    size = path.stat().st_size
    stream.seek(0)
    try:
        return dict(_legacy_entries(stream, size))
    except _Damaged as error:
        raise ModelError(f"{file_name(path)} is not an imatrix file, or is damaged", hint=HINT) from error


def _legacy_entries(stream: BinaryIO, size: int) -> Iterator[tuple[str, Entry]]:
    count = _int(stream)
    if count < 1:
        raise _Damaged
    for _ in range(count):
        length = _int(stream)
        if not 1 <= length <= NAME_BYTES_LIMIT:
            raise _Damaged
        name = stream.read(length).decode("utf-8", "replace")
        calls, values = _int(stream), _int(stream)
        if values < 1 or stream.tell() + 4 * values > size:
            raise _Damaged
        sums = np.frombuffer(stream.read(4 * values), "<f4").astype(np.float32)
        yield name, Entry(sums * CHUNK_TOKENS, np.array([(calls or 1) * CHUNK_TOKENS], np.float64))


def _int(stream: BinaryIO) -> int:
    raw = stream.read(4)
    if len(raw) < 4:
        raise _Damaged
    number: int = struct.unpack("<i", raw)[0]
    return number


def _moments(path: Path, entries: Entries, spec: ModelSpec, model: str) -> Moments:
    finder = _Finder(path, entries, spec, model)
    layers = range(spec.layers)
    gate_up, uses = _stacked([finder.find(layer, "gate_up", spec.d_model) for layer in layers])
    down, down_uses = _stacked([finder.find(layer, "down", spec.expert_d_ff) for layer in layers])
    total = uses.sum(axis=1, keepdims=True)
    if not total.all():
        raise ModelError(f"{file_name(path)} has seen no text", hint=HINT)
    # A token uses k experts of a layer, each with a gate of about 1 / k.
    mass = uses / total / spec.top_k
    tokens = round(float(total.max()) / spec.top_k)
    return Moments(means(gate_up, uses), means(down, down_uses), mass, tokens)


def _stacked(layers: list[tuple[F32, F64]]) -> tuple[F32, F64]:
    return np.stack([sums for sums, _ in layers]), np.stack([uses for _, uses in layers])


class _Finder:
    """Finds the entries of a layer's experts, and checks that they are this model's."""

    def __init__(self, path: Path, entries: Entries, spec: ModelSpec, model: str) -> None:
        self._path, self._entries, self._spec, self._model = path, entries, spec, model

    def find(self, layer: int, kind: str, cols: int) -> tuple[F32, F64]:
        """Sums f32[E, cols] and uses f64[E] of a layer's blocks of a kind. Raises ModelError."""
        for tensor in GATE_UP_TENSORS if kind == "gate_up" else DOWN_TENSORS:
            name = f"blk.{layer}.{tensor}.weight"
            if name in self._entries:
                return self._checked(name, self._entries[name], self._spec.experts, cols)
        single = f"blk.{layer}.{SINGLE_TENSORS[kind]}"
        names = [f"{single}.{expert}.weight" for expert in range(self._spec.experts)]
        found = [self._checked(name, self._entries[name], 1, cols) for name in names if name in self._entries]
        if len(found) < len(names):
            missing = f"blk.{layer}.{(GATE_UP_TENSORS if kind == 'gate_up' else DOWN_TENSORS)[0]}.weight"
            raise self._foreign(f"it knows nothing of {missing}")
        return np.concatenate([sums for sums, _ in found]), np.concatenate([uses for _, uses in found])

    def _checked(self, name: str, entry: Entry, experts: int, cols: int) -> tuple[F32, F64]:
        if entry.sums.size != experts * cols or entry.counts.size not in (1, experts):
            inputs = f"{entry.sums.size:,} values for {shown(name)}"
            raise self._foreign(f"it has {inputs}, which has {experts} x {cols:,}")
        is_sound = np.isfinite(entry.sums).all() and (entry.sums >= 0).all()
        if not (is_sound and np.isfinite(entry.counts).all() and (entry.counts >= 0).all()):
            raise ModelError(
                f"{file_name(self._path)} is damaged: {shown(name)} is not made of sums of squares", hint=HINT
            )
        # One count for several experts: each of them saw a share of the tokens.
        share = 1.0 if entry.counts.size == experts else self._spec.top_k / experts
        used = ~_without_data(entry.sums.reshape(experts, cols), entry.counts)
        factors = share * used
        sums = entry.sums.reshape(experts, cols) * factors[:, None].astype(np.float32)
        return sums, entry.counts * factors

    def _foreign(self, why: str) -> ModelError:
        return ModelError(
            f"{file_name(self._path)} was made for another model than {shown(self._model)}: {why}", hint=HINT
        )


def _without_data(sums: F32, counts: F64) -> NDArray[np.bool_]:
    """[E]: the writer of the older format gives experts that saw no token the mean 1 everywhere."""
    return np.asarray((sums == counts[:, None].astype(np.float32)).all(axis=1))
