"""What is drawn can be read in every theme, at every size, and no resizing breaks it."""

import random

import pytest
from textual.events import AppBlur, AppFocus, Resize
from textual.geometry import Size
from textual.pilot import Pilot

from ebbtide.app.chat_app import ChatApp
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.picker import Picker
from ebbtide.app.screens.text_page import TextPage
from ebbtide.app.settings import ChatSettings
from ebbtide.app.widgets.turn_chooser import TurnChooser
from tests.helpers.chat_host import (
    answered,
    ask,
    chat_app,
    drawn,
    press,
    prompt_of,
    ready,
    screen_of,
    settled,
    shown,
    transcript_of,
    until,
    written,
)
from tests.helpers.contrast import faint_texts
from tests.helpers.fake_engine import Script

TERMINALS = {
    "dark": ("#000000", "#ffffff"),
    "light": ("#ffffff", "#000000"),
    "ansi-dark": ("#000000", "#e5e5e5"),
    "ansi-light": ("#ffffff", "#000000"),
}
"""Theme -> the terminal's own background and text."""
EVERYTHING = """<think>
hidden
</think>

# Heading one
## Heading two
### Heading three

A paragraph with `code`, **bold**, *italic*, ~~struck~~ and a [link](https://example.org).

```python
import os  # a comment
@decorator
class Name(Base):
    def f(self, x: int = 12) -> str:
        return f"text {x!r}" + 'more' if None else True
```

```sh
for f in *.txt; do echo "$f" | wc -l; done
```

```json
{"a": [1, 2.5, null, true]}
```

1. one
- a
  - b

> a quote

| a | b |
|---|---|
| 1 | 2 |

---
"""


@pytest.mark.parametrize("theme", TERMINALS)
async def test_every_text_has_enough_contrast(theme: str) -> None:
    paper, ink = TERMINALS[theme]
    script = Script(answer=EVERYTHING, notices=["a notice"])
    async with chat_app(script, theme).run_test(size=(100, 90)) as pilot:
        await ready(pilot)
        await shown(pilot, "a notice")
        assert faint_texts(pilot.app, paper, ink) == []
        await answered(pilot, "a question")
        await ask(pilot, "/budget nonsense")
        await shown(pilot, "is not a size", "Heading three", "a quote")
        await settled(pilot)
        assert faint_texts(pilot.app, paper, ink) == []
        press(pilot, "ctrl+up")
        await until(pilot, lambda: screen_of(pilot).query_one(TurnChooser).has_focus)
        press(pilot, "x", "enter")
        await shown(pilot, "not sent to the model", "hidden", "Esc back")
        assert faint_texts(pilot.app, paper, ink) == []
        press(pilot, "escape")
        await until(pilot, lambda: prompt_of(pilot).has_focus)
        press(pilot, "/", "r")
        await shown(pilot, "▸ /rename")
        assert faint_texts(pilot.app, paper, ink) == []


@pytest.mark.parametrize("size", [(20, 5), (20, 8), (40, 17), (80, 18)], ids=str)
async def test_the_prompt_is_always_seen(size: tuple[int, int]) -> None:
    """Whatever else wants to stand at the bottom: a queue, completions, a long draft."""
    slow = Script(answer="word " * 5000, token_delay_s=0.01)
    async with chat_app(slow).run_test(size=size) as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: screen_of(pilot).session.answer.text != "")
        for number in range(6):
            await ask(pilot, f"question {number} that is longer than the screen is wide")
            await written(pilot, "")
        prompt, screen = prompt_of(pilot), screen_of(pilot)
        await shown(pilot, "6 queued")
        assert caret_is_seen(pilot)
        press(pilot, "escape")
        await shown(pilot, "6 held")
        prompt.text = "\n".join(f"line {number}" for number in range(12)) + "\n/"
        prompt.move_cursor(prompt.document.end)
        await settled(pilot)
        assert caret_is_seen(pilot) and screen.region.contains_region(prompt.region)
        prompt.text = ""
        press(pilot, "/")
        await shown(pilot, "▸ /new")
        press(pilot, *["down"] * 7)
        await shown(pilot, "▸ /copy")
        assert caret_is_seen(pilot) and screen.region.contains_region(prompt.region)


def caret_is_seen(pilot: Pilot[None]) -> bool:
    prompt = prompt_of(pilot)
    return prompt.region.height > 0 and prompt.content_region.intersection(
        pilot.app.screen.region
    ).contains_point(prompt.cursor_screen_offset)


@pytest.mark.parametrize("theme", TERMINALS)
async def test_lists_and_pages_have_enough_contrast(theme: str) -> None:
    paper, ink = TERMINALS[theme]
    async with chat_app(Script(), theme).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await shown(pilot, "Weights and context")
        assert faint_texts(pilot.app, paper, ink) == []
        press(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await shown(pilot, "/new")
        assert faint_texts(pilot.app, paper, ink, "#picker") == []
        press(pilot, "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        press(pilot, "f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextPage))
        await shown(pilot, "Ctrl+J")
        assert faint_texts(pilot.app, paper, ink, "#page") == []


@pytest.mark.parametrize("size", [(20, 5), (10, 3), (1, 1), (80, 24), (200, 60)])
async def test_any_size_is_survived_and_used(size: tuple[int, int]) -> None:
    script = Script(
        answer="a **very** long answer " * 20 + "\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n"
    )
    async with chat_app(script).run_test(size=size) as pilot:
        await ready(pilot)
        await answered(pilot, "hello")
        for key in ("ctrl+up", "escape", "ctrl+p", "escape", "f1", "escape"):
            press(pilot, key)
            await settled(pilot)
        if size[1] >= 5:
            await shown(pilot, "Ask")


async def test_a_storm_of_resizing_while_an_answer_streams() -> None:
    chooser = random.Random(7)
    script = Script(answer="word " * 400 + "\n\n```python\nx = 1\n```\n", token_delay_s=0.002)
    async with chat_app(script).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        for _ in range(60):
            size = Size(chooser.randint(1, 160), chooser.randint(1, 50))
            pilot.app.post_message(Resize(size, size))
            if chooser.random() < 0.2:
                await pilot.pause()
        await pilot.resize_terminal(100, 40)
        await ready(pilot)
        await shown(pilot, "x = 1", "python  1", "tiny")


async def test_losing_and_getting_the_focus_restyles_nothing_but_the_prompt() -> None:
    async with chat_app(Script(answer="an answer\n\n- a\n- b\n")).run_test() as pilot:
        await ready(pilot)
        for text in ("one", "two", "three"):
            await answered(pilot, text)
        await settled(pilot)
        inside = [
            widget for turn in transcript_of(pilot).turns for widget in turn.walk_children(with_self=True)
        ]
        before = {widget: widget.styles._updates for widget in inside}
        for event in (AppBlur(), AppFocus(), AppBlur(), AppFocus()):
            pilot.app.post_message(event)
            await settled(pilot)
        changed = [widget for widget in inside if widget.styles._updates != before[widget]]
        assert len(inside) >= 4 * 3 and changed == []


async def test_the_caret_stands_behind_wide_characters() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        for character, cells in (("a", 1), ("漢", 3), ("字", 5), ("👍", 7)):
            prompt_of(pilot).insert(character)
            await settled(pilot)
            start = prompt_of(pilot).content_region.x
            assert prompt_of(pilot).cursor_screen_offset.x - start == cells


async def test_compact_has_less_empty_space_and_is_remembered() -> None:
    remembered: list[tuple[str, object]] = []
    app = chat_app(Script(answer="ok"))
    async with app.run_test() as pilot:
        await ready(pilot)
        screen_of(pilot).tools.remember = lambda name, value: remembered.append((name, value))
        for text in ("one", "two"):
            await answered(pilot, text)
        await settled(pilot)
        before = _row_of(pilot, "ok")
        await ask(pilot, "/density")
        await until(pilot, lambda: screen_of(pilot).has_class("-compact"))
        await until(pilot, lambda: _row_of(pilot, "ok") < before)
        assert remembered == [("compact", True)]


def _row_of(pilot: Pilot[None], text: str) -> int:
    rows = [row for row, line in enumerate(drawn(pilot.app).split("\n")) if line.strip() == text]
    return rows[0] if rows else 999


async def test_reduced_motion_stops_what_moves_by_itself() -> None:
    tools = ChatTools(settings=ChatSettings(reduced_motion=True))
    plain = chat_app(Script())
    app = ChatApp(lambda engine, fetcher: plain.session, tools=tools)
    async with app.run_test() as pilot:
        await until(pilot, lambda: prompt_of(pilot).has_focus)
        assert app.animation_level == "none" and not prompt_of(pilot).cursor_blink


async def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = chat_app(Script(answer="**ok**"))
    async with app.run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "q")
        await shown(pilot, "ok")
        segments = [segment for strip in app.screen._compositor.render_strips() for segment in strip]
        colors = {
            segment.style.color.triplet for segment in segments if segment.style and segment.style.color
        }
        greys = [color for color in colors if color and len(set(color)) == 1]
        assert app.no_color and greys == [color for color in colors if color]


@pytest.mark.parametrize("frame", ["{}", "```\n{}\n```", "- {}", "| a |\n|---|\n| {} |", "`{}`"])
async def test_a_line_of_100_000_characters_is_survived(frame: str) -> None:
    script = Script(answer=frame.format("y" * 100_000) + "\n\nThe end.")
    async with chat_app(script).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "x" * 100_000)
        await shown(pilot, "The end.")
        press(pilot, "a")
        await until(pilot, lambda: prompt_of(pilot).text == "a")
