"""The weights of a random mixture of experts whose routers behave like a trained one's.

Consecutive tokens of a real model share almost half of their experts, and which ones are in use drifts with
the text. Here a router reads a mean over recent tokens, which attention computes (see `windows`), the token
itself and a direction common to all tokens, in the shares of `Mix`. The numbers are the file's: every engine
routes alike.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tests.helpers.moe.residual import COMMON, OWN, SCORES, Residual
from tests.helpers.moe.shapes import MoeShape
from tests.helpers.moe.vocabulary import Words
from tests.helpers.moe.windows import head_vectors, tokens_seen

F32 = NDArray[np.float32]
Rng = np.random.Generator
Rows = Callable[[Rng, int, int], F32]
"""(generator, first row, behind the last) -> weights f32[rows, columns]."""
NEXT_SCORES = 3.0
"""Standard deviation of the next token's scores among equally common ones."""
ZIPF = 1.1
"""How much a token's score falls when it is e times rarer: greedy answers then have a text's mix of words."""
NEVER = -40.0
"""Score of tokens that must not be chosen."""
QUERY_NOISE = 0.15
STRAY = 0.05
"""Noise, by the signal's size, where an ideal matrix would be zero."""
COMMONEST = 0.5
RARE_RANK = 3000
"""The own part of tokens grows with the logarithm of their rank, from COMMONEST to 1 at this rank."""


class Weights:
    """Makers of the rows of every matrix that is not an expert's, and of the vectors."""

    def __init__(self, shape: MoeShape, words: Words) -> None:
        self._shape, self._residual = shape, Residual(shape)
        self._ranks, self._mute = words.ranks, words.mute
        sizes = shape.sizes
        windows = [shape.windows[head % 2] for head in range(sizes.heads)]
        self._queries, self._key, self._rotary = head_vectors(windows, sizes.head_dim, shape.rope_base)
        self._seen = np.array([tokens_seen(window) for window in windows])

    def rows(self, name: str) -> Rows:
        """The maker of a matrix by its name in the file. Raises KeyError for experts' matrices."""
        ends: dict[str, Rows] = {"token_embd.weight": self._embedding, "output.weight": self._head}
        if name in ends:
            return ends[name]
        _, layer, part, *_ = name.split(".")
        parts: dict[str, Rows] = {
            "attn_q": partial(self._turned, int(layer), self._queries.ravel()),
            "attn_k": partial(self._turned, int(layer), np.tile(self._key, self._shape.sizes.kv_heads)),
            "attn_v": self._values,
            "attn_output": partial(self._attended, int(layer)),
            "ffn_gate_inp": partial(self._router, int(layer)),
        }
        return parts[part]

    def vector(self, name: str, rng: Rng, count: int) -> F32:
        """A norm's weights, a bias or the gate of a shared expert."""
        part = name.split(".")[2 if name.startswith("blk.") else 0]
        if name.endswith(".bias"):
            aim: dict[str, F32] = {"attn_q": self._queries.ravel()}
            aim["attn_k"] = np.tile(self._key, count // self._key.size)
            bias: F32 = aim.get(part, np.zeros(count, np.float32)) * np.float32(self._rotary)
            return bias
        if part in ("attn_q_norm", "attn_k_norm"):
            return np.full(count, self._rotary, np.float32)
        if part == "ffn_gate_inp_shexp":
            return _normal(rng, 1, count, count**-0.5).ravel()
        return rng.uniform(0.95, 1.05, count).astype(np.float32)

    # --- ends ---------------------------------------------------------------------------------------------

    def _embedding(self, rng: Rng, start: int, stop: int) -> F32:
        rarity = np.minimum(np.log(self._ranks[start:stop]) / np.log(RARE_RANK), 1)
        rows, token, _ = self._noise(rng, stop - start, OWN, STRAY)
        token *= (COMMONEST + (1 - COMMONEST) * rarity)[:, None]
        token += COMMON
        return rows

    def _head(self, rng: Rng, start: int, stop: int) -> F32:
        """Scores from the last token and the context in equal shares, and from how common a token is."""
        last = self._shape.sizes.layers - 1
        rows, token, _ = self._reader(rng, stop - start, last, 0.5, 0.5)
        rows *= self._residual.rms(last, last) * NEXT_SCORES
        mute = self._mute[start:stop]
        rows[mute] = 0
        scores = np.where(mute, NEVER, -ZIPF * np.log(self._ranks[start:stop]))
        token += (scores * self._residual.rms(last, last))[:, None] / (self._residual.half * COMMON)
        return rows

    # --- attention ----------------------------------------------------------------------------------------

    def _turned(self, layer: int, aim: F32, rng: Rng, start: int, stop: int) -> F32:
        """Queries or keys: `aim` for every token, by the common direction; in qwen2moe by the bias alone."""
        noise = QUERY_NOISE * self._shape.sizes.d_model**-0.5
        rows, token, _ = self._noise(rng, stop - start, noise, noise)
        if self._shape.family != "qwen2moe":
            unit = self._residual.half * COMMON / self._residual.rms(layer - 1, layer - 1)
            token += aim[start:stop, None] / np.float32(unit)
        return rows

    def _values(self, rng: Rng, start: int, stop: int) -> F32:
        """Random products with the token's own part, without the common direction."""
        size = self._residual.half**-0.5
        rows, token, _ = self._noise(rng, stop - start, size, STRAY * size)
        token -= token.mean(axis=1, keepdims=True)
        return rows

    def _attended(self, layer: int, rng: Rng, start: int, stop: int) -> F32:
        """Into the context's half; a head's mean over many tokens is small and made larger for it."""
        shape, mix, residual = self._shape, self._shape.mix, self._residual
        sizes = shape.sizes
        shares = np.array([mix.recent, mix.topic]) / (mix.recent + mix.topic)
        kinds = np.arange(sizes.heads) % 2
        variance = (shares / np.bincount(kinds, minlength=2))[kinds]
        value = OWN / residual.rms(layer - 1, layer - 1)
        stds = np.sqrt(variance * residual.written(layer) * self._seen / sizes.head_dim) / value
        rows = _normal(rng, stop - start, sizes.heads * sizes.head_dim, 1.0)
        rows *= np.repeat(stds, sizes.head_dim).astype(np.float32)
        rows[: max(residual.half - start, 0)] *= STRAY
        return rows

    # --- routers ------------------------------------------------------------------------------------------

    def _router(self, layer: int, rng: Rng, start: int, stop: int) -> F32:
        mix, residual = self._shape.mix, self._residual
        rows, token, _ = self._reader(rng, stop - start, layer, mix.own, mix.recent + mix.topic)
        bias = rng.standard_normal((stop - start, 1)) * np.sqrt(mix.static)
        token += (bias / (residual.half * COMMON)).astype(np.float32)
        rows *= residual.rms(layer, layer - 1) * SCORES
        return rows

    def _reader(
        self, rng: Rng, count: int, layer: int, own: float, context_share: float
    ) -> tuple[F32, F32, F32]:
        """Rows whose products with a hidden state behind the attention of `layer` have, times its RMS, the
        variance `own` from the token's part and `context_share` from the context; and views of both halves.
        """
        residual = self._residual
        sizes = np.sqrt([own, context_share]) / np.sqrt(residual.half)
        rows, token, context = self._noise(
            rng, count, sizes[0] / OWN, sizes[1] / np.sqrt(residual.context(layer))
        )
        token -= token.mean(axis=1, keepdims=True)
        return rows, token, context

    def _noise(self, rng: Rng, count: int, token: float, context: float) -> tuple[F32, F32, F32]:
        """Normal rows with these deviations in the token's and the context's half, and both halves."""
        rows = _normal(rng, count, self._shape.sizes.d_model, 1.0)
        halves = rows[:, : self._residual.half], rows[:, self._residual.half :]
        for half, std in zip(halves, (token, context), strict=True):
            half *= np.float32(std)
        return rows, *halves


def _normal(rng: Rng, rows: int, cols: int, std: float) -> F32:
    values = rng.standard_normal((rows, cols), np.float32)
    if std != 1:
        values *= np.float32(std)
    return values
