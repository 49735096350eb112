"""The paged KV cache: sequences over shared, reference-counted blocks of T tokens.

A *block* is a run of T token positions: one page in each layer, taken and released together.
Blocks are shared between sequences and cached prefixes. A shared block may still be appended to by one holder
(positions past its high-water mark `filled` are nobody's); any other write copies it first.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from ebbtide.engine.errors import ContextError
from ebbtide.engine.memory.arena import I32, Arena, Tenant, join_pages
from ebbtide.engine.memory.provenance import Provenance
from ebbtide.engine.memory.tenancy import Tenancy
from ebbtide.kernels.ops import KvLayout


class KvBlock:
    """One page per layer. `filled` = positions that some holder relies on."""

    __slots__ = ("filled", "pages", "provenance", "refs")

    def __init__(self, pages: I32, provenance: Provenance) -> None:
        self.pages, self.provenance = pages, provenance
        self.refs, self.filled = 1, 0


class KvSequence:
    """The KV of one token sequence; made, grown and released by its pool.

    `table` i32[layers, B_max]: row l is layer l's block table, -1 past the last block. The object and the
    array stay the same while the sequence lives.
    """

    __slots__ = ("blocks", "length", "table")

    def __init__(self, layers: int, max_blocks: int) -> None:
        self.table: I32 = np.full((layers, max_blocks), -1, np.int32)
        self.blocks: list[KvBlock] = []
        self.length = 0


class KvPool:
    """All KV of a model. `max_tokens` is the context, `kv.tokens` the T of a block.

    Used by the step thread, between steps.
    """

    def __init__(self, arena: Arena, tenancy: Tenancy, kv: KvLayout, *, layers: int, max_tokens: int) -> None:
        self._arena, self._tenancy, self.kv = arena, tenancy, kv
        self.layers, self.max_tokens = layers, max_tokens
        self._max_blocks = -(-max_tokens // kv.tokens)
        self._sequences: set[KvSequence] = set()

    # --- sequences ----------------------------------------------------------------------------------------

    def new_sequence(self, blocks: Sequence[KvBlock] = (), length: int = 0) -> KvSequence:
        """A sequence that begins with the first `length` positions of `blocks` (shared, not copied)."""
        sequence = KvSequence(self.layers, self._max_blocks)
        for block in blocks:
            self.retain(block)
            self._append(sequence, block)
        sequence.length = length
        self._sequences.add(sequence)
        return sequence

    def fork(self, sequence: KvSequence) -> KvSequence:
        """A second sequence with the same contents; each may grow on its own."""
        return self.new_sequence(sequence.blocks, sequence.length)

    def extend(self, sequence: KvSequence, count: int, provenance: Provenance) -> None:
        """Make room for `count` more positions (to be written by the caller before anyone reads them).

        All or nothing. Raises ContextError beyond the context or when no page can be had, ValueError when the
        format is not the pool's.
        """
        if provenance.format != self.kv.format:
            raise ValueError(f"a {provenance.format} block in a {self.kv.format} pool")
        end = sequence.length + count
        if end > self.max_tokens:
            raise ContextError(
                f"{end} tokens are more than the context of {self.max_tokens}.",
                hint="Shorten the prompt, start a new chat, or load with a larger --ctx.",
            )
        if count == 0:
            return
        offset = sequence.length % self.kv.tokens
        copy = self._must_copy(sequence, offset, provenance)
        new = -(-end // self.kv.tokens) - len(sequence.blocks)
        pages = self._take(new + copy)
        if copy:
            self._copy_tail(sequence, pages[-1], offset)
        if offset:
            tail = sequence.blocks[-1]
            tail.provenance = tail.provenance.merge(provenance)
        for own in pages[:new]:
            self._append(sequence, KvBlock(own, provenance))
        self._mark_filled(sequence, sequence.length, end)
        sequence.length = end

    def truncate(self, sequence: KvSequence, length: int) -> None:
        """Forget all positions from `length` on."""
        if not 0 <= length <= sequence.length:
            raise ValueError(f"cannot cut a sequence of {sequence.length} to {length}")
        keep = -(-length // self.kv.tokens)
        dropped = sequence.blocks[keep:]
        del sequence.blocks[keep:]
        sequence.table[:, keep:] = -1
        sequence.length = length
        self.drop(dropped)

    def release(self, sequence: KvSequence) -> None:
        """End a sequence. Blocks that nobody else holds go back to the arena."""
        self.truncate(sequence, 0)
        self._sequences.remove(sequence)

    # --- blocks -------------------------------------------------------------------------------------------

    def retain(self, block: KvBlock) -> None:
        """Become one more holder of a block."""
        block.refs += 1

    def drop(self, blocks: Iterable[KvBlock]) -> None:
        """Stop holding blocks; frees those without a holder."""
        free = []
        for block in blocks:
            block.refs -= 1
            if block.refs == 0:
                free.append(block.pages)
        if free:
            self._tenancy.give_back(join_pages(free))

    def _append(self, sequence: KvSequence, block: KvBlock) -> None:
        sequence.table[:, len(sequence.blocks)] = block.pages
        sequence.blocks.append(block)

    def _must_copy(self, sequence: KvSequence, offset: int, provenance: Provenance) -> bool:
        """Whether a write at `offset` of the tail would disturb another holder."""
        if offset == 0:
            return False
        tail = sequence.blocks[-1]
        mixed = tail.provenance.merge(provenance) != tail.provenance
        return tail.refs > 1 and (offset < tail.filled or mixed)

    def _copy_tail(self, sequence: KvSequence, pages: I32, filled: int) -> None:
        shared = sequence.blocks.pop()
        own = KvBlock(pages, shared.provenance)
        own.filled = filled
        for source, target in zip(shared.pages.tolist(), pages.tolist(), strict=True):
            self._arena.copy_page(source, target)
        self._append(sequence, own)
        self.drop([shared])

    def _take(self, blocks: int) -> I32:
        """Pages of new blocks, i32[blocks, layers]."""
        if blocks == 0:
            return np.empty((0, self.layers), np.int32)
        return self._tenancy.take(blocks * self.layers).reshape(blocks, self.layers)

    def _mark_filled(self, sequence: KvSequence, start: int, end: int) -> None:
        tokens = self.kv.tokens
        for index in range(start // tokens, -(-end // tokens)):
            block = sequence.blocks[index]
            filled = min(tokens, end - index * tokens)
            block.filled = filled if block.refs == 1 else max(block.filled, filled)

    # --- figures and checks -------------------------------------------------------------------------------

    @property
    def tokens_per_block(self) -> int:
        return self.kv.tokens

    def check_integrity(self, held: Iterable[KvBlock] = ()) -> None:
        """Raise AssertionError unless references, tables and owned pages agree.

        `held` = blocks that something other than a sequence holds (the prefix cache's).
        """
        counts: dict[KvBlock, int] = {}
        for sequence in self._sequences:
            self._check_sequence(sequence)
            for block in sequence.blocks:
                counts[block] = counts.get(block, 0) + 1
        for block in held:
            counts[block] = counts.get(block, 0) + 1
        for block, count in counts.items():
            assert block.refs == count, f"block with {block.refs} references has {count} holders"
        pages = join_pages([block.pages for block in counts])
        assert len(np.unique(pages)) == len(pages), "a page belongs to two blocks"
        assert len(pages) == self._arena.owned_pages(Tenant.KV), "KV pages lost"

    def _check_sequence(self, sequence: KvSequence) -> None:
        assert len(sequence.blocks) == -(-sequence.length // self.kv.tokens), "wrong number of blocks"
        for index, block in enumerate(sequence.blocks):
            assert (sequence.table[:, index] == block.pages).all(), "block table differs from its blocks"
            covered = min(self.kv.tokens, sequence.length - index * self.kv.tokens)
            assert block.filled >= covered, "a position is relied on but not marked filled"
        assert (sequence.table[:, len(sequence.blocks) :] == -1).all(), "block table runs past its end"
