"""Cached prefixes: a radix tree over blocks of T token ids, matched on the ids that were really used.

    root -- [T ids] -- [T ids] -- [T ids]
                    \\- [5 ids]              an open tail: a leaf with fewer than T ids

Each node holds one KV block. A prompt may match a node in part (an edited or forked chat): it then shares
that block up to the point where they part, and the pool copies the block when the prompt goes its own way.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.kv import KvBlock, KvPool, KvSequence
from ebbtide.engine.memory.tenancy import Tenancy

_ID_BYTES = 4


class _Node:
    """`key` = the ids of this block as int32 bytes."""

    __slots__ = ("block", "children", "key", "last_used", "parent")

    def __init__(self, key: bytes, block: KvBlock, parent: "_Node | None") -> None:
        self.key, self.block, self.parent = key, block, parent
        self.children: dict[bytes, _Node] = {}
        self.last_used = 0


def _shared_ids(a: bytes, b: bytes) -> int:
    """Length of the common prefix, in ids."""
    n = min(len(a), len(b)) // _ID_BYTES
    differ = np.flatnonzero(np.frombuffer(a, np.int32, n) != np.frombuffer(b, np.int32, n))
    return int(differ[0]) if len(differ) else n


class PrefixCache:
    """Keeps the KV of finished sequences: one reference per node to its block."""

    def __init__(self, pool: KvPool, tenancy: Tenancy) -> None:
        self._pool, self._block_ids = pool, pool.kv.tokens
        self._children: dict[bytes, _Node] = {}
        self._clock = 0
        self.dropped_tokens = 0
        """Positions of prefixes that were given up for want of memory, ever."""
        tenancy.drop_prefixes = self.drop

    # --- reuse --------------------------------------------------------------------------------------------

    def begin(self, ids: Sequence[int] | NDArray[np.int32], *, exact: bool) -> KvSequence:
        """A new sequence with the longest cached prefix of `ids`; its length says how much that is.

        The last id is left to be computed, because its logits are needed. An `exact` request gets exact
        blocks only.
        """
        path, length = self._match(np.asarray(ids, np.int32)[:-1].tobytes(), exact)
        self._clock += 1
        for node in path:
            node.last_used = self._clock
        return self._pool.new_sequence([node.block for node in path], length)

    def _match(self, wanted: bytes, exact: bool) -> tuple[list[_Node], int]:
        step = self._block_ids * _ID_BYTES
        path: list[_Node] = []
        children, start = self._children, 0
        while (node := children.get(wanted[start : start + step])) and _usable(node, exact):
            path.append(node)
            children, start = node.children, start + len(node.key)
        length = start // _ID_BYTES
        node, shared = self._best_part(children.values(), wanted[start : start + step], exact)
        return (path, length) if node is None else ([*path, node], length + shared)

    @staticmethod
    def _best_part(nodes: Iterable[_Node], wanted: bytes, exact: bool) -> tuple[_Node | None, int]:
        best, most = None, 0
        for node in nodes:
            shared = _shared_ids(node.key, wanted) if _usable(node, exact) else 0
            if shared > most:
                best, most = node, shared
        return best, most

    # --- keeping ------------------------------------------------------------------------------------------

    def insert(self, ids: Sequence[int] | NDArray[np.int32], sequence: KvSequence) -> None:
        """Keep the blocks of `sequence`, whose first `sequence.length` positions were computed from `ids`.

        Call it before the sequence is released; a cancelled one is cut to its valid length first.
        """
        if len(ids) < sequence.length:
            raise ValueError(f"{sequence.length} positions but {len(ids)} ids")
        data = np.asarray(ids, np.int32)[: sequence.length].tobytes()
        step = self._block_ids * _ID_BYTES
        self._clock += 1
        parent: _Node | None = None
        for index, block in enumerate(sequence.blocks):
            parent = self._insert_block(parent, data[index * step : (index + 1) * step], block)
            if parent is None:
                return

    def _insert_block(self, parent: _Node | None, key: bytes, block: KvBlock) -> _Node | None:
        """The node that now stands for `key`; None when a longer one covers an open tail."""
        children = parent.children if parent else self._children
        node = children.get(key)
        if node is not None:
            self._refresh(node, block)
            return node
        for other in list(children.values()):
            shared = _shared_ids(other.key, key) * _ID_BYTES
            if shared == len(key) and _usable(other, block.provenance.exact):
                other.last_used = self._clock
                return None
            if shared == len(other.key) and not (other.block.provenance.exact and not block.provenance.exact):
                del children[other.key]
                self._pool.drop([other.block])
        node = _Node(key, block, parent)
        node.last_used = self._clock
        self._pool.retain(block)
        children[key] = node
        return node

    def _refresh(self, node: _Node, block: KvBlock) -> None:
        node.last_used = self._clock
        if block.provenance.exact and not node.block.provenance.exact:
            self._pool.retain(block)
            self._pool.drop([node.block])
            node.block = block

    # --- giving up ----------------------------------------------------------------------------------------

    def drop(self, pages: int) -> int:
        """Free at least `pages` pages by dropping unused leaves, least recently used first; pages freed."""
        freed = 0
        order = [(node.last_used, id(node), node) for node in self._nodes() if _idle_leaf(node)]
        heapq.heapify(order)
        while order and freed < pages:
            _, _, node = heapq.heappop(order)
            self._remove(node)
            freed += len(node.block.pages)
            self.dropped_tokens += len(node.key) // _ID_BYTES
            parent = node.parent
            if parent is not None and _idle_leaf(parent):
                heapq.heappush(order, (parent.last_used, id(parent), parent))
        return freed

    def clear(self) -> None:
        """Forget every prefix; blocks in use by sequences stay theirs."""
        blocks = list(self.blocks())
        self._children = {}
        self._pool.drop(blocks)

    def _remove(self, node: _Node) -> None:
        siblings = node.parent.children if node.parent else self._children
        del siblings[node.key]
        self._pool.drop([node.block])

    # --- figures and checks -------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[_Node]:
        stack = list(self._children.values())
        while stack:
            node = stack.pop()
            stack.extend(node.children.values())
            yield node

    def blocks(self) -> Iterator[KvBlock]:
        """The block of every node."""
        return (node.block for node in self._nodes())

    def check_integrity(self) -> None:
        """Raise AssertionError unless keys, parents and lengths are consistent."""
        for node in self._nodes():
            ids = len(node.key) // _ID_BYTES
            siblings = node.parent.children if node.parent else self._children
            assert siblings.get(node.key) is node, "a node is not its parent's child"
            assert 0 < ids <= node.block.filled <= self._block_ids, "a node claims more than was filled"
            assert ids == self._block_ids or not node.children, "an open tail has children"


def _usable(node: _Node, exact: bool) -> bool:
    return node.block.provenance.exact or not exact


def _idle_leaf(node: _Node) -> bool:
    return not node.children and node.block.refs == 1
