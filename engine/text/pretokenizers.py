"""How text is cut into words before byte-level merging, by the name in `tokenizer.ggml.pre`.

The patterns are those of each family's own `tokenizer.json`. Each is applied in turn to the pieces that the
one before left; what matches and what lies between matches both become pieces.
"""

from typing import NamedTuple


class WordRule(NamedTuple):
    """One way of cutting."""

    patterns: tuple[str, ...]
    whole_words: bool = False
    """A word that is a token stays one, whatever the merges say."""
    add_bos: bool = False
    """Texts begin with the BOS token when the file does not say."""


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _TAIL
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _TAIL
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)

_PLAIN = WordRule((_GPT2,))
_DIGITS_APART = WordRule((r"\p{N}", _GPT2))
_LLAMA3_RULE = WordRule((_LLAMA3,), whole_words=True, add_bos=True)

UNNAMED = "default"
"""What files without a name get, as llama.cpp does; the model may have been trained with another rule."""

WORD_RULES: dict[str, WordRule] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "exaone4", "mellum", "a.x-4.0", "jais"), _PLAIN),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"), _DIGITS_APART),
    **dict.fromkeys(("minerva-7b", "mellum2"), _DIGITS_APART),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2"), _LLAMA3_RULE),
    **dict.fromkeys(("dbrx", "smaug-bpe", "chatglm-bpe"), WordRule((_LLAMA3,))),
    "glm4": WordRule((_LLAMA3,), whole_words=True),
    **dict.fromkeys(("qwen2", "stablelm2", "megrez", "deepseek-r1-qwen", "grok-2"), WordRule((_QWEN2,))),
    "tekken": WordRule((_TEKKEN,), whole_words=True, add_bos=True),
    "deepseek-coder": WordRule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u0800-龥가-\ud7ff]+", r"\p{N}")),
    "deepseek-v3": WordRule((r"\p{N}{1,3}", "[一-龥\u3040-\u30ff]+", _DEEPSEEK3)),
    UNNAMED: WordRule((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
}
