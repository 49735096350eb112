"""The transcript alone: what streaming shows, and where the view stands meanwhile."""

import pytest
from textual.geometry import Size
from textual.pilot import Pilot

from ebbtide.app.markdown_parts import PART_BLOCKS
from ebbtide.app.widgets.transcript import Transcript
from ebbtide.app.widgets.turns import AnswerTurn, Note, UserTurn
from tests.helpers.chat_host import settled, until
from tests.helpers.transcript_host import Host

DOCUMENT = """\
# Title

A paragraph with `code`
over two lines.

1. one
2. two

   with a second paragraph
3. three

- a
  - nested
    ```sh
    ls
    ```
- b

> quote

| a | b |
|---|---|
| 1 | 2 |

~~~python
def f():

    return 1
~~~
Last words"""


async def stream(pilot: Pilot[None], answer: AnswerTurn, text: str, size: int = 23) -> None:
    """Push `text` in small pieces, drawing now and then as the screen does."""
    for number, at in enumerate(range(0, len(text), size)):
        answer.push(text[at : at + size])
        if number % 5 == 0:
            await answer.draw()
    await answer.draw()
    await settled(pilot)


async def new_answer(pilot: Pilot[None], host: Host) -> AnswerTurn:
    await host.transcript.add(UserTurn("question"))
    answer = AnswerTurn()
    await host.transcript.add(answer)
    await settled(pilot)
    return answer


async def test_streamed_markdown_ends_like_markdown_rendered_at_once() -> None:
    host = Host()
    async with host.run_test(size=(80, 60)) as pilot:
        answer = await new_answer(pilot, host)
        await stream(pilot, answer, DOCUMENT)
        await answer.finish()
        await settled(pilot)
        streamed, source = host.lines(), answer.text.source
        await host.transcript.clear()
        answer = await new_answer(pilot, host)
        answer.push(DOCUMENT)
        await answer.finish()
        await settled(pilot)
        assert source == DOCUMENT
        assert streamed == host.lines()
        assert any("Last words" in line for line in streamed)


async def test_a_turn_that_is_taken_away_while_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def taken_away(turn: AnswerTurn) -> None:
        await turn.remove()

    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        answer = await new_answer(pilot, host)
        monkeypatch.setattr(AnswerTurn, "_draw_thinking", taken_away)
        answer.push("one\n\n" * (PART_BLOCKS + 1))
        await answer.draw()
        assert not answer.is_attached
        await answer.draw()


async def test_an_open_block_of_code_has_its_shape_before_it_closes() -> None:
    host = Host()
    async with host.run_test() as pilot:
        answer = await new_answer(pilot, host)
        await stream(pilot, answer, "```python\nx = 1\n\ny = 2")
        open_rows = [line for line in host.lines() if "= " in line]
        assert len(open_rows) == 2 and not any("```" in line for line in host.lines())
        assert answer.text.source == ""
        await stream(pilot, answer, "\n```\n")
        assert [line for line in host.lines() if "= " in line] == open_rows


async def test_the_end_is_followed_and_a_short_chat_stands_at_the_top() -> None:
    host = Host()
    async with host.run_test() as pilot:
        answer = await new_answer(pilot, host)
        await stream(pilot, answer, "short")
        assert host.transcript.scroll_y == 0 and "question" in host.lines()[1]
        await stream(pilot, answer, "\n\nparagraph" * 40)
        await until(pilot, lambda: host.transcript.scroll_y == host.transcript.max_scroll_y > 0)


async def test_the_end_is_followed_from_a_layout_that_needs_no_other_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Textual lays out without a second layout to come where it shows what a scroll has uncovered."""
    host, size_updated = Host(), Transcript._size_updated

    def without_another(
        view: Transcript, size: Size, virtual: Size, container: Size, layout: bool = True
    ) -> bool:
        return size_updated(view, size, virtual, container, layout=False)

    async with host.run_test() as pilot:
        answer = await new_answer(pilot, host)
        await stream(pilot, answer, "short")
        monkeypatch.setattr(Transcript, "_size_updated", without_another)
        await stream(pilot, answer, "\n\nparagraph" * 40)
        await until(pilot, lambda: host.transcript.scroll_y == host.transcript.max_scroll_y > 0)


async def test_the_view_stays_where_the_reader_scrolled_to_for_a_thousand_tokens() -> None:
    host = Host()
    async with host.run_test() as pilot:
        answer = await new_answer(pilot, host)
        await stream(pilot, answer, "\n\n".join(f"paragraph {number}" for number in range(30)))
        await until(pilot, lambda: host.transcript.scroll_y == host.transcript.max_scroll_y > 0)
        host.transcript.scroll_page_up(animate=False)
        await until(pilot, lambda: host.transcript.scroll_y < host.transcript.max_scroll_y)
        await settled(pilot)
        top, size = host.lines()[0:10], host.transcript.max_scroll_y
        await stream(pilot, answer, "one more token " * 1000)
        await until(pilot, lambda: host.transcript.max_scroll_y > size + 100)
        assert host.lines()[0:10] == top
        await host.transcript.add(Note("a note"))
        await settled(pilot)
        assert host.lines()[0:10] == top
        await host.transcript.add(UserTurn("a new question"))
        await settled(pilot)
        await until(pilot, lambda: host.transcript.scroll_y == host.transcript.max_scroll_y)


async def test_the_scroll_bar_comes_and_goes_with_what_overflows() -> None:
    async with Host().run_test(size=(80, 12)) as pilot:
        host = pilot.app
        assert isinstance(host, Host)
        transcript = host.transcript
        assert not transcript.show_vertical_scrollbar
        answer = await new_answer(pilot, host)
        await stream(pilot, answer, "a line of its own\n\n" * 12)
        await until(pilot, lambda: transcript.show_vertical_scrollbar)
        await transcript.cut(answer)
        await until(pilot, lambda: not transcript.show_vertical_scrollbar)
