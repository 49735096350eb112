"""Markdown as rows: how blocks look, that nothing is lost at any width, and that growing changes nothing."""

import pytest

from ebbtide.app.markdown_parts import PartSplitter
from ebbtide.app.rendering.document import Document
from ebbtide.app.rendering.rows import Look, Row
from ebbtide.app.safe_text import visible
from tests.app.markdown_corpus.documents import DOCUMENTS, LONG

LOOK = Look()


def document(text: str) -> Document:
    made, splitter = Document(), PartSplitter()
    made.append([*splitter.push(visible(text)), *splitter.flush()])
    return made


def lines(text: str, width: int = 40) -> list[str]:
    return [row.content.plain.rstrip() for row in document(text).rows(width, LOOK)]


def styles(row: Row) -> dict[str, str]:
    """Text -> the style of its span."""
    return {row.content.plain[span.start : span.end]: str(span.style) for span in row.content.spans}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("width", [1, 2, 5, 9, 20, 80])
def test_rows_fit_at_any_width(name: str, width: int) -> None:
    """Below eight cells some stick out."""
    if name in LONG and width < 20:
        return
    for row in document(DOCUMENTS[name]).rows(width, LOOK):
        assert row.content.cell_length <= max(width, 8), row


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in LONG])
def test_a_narrow_screen_shows_every_letter_that_a_wide_one_shows(name: str) -> None:
    wide, narrow = (letters(DOCUMENTS[name], width) for width in (300, 24))
    assert sorted(wide) == sorted(narrow) or "|" in DOCUMENTS[name]
    # Of tables a narrow screen may repeat the heads; it leaves nothing out.
    assert set(wide) <= set(narrow)


def letters(text: str, width: int) -> list[str]:
    return [letter for line in lines(text, width) for letter in line if letter.isalnum()]


def test_the_same_rows_are_given_until_the_width_changes() -> None:
    made = document("one two\n\nthree\n\n")
    before = made.rows(40, LOOK)
    made.append(PartSplitter().push("# four\n"))
    after = made.rows(40, LOOK)
    assert all(old is new for old, new in zip(before, after, strict=False))
    assert len(made.rows(4, LOOK)) > len(after)


def test_of_an_open_end_that_grows_only_the_last_row_is_made_anew() -> None:
    made = Document()
    made.open_text = "one two three\nfour"
    before = made.rows(10, LOOK)
    made.open_text += " five"
    after = made.rows(10, LOOK)
    assert [row.content.plain for row in after] == ["one two", "three four", "five", ""]
    assert after[0] is before[0]
    assert [row.content.plain for row in made.rows(40, LOOK)] == ["one two three four five", ""]
    made.open_text = "other\nfour five"
    assert [row.content.plain for row in made.rows(40, LOOK)] == ["other four five", ""]


def test_a_compact_answer_has_no_empty_rows_between_blocks() -> None:
    rows = document("# Title\n\none\n\n- two\n").rows(40, LOOK, airy=False)
    assert [row.content.plain for row in rows] == ["Title", "one", "• two"]


def test_emphasis_and_where_links_lead() -> None:
    (row, _) = document(
        "**a** *b* ~~c~~ `d` [e](https://x.org) <https://y.org> [z.org](https://z.org/)"
    ).rows(99, LOOK)
    assert row.content.plain == "a b c d e (https://x.org) https://y.org z.org"
    found = styles(row)
    assert found.pop("https://y.org") == found.pop("z.org") == ".answer--link"
    assert found == {
        "a": ".answer--strong",
        "b": ".answer--em",
        "c": ".answer--struck",
        "d": ".answer--inline-code",
        "e": ".answer--link",
        " (https://x.org)": ".answer--faint",
    }


def test_an_image_is_told_and_not_fetched() -> None:
    assert lines("![a cat](cat.png) ![](x.png)", 80) == [
        "[image: a cat] (cat.png) [image: no description] (x.png)",
        "",
    ]


def test_lists_in_lists() -> None:
    assert lines("1. one\n   - two\n     - three\n2. four\n10. five\n") == [
        " 1. one",
        "    • two",
        "      ◦ three",
        " 2. four",
        " 3. five",
        "",
    ]
    assert lines("9) nine\n10) ten\n") == [" 9) nine", "10) ten", ""]
    assert lines("- one\n\n  more\n- two\n") == ["• one", "", "  more", "", "• two", ""]
    assert lines("-\n- b\n") == ["•", "• b", ""]


def test_a_numbered_list_that_grows_moves_none_of_its_items() -> None:
    items = [f"{number}. item {number}\n" for number in range(1, 112)]
    whole = lines("".join(items))
    assert (whole[0], whole[9], whole[99]) == (" 1. item 1", "10. item 10", "100. item 100")
    for count in (5, 9, 10, 99, 100):
        assert lines("".join(items[:count]))[:count] == whole[:count]
    assert lines("100. one two three\n", 14) == ["100. one two", "     three", ""]


def test_levels_of_headings_look_different() -> None:
    rows = document("# a\n\n## b\n\n### c\n\n#### d\n").rows(40, LOOK)
    looks = [styles(row)[row.content.plain] for row in rows if row.content.plain]
    assert len(set(looks)) == 3 and looks[2] == looks[3]


def test_lines_of_a_diff_have_colours() -> None:
    text = "```diff\n@@ -1 +1 @@\n-old\n+new\n same\n```\n"
    for look in (Look(ansi, dark) for ansi in (False, True) for dark in (False, True)):
        found: dict[str, str] = {}
        for row in document(text).rows(40, look):
            found |= {name.strip(): style for name, style in styles(row).items() if style != ".answer--code"}
        assert len({found["@@ -1 +1 @@"], found["-old"], found["+new"]}) == 3, (look, found)


def test_quotes_keep_their_bar_where_lines_are_wrapped() -> None:
    assert lines("> one two\n> three\n>\n> four", 12) == ["▌ one two", "▌ three", "▌", "▌ four", ""]


def test_code_blocks_are_numbered_through_all_parts_and_lists() -> None:
    text = "```py\na\n```\n\n- ```\n  b\n  ```\n\n" + "word\n\n" * 30 + "    c\n\n[late]: https://x.org\n"
    titles = [line.split()[-2:] for line in lines(text) if line[-1:].isdigit()]
    assert titles == [["py", "1"], ["text", "2"], ["text", "3"]]


def test_a_long_line_of_code_goes_on_below() -> None:
    assert lines("```\n0123456789abcdefghij\n```\n", 14) == [
        "      text  1",
        " 0123456789",
        " ↪ abcdefghij",
        "",
    ]


def test_a_table_is_as_wide_as_it_needs_to_be() -> None:
    text = "| name | n |\n|:--|--:|\n| a | 1 |\n| bcdef | 12 |\n"
    assert lines(text) == ["name  │  n", "──────┼───", "a     │  1", "bcdef │ 12", ""]


def test_a_wide_table_wraps_its_widest_cells_and_rules_its_rows() -> None:
    text = "| a | b |\n|---|:-:|\n| x | one two three four |\n| y | z |\n"
    assert lines(text, 14) == [
        "a │     b",
        "──┼───────────",
        "x │  one two",
        "  │ three four",
        "──┼───────────",
        "y │     z",
        "",
    ]


def test_a_table_with_too_many_columns_becomes_records() -> None:
    text = "| one | two | three |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 | 5 | 6 |\n"
    assert lines(text, 12) == [
        "one: 1",
        "two: 2",
        "three: 3",
        "────────────",
        "one: 4",
        "two: 5",
        "three: 6",
        "",
    ]


def test_a_definition_that_comes_late_makes_links_of_earlier_brackets() -> None:
    made, splitter = Document(), PartSplitter()
    made.append(splitter.push("a [word] here\n\n"))
    assert made.rows(60, LOOK)[0].content.plain == "a [word] here"
    made.append([*splitter.push("[word]: https://x.org\n"), *splitter.flush()])
    assert made.rows(60, LOOK)[0].content.plain == "a word (https://x.org) here"
