"""Texts on which tokenizers and templates go wrong."""
# ruff: noqa: RUF001 - characters that look alike are the point

import inspect
import textwrap

NASTY = (
    "",
    " ",
    "Hello world",
    " leading and trailing ",
    "  two   three    four     five",
    "tabs\t\there\n\n\nlines",
    "carriage\r\nreturns\r\n\r\n\rhere",
    "\t \t \n \n  \n",
    " " * 37 + "x",
    "\n" * 20,
    "a" * 100,
    "." * 50 + "!?" * 9,
    "don't I'LL we've they'Re 'S 's' rock'n'roll",
    "12345 1 22 333 4444 ４５ ½ ²³ ٣٤ 1,234.5e-10",
    "日本語のテキスト、漢字。カタカナーひらがな",
    "中文字符。English混排，标点！",
    "한국어 텍스트 ᄒ",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 😀 🇩🇪🇫🇷 ❤️",
    "e\u0301 n\u0303 a\u0323\u0308 x\u0338\u031b\u0354y \u0301",
    "Ǆ ß İ ı ﬁ ﬀ ﷺ Ⅷ ª",
    "العربية نص עברית ไทย हिन्दी తెలుగు",
    "def f(x):\n    return x**2  # comment\n\n\tif a != b: pass\n",
    'for (int i=0;i<n;++i){a[i]|=b->c&0xFF;} // "x\\n"',
    '{"a": [1, 2.5e-10, null], "b": "\\u00e9"}',
    "https://a.b/c?d=e&f=g#h user@host ~/x $HOME `ls -l` ^|<=>+",
    "<|im_end|> <|endoftext|><|im_start|>user\nhi<|im_end|>",
    "<s></s> <unk> <0x0A> [INST] [/INST] <think> </think>",
    "<|im_<|im_end|>end|> < |im_end| > <|IM_END|>",
    "\u00a0\u2003\u200b\u3000 x\u0085y\u2028z\u2029",
    "\x01\x02\x7f\x1b[31m\x08",
    "\ufffd\ufeff\u2581 ▁x ▁▁ Ġ Ċ",
    "$100.00 €5 £3 ¥7 50% ©®™ §¶ “quoted” ‘x’ – —",
    inspect.getsource(textwrap),
)

ALPHABET = "abcdeTHEthe'sLl.,!<>|_=/ \t\n\r\u00a00123456789éüß日本語가나👍🏽\u200d\u0301مرnm-()"
"""Characters for random texts, all long in Unicode, so that libraries agree about their classes."""
