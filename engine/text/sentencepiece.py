"""SentencePiece BPE (the kind that files call `llama`): the best-scored neighbours merge first.

Not on the `tokenizers` library, on purpose: that ranks *pairs*, SentencePiece ranks the *piece* that a pair
makes and takes the leftmost of equals, so the two differ where one piece can be made in two ways (runs of
spaces, "aaa"). Algorithm: Kudo and Richardson 2018, the BPE encoder; characters without a piece become bytes.
"""

from heapq import heapify, heappop, heappush

import numpy as np
from gguf.constants import TokenType

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.gguf.faults import file_name, wrong_value
from ebbtide.engine.text.vocabulary import KEYS, Vocabulary, read_id

SPACE = "\u2581"
_MERGED_AWAY = ""


class SentencePiece:
    """Plain text to tokens; special tokens are none of its business."""

    adds_bos = True
    notices: tuple[str, ...] = ()

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        """Raises `ModelError` when scores are missing, or bytes have neither a piece nor an unknown token."""
        self.adds_space = file.get_bool(KEYS.ADD_PREFIX, True)
        scores = file.require_floats(KEYS.SCORES)
        if len(scores) != len(vocabulary):
            expected = f"one for each of {len(vocabulary)} tokens"
            raise wrong_value(file.path, KEYS.SCORES, f"{len(scores)} entries", expected)
        reserved = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.BYTE)
        plain = np.flatnonzero(~np.isin(vocabulary.kinds, [int(kind) for kind in reserved]))
        self._ids = {vocabulary.texts[i]: int(i) for i in plain}
        self._cost = {vocabulary.texts[i]: -float(scores[i]) for i in plain}
        self._bytes = _byte_pieces(file, vocabulary)

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`; the caller has put the leading space there if one is due."""
        pieces = self._merge(list(text.replace(" ", SPACE)))
        tokens: list[int] = []
        for piece in pieces:
            if (token := self._ids.get(piece)) is not None:
                tokens.append(token)
            else:
                tokens.extend(self._bytes[byte] for byte in piece.encode())
        return tokens

    @staticmethod
    def token_bytes(text: str) -> bytes:
        """The bytes of a piece of kind NORMAL, from its text in the file."""
        return text.replace(SPACE, " ").encode()

    def _merge(self, pieces: list[str]) -> list[str]:
        """Merge neighbours, lowest cost first and leftmost among equals, until no pair makes a piece."""
        count, cost = len(pieces), self._cost
        after = list(range(1, count + 1))
        before = list(range(-1, count - 1))
        pairs = (pieces[i] + pieces[i + 1] for i in range(count - 1))
        queue = [(cost[pair], i, pair) for i, pair in enumerate(pairs) if pair in cost]
        heapify(queue)
        while queue:
            _, left, merged = heappop(queue)
            right = after[left]
            if right >= count or not pieces[left] or pieces[left] + pieces[right] != merged:
                continue  # one of the two has been merged with somebody else since
            pieces[left], pieces[right] = merged, _MERGED_AWAY
            after[left] = following = after[right]
            if following < count:
                before[following] = left
                _offer(queue, cost, left, merged + pieces[following])
            if (previous := before[left]) >= 0:
                _offer(queue, cost, previous, pieces[previous] + merged)
        return [piece for piece in pieces if piece]


def _offer(queue: list[tuple[float, int, str]], cost: dict[str, float], left: int, pair: str) -> None:
    if pair in cost:
        heappush(queue, (cost[pair], left, pair))


def _byte_pieces(file: GgufFile, vocabulary: Vocabulary) -> list[int]:
    """The token of each byte value; the unknown token where a byte has no piece."""
    known = {vocabulary.texts[token]: token for token in vocabulary.ids_of_kind(TokenType.BYTE)}
    unknown = read_id(file, KEYS.UNK_ID, len(vocabulary))
    pieces = [known.get(f"<0x{byte:02X}>", unknown) for byte in range(256)]
    complete = [piece for piece in pieces if piece is not None]
    if len(complete) < len(pieces):
        raise ModelError(
            f"{file_name(file.path)}: its vocabulary has neither pieces for all bytes nor an unknown token",
            hint="Not every text could be read: get another GGUF of this model.",
        )
    return complete
