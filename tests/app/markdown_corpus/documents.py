"""Answers on which rendering while they stream goes wrong, each named after what is difficult in it."""
# ruff: noqa: E501 - the texts are as they are, and characters that look alike are the point

LONG = frozenset({"a line of 100,000 characters", "nested quotes", "nested brackets", "a long table"})
"""Too long for every split point."""

DOCUMENTS = {
    "nothing": "",
    "white space only": " \n\n  \t\n   ",
    "fence never closed": "Look:\n\n```python\ndef f():\n\n    return 1\n\n# not a heading\n",
    "fence without a line": "```",
    "longer fences inside": "````md\n```\ninner\n```\n\n~~~\n````\n\nafter\n\n~~~~\n```\n~~~\n\nx\n~~~~\nend",
    "tilde fence with a backtick line": "~~~\n```\n\n~~~\n\n``` not `a` fence\n\nafter\n",
    "fences in lists": (
        "1. one\n\n   ```sh\n   ls\n\n   pwd\n   ```\n\n2. two\n   - deep\n\n     ~~~\n     a\n\n     b\n     ~~~\n3. end"
    ),
    "a list ends inside its fence": "- ```\n  code\n\n  more\nat the margin\n\n```\nreal\n\nfence\n```\nlast",
    "fences in quotes": "> ```\n> code\n>\n> more\n> ```\n> after\n\ntext\n\n> ~~~\n> open\noutside\n\nlast",
    "indented fences": "   ```\n   code\n  ```\n\n    ```\n    no fence\n\ntext\n    ```\n\n```\ncode\n\nx\n```\nend",
    "info strings": '```py {.a #b k="v"} \x1b[31m\x9b1m\x00\nx\n```\n\n~~~ a`b ```\ny\n~~~\n\n```\u202ex\nz\n```\n',
    "nested lists": "- a\n  - b\n    - c\n      1. d\n      2. e\n\n        loose\n  - f\n* g\n+ h\n\n\n- i",
    "loose after tight": "- a\n- b\n- c\n\n- d\n\n  second paragraph\n\n\n  third\n- e\n\ntext\n\n1) x\n2) y\n\n3) z",
    "numbered from seven": "7. seven\n8. eight\n\n9. nine\n\n0. nought\n\ntext\n\n99999999. big\n100000000. bigger\n",
    "code in lists": "- a\n\n      indented\n\n      code\n\n- b\n\n\tc\n\n1. x\n\n       y\n",
    "tables": (
        "| a | b |\n|:--|--:|\n| 1 | `x \\| y` |\n| 2 |\n| 3 | 4 | 5 |\n| **b** | [l](/u) |\n\n| no | table\n\n"
        "c | d\n:-: | ---\n1 | 2\ntext at the end of it\n\n| x |\n| - \n\n> | q | r |\n> |---|---|\n> | s | t |\n"
    ),
    "a long table": "| n | square |\n|---|:---:|\n"
    + "".join(f"| {n} | {n * n} |\n" for n in range(120))
    + "\nend",
    "late underlines": "One\nline\n===\n\nTwo\n---\n\nThree\n--\nfour\n=\n\n- five\n---\n\n> six\n---\n\n=\n\nlast\n-",
    "rule, heading or list": "a\n***\n- - -\n* * *\n- ---\n_ _ _\n--- x\n- \n-\n\n-- -\n***bold***\n",
    "late definitions": (
        "See [one], [two][] and [the third][3]; ![pic][one].\n\n# About [one]\n\n- [two]\n\n"
        "[one]: /1 \"title\"\n[two]:\n  </2>\n\nAgain [one].\n\n[3]: /3\n  'a\n  title'\n[one]: /other\n[four]"
    ),
    "early definitions": "[a]: /a\n\nfirst\n\n[a] then\n\n> [b]: /b\n\n[b] and [A] and [c]\n\n- [c]: /c\n\n[d]:\n",
    "definitions across parts": "".join(f"[r{n % 3}] paragraph {n}\n\nWords {n}.\n\n" for n in range(24))
    + "[r0]: /0\n\ntext\n\n[r1]: /1",
    "HTML never closed": "<div>\n*a*\n\n<!-- comment\n\n# still?\n\n<script>\nalert(1)\n\n<b>bold</b> <br/> &amp; &#27;",
    "lazy quotes": "> a\nlazy\n> b\n\n> c\n>\n> > d\n> e\nlazy too\n\n>f\n> - g\nlazy\n- h\n\n>\n\n> ",
    "hard breaks": "one  \ntwo\\\nthree   \n\nfour  \n\n`a  \nb`\\\n\n# h  \n\n- x  \n  y\\\n",
    "emphasis over many pieces": "**bold *both* ~~s~~** _a_b_c_ ***x** y* `` ` `` *open\n\n**never closed\n\nclosed** __a__",
    "many scripts": "漢字、**かな**。\n\n👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 e\u0301 \u0301x\n\n# العربية עברית\n\n- 한국어\n- ไทย\n\n| 表 | 👍🏽 |\n|---|---|\n| 値 | é |\n",
    "directions": "a\u202eb\u202c c\u2066d\u2069\n\n`\u202ecode`\n\n```\n\u2067x\u2069\n```\n\nline\u2028separator\u2029end",
    "controls": "a\x1b[31mred\x1b[0m\x00b\x07\n\n\x1b]52;c;x\x07\x9b2J\x85next\n\n- \x08x\x7f\n\n`\x1b[1m`\n\x0c# page\n\x0b\n",
    "line ends": "# a\r\n\r\ntext\r\nmore\r\n\r\n```\r\ncode\r\n\r\n```\r\n- x\r\n- y\r\nlone\rreturn\r\n\r\nend\r",
    "tabs": "-\ta\n\n\tb\n\n\tcode\n\n1.\tx\n\n\t\ty\n\n>\tq\n\n\t```\n\tz\n\na\tb\tc",
    "a line of 100,000 characters": "start\n\n" + "word *em* `c` " * 7_150 + "\n\nend",
    "nested quotes": ">" * 5_000 + " deep\n\nend",
    "nested brackets": "[" * 5_000 + "x" + "]" * 5_000 + "\n\n" + "*_" * 2_000 + "\n\nend",
    "looks like markup of the screen": "[bold]x[/bold] [@click=app.quit]q[/] [/] \\[a] $text [[b]]\n\n```\n[red]c[/]\n```\n\n# [b]h[/b]\n\n| [i] |\n|---|\n| [/i] |\n",
    "footnotes": "A claim[^1] and another[^n].\n\n[^1]: the note\n\n    its second paragraph\n\n[^n]: other\n",
    "front matter": "---\ntitle: x\ntags: [a, b]\n---\n\n# h\n\n***\ntext\n...\n",
    "trailing spaces": "a \n \nb\t\n\t\nc   \n   \n- d \n \n \n  e  ",
    "headings": "# a\n## b #\n###### c\n####### d\n#e\n#\n\n# \nf\n    # g\n - # h\n> # i\n\n#\tj\n",
    "links": "<http://a.b/c> www.a.b http://a.b/(c) a@b.c [x](javascript:y) [x](<a b> 't') ![i](/j 'k') [\n\nm](/n)\n",
    "escapes": "\\*a\\* \\# \\`b\\` &lt; &nosuch; &#x1b; &#0; \\\\\n\n1\\. c\n\n\\- d\n\n\\\n",
    "thirty blocks and a fence": "Words.\n\n" * 22
    + "    ```\n\nText.\n\n```\nWords\n\nin code\n\n```\n\nWords.\n\n"
    + "# h\n" * 25,
    "a very loose list": "- item\n\n  ```\n  Code\n  ```\n\n" * 12 + "Words.\n\n" * 25,
}

THOUGHTS = {
    "thinking": "<think>\nfirst\n\n# second\n</think>\n\nThe **answer**.\n",
    "only the closing tag": "so I *think*\n\n- a\n\n</think>\n\nYes.\n\n1. b\n",
    "never closed": "<think>\nstill at it\n\n```\ncode",
    "tags that do not match": "<think>a<think>b</think>c</think>d <think>e",
    "a tag in code": "Use\n\n```\n<think>\n```\n\nor `<thin` k>",
    "white space around": " \n\n<think>\n\n</think>\n\n\n",
    "half a tag": "<thin",
    "half a closing tag": "<think>a</thi",
    "only a closing tag": "</think>",
    "other case": "<THINK>a</THINK>\n\n<think >b",
}
