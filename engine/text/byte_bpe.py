"""Byte-level BPE (the kind that files call `gpt2`), on the `tokenizers` library."""

from gguf.constants import TokenType
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.gguf.faults import file_name, shown, unsupported, wrong_value
from ebbtide.engine.text.byte_alphabet import CHARACTER_OF, spelled_bytes
from ebbtide.engine.text.pretokenizers import UNNAMED, WORD_RULES, WordRule
from ebbtide.engine.text.vocabulary import KEYS, Vocabulary

_DISPENSABLE = {*range(0x20), 0x7F, 0xC0, 0xC1, *range(0xF1, 0x100)} - set(b"\t\n\r")
"""Control characters, code points beyond every script, bytes that UTF-8 never uses."""


class ByteBpe:
    """Plain text to tokens; special tokens are none of its business."""

    adds_space = False

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        """Raises `ModelError` on an unknown word rule, unusable merges, or bytes without a token."""
        name = file.get_str(KEYS.PRE, "") or UNNAMED
        if name not in WORD_RULES:
            hint = f"Known are {', '.join(sorted(WORD_RULES))}; a newer ebbtide may know more."
            raise unsupported(file.path, f"its text splitting {shown(name)} ({KEYS.PRE})", hint)
        rule = WORD_RULES[name]
        self.adds_bos = rule.add_bos
        self.notices = _notices(file, name)
        self._library = _build(file, vocabulary, rule)

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`, without any special token."""
        return self._library.encode(text, add_special_tokens=False).ids

    @staticmethod
    def token_bytes(text: str) -> bytes:
        """The bytes of a token of kind NORMAL, from its text in the file."""
        return spelled_bytes(text)


def _notices(file: GgufFile, name: str) -> tuple[str, ...]:
    if name != UNNAMED:
        return ()
    return (f"{file_name(file.path)} does not say how text is split ({KEYS.PRE}); answers may suffer",)


def _build(file: GgufFile, vocabulary: Vocabulary, rule: WordRule) -> LibraryTokenizer:
    hidden = vocabulary.ids_of_kind(TokenType.CONTROL, TokenType.UNKNOWN)
    ids = {text: token for token, text in enumerate(vocabulary.texts)}
    for token in hidden:
        # Out of reach of plain text: with whole_words a control token's text could otherwise be matched.
        ids.pop(vocabulary.texts[token], None)
    _check_bytes(file, ids)
    merges = _read_merges(file)
    try:
        model = models.BPE(ids, merges, ignore_merges=rule.whole_words)
    except Exception as error:  # the library has no exception type of its own
        raise wrong_value(file.path, KEYS.MERGES, shown(str(error)), "merges of its own tokens") from error
    library = LibraryTokenizer(model)
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    to_alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_alphabet])
    return library


def _read_merges(file: GgufFile) -> list[tuple[str, str]]:
    merges = []
    for merge in file.require_strs(KEYS.MERGES):
        left, _, right = merge.partition(" ")
        if not left or not right:
            raise wrong_value(file.path, KEYS.MERGES, shown(merge), "two tokens with a space between")
        merges.append((left, right))
    return merges


def _check_bytes(file: GgufFile, ids: dict[str, int]) -> None:
    """A byte without a token is left out of the text, here as elsewhere: refuse where that could matter."""
    absent = [b for b in range(256) if b not in _DISPENSABLE and CHARACTER_OF[b] not in ids]
    if absent:
        shown_bytes = ", ".join(f"0x{byte:02X}" for byte in absent[:8])
        raise ModelError(
            f"{file_name(file.path)}: its vocabulary has no token for {len(absent)} bytes ({shown_bytes})",
            hint="Text with these bytes could not be read: get another GGUF of this model.",
        )
