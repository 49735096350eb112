"""Off, side, full in the chat: what the engine is asked for, and that nothing is when nobody looks."""

import json
from pathlib import Path
from typing import Any

import pytest

from ebbtide.app.panel.control import FAR_S, NEAR_S, period_s
from ebbtide.app.panel.screen import MemoryScreen
from tests.helpers.chat_host import chat_app, drawn, press, ready, screen_of, shown, until
from tests.helpers.fake_engine import Script


def asked(record: Path, kind: str) -> list[dict[str, Any]]:
    """Commands of one kind that the engine got."""
    lines = record.read_text().splitlines() if record.exists() else []
    return [command for line in lines if (command := json.loads(line))["type"] == kind]


@pytest.mark.parametrize(
    ("environment", "period"),
    [
        ({}, NEAR_S),
        ({"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, FAR_S),
        ({"SSH_TTY": "/dev/pts/1"}, FAR_S),
        ({"SSH_TTY": ""}, NEAR_S),
    ],
)
def test_far_away_it_draws_less_often(environment: dict[str, str], period: float) -> None:
    assert period_s(environment) == period


async def test_f2_cycles_and_the_engine_hears_of_it(tmp_path: Path) -> None:
    record = tmp_path / "commands"
    async with chat_app(Script(record=str(record))).run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        chat, panel = screen_of(pilot), screen_of(pilot).panel
        assert panel.form == "off" and not panel.side.display and asked(record, "watch") == []
        press(pilot, "f2")
        await shown(pilot, "F2 more", "180 of 240", "runtime", "Ask about code")
        assert panel.form == "side"
        await until(pilot, lambda: [wish["every_s"] for wish in asked(record, "watch")] == [NEAR_S])
        press(pilot, "f2")
        await shown(pilot, "F2 closes", "L00 · expert 0", without=["Ask about code"])
        assert panel.form == "full" and isinstance(pilot.app.screen, MemoryScreen)
        press(pilot, "right", "p")
        await shown(pilot, "L00 expert 1 pinned by hand", "[p] unpin")
        assert [(pin["layer"], pin["expert"], pin["on"]) for pin in asked(record, "pin")] == [(0, 1, True)]
        press(pilot, "f2")
        await until(pilot, lambda: pilot.app.screen is chat)
        await until(pilot, lambda: [wish["every_s"] for wish in asked(record, "watch")] == [NEAR_S, 0])
        assert panel.form == "off" and "F2 more" not in drawn(pilot.app)


async def test_the_prompt_keeps_the_keys_beside_the_panel() -> None:
    async with chat_app(Script(answer="yes")).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        press(pilot, "f2", *"pe j")
        await shown(pilot, "F2 more", "pe j")


async def test_beside_the_panel_the_status_line_keeps_its_state() -> None:
    async with chat_app(Script(answer="yes")).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        press(pilot, "f2")
        await shown(pilot, "F2 more", "● ready", "context")


async def test_a_narrow_screen_goes_to_the_full_panel_at_once() -> None:
    async with chat_app(Script()).run_test(size=(60, 20)) as pilot:
        await ready(pilot)
        press(pilot, "f2")
        await until(pilot, lambda: isinstance(pilot.app.screen, MemoryScreen))
        press(pilot, "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, MemoryScreen))
        assert screen_of(pilot).panel.form == "off"


async def test_a_model_loaded_again_is_watched_again(tmp_path: Path) -> None:
    record = tmp_path / "commands"
    async with chat_app(Script(record=str(record))).run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        press(pilot, "f2")
        await until(pilot, lambda: len(asked(record, "watch")) == 1)
        screen_of(pilot).session.start()
        await until(pilot, lambda: len(asked(record, "watch")) == 2)
