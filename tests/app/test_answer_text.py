"""The text of an answer on the screen: what is drawn again, selecting it, other themes."""

from typing import Any

import pytest
from textual.geometry import Region

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.themes import ANSI_LIGHT, LIGHT
from ebbtide.app.widgets.turns import AnswerTurn
from tests.helpers.chat_host import settled
from tests.helpers.transcript_host import Host


async def test_a_word_in_the_last_line_draws_that_line_and_asks_for_no_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host()
    async with host.run_test(size=(60, 24)) as pilot:
        answer = AnswerTurn()
        await host.transcript.add(answer)
        answer.push("# Title\n\none\n\ntwo words")
        await answer.draw()
        await settled(pilot)
        asked: list[tuple[Any, Any]] = []
        monkeypatch.setattr(
            answer.text, "refresh", lambda *regions, layout=False: asked.append((regions, layout))
        )
        answer.push(" and a third")
        await answer.draw()
        width = answer.text.content_size.width
        assert asked == [((Region(0, 4, width, 1),), False)]
        await answer.draw()
        assert len(asked) == 1
        answer.push("\n\nmore")
        await answer.draw()
        assert asked[1:] == [((), True)]


async def test_what_is_selected_is_the_text_and_not_its_lines() -> None:
    host = Host()
    async with host.run_test(size=(30, 24)) as pilot:
        text = "- one two three four five six seven\n- eight\n"
        answer = AnswerTurn(AnswerContent.of(text))
        await host.transcript.add(answer)
        await settled(pilot)
        assert [line.strip() for line in host.lines()[1:4]] == [
            "• one two three four",
            "five six seven",
            "• eight",
        ]
        await pilot.mouse_down(answer.text, offset=(6, 0))
        await pilot.hover(answer.text, offset=(6, 1))
        await pilot.mouse_up(answer.text, offset=(6, 1))
        assert host.screen.get_selected_text() == "two three four five"
        selected = [
            part.text
            for strip in host.screen._compositor.render_strips()
            for part in strip
            if part.style is not None
            and part.style.bgcolor == host.screen.get_component_rich_style("screen--selection").bgcolor
        ]
        assert "".join(selected).split() == ["two", "three", "four", "five"]
        answer.text.text_select_all()
        assert host.screen.get_selected_text() == "• one two three four five six seven\n• eight"


async def test_code_changes_its_colours_with_the_theme() -> None:
    host = Host()
    async with host.run_test(size=(60, 24)) as pilot:
        await host.transcript.add(AnswerTurn(AnswerContent.of("```python\nclass A: pass\n```\n")))
        looks = []
        for theme in (host.theme, LIGHT.name, ANSI_LIGHT.name):
            host.theme = theme
            await settled(pilot)
            styles = [
                part.style
                for strip in host.screen._compositor.render_strips()
                for part in strip
                if part.text.startswith("class")
            ]
            assert len(styles) == 1
            looks.append(styles[0])
        assert len(set(looks)) == 3


async def test_at_the_smallest_widths_nothing_breaks() -> None:
    host = Host()
    blocks = (
        "> - quote\n>   - deep\n>     1. deeper",
        "| a | b |\n|--|--|\n| 1 | 2 |",
        "```\ncode\n```",
        "日本語",
    )
    text = "\n\n".join(["# Title", *blocks])
    async with host.run_test(size=(60, 24)) as pilot:
        await host.transcript.add(AnswerTurn(AnswerContent.of(text)))
        for width in range(12, 0, -1):
            await pilot.resize_terminal(width, 10)
            await settled(pilot)
        await pilot.resize_terminal(60, 24)
        await settled(pilot)
        assert any("Title" in line for line in host.lines())
