"""The registry: what is a command, what a mistyped one may mean, and a help that misses nothing."""

import pytest

from ebbtide.app.slash.all_commands import REGISTRY
from ebbtide.app.slash.help_text import help_text
from ebbtide.app.slash.keys import KEYS


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/help", "help", ""),
        ("  /RENAME  two  words ", "rename", "two  words"),
        ("/bye", "quit", ""),
        ("/export json", "export", "json"),
    ],
)
def test_commands(text: str, name: str, argument: str) -> None:
    call = REGISTRY.parse(text)
    assert call is not None and call.command is not None
    assert (call.command.name, call.argument) == (name, argument)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "help",
        "/etc/passwd",
        "/etc/passwd is a path",
        "/help\nme",
        "/* a comment */",
        "//",
        "/tmp is full",
        "/\x1b",
    ],
)
def test_questions(text: str) -> None:
    assert REGISTRY.parse(text) is None


@pytest.mark.parametrize(
    ("typed", "meant"), [("hepl", "help"), ("ren", "rename"), ("chat", "chats"), ("budgte", "budget")]
)
def test_a_mistyped_command_is_known_as_such(typed: str, meant: str) -> None:
    for argument in ("", "me", "300 MiB"):
        call = REGISTRY.parse(f"/{typed} {argument}")
        assert call is not None and call.command is None and call.argument == argument
    assert REGISTRY.nearest(typed)[0] == meant


def test_nothing_is_near_to_nonsense() -> None:
    assert REGISTRY.nearest("zzzzzzzz") == []


def test_names_are_unique() -> None:
    names = [name for command in REGISTRY.commands for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))


def test_the_help_has_every_command_and_every_key() -> None:
    text = help_text(REGISTRY)
    for command in REGISTRY.commands:
        assert command.usage in text and command.summary in text and command.key in text
    for key, what in KEYS:
        assert key in text and what in text
    assert max(len(line) for line in text.splitlines()) <= 90


def test_completion_prefers_names_to_aliases() -> None:
    assert [command.name for command in REGISTRY.starting_with("re")][:2] == ["rename", "regenerate"]
    assert "quit" in [command.name for command in REGISTRY.starting_with("by")]


@pytest.mark.parametrize("width", [35, 50, 75, 91, 200])
def test_the_help_fits_its_width_and_loses_no_word(width: int) -> None:
    text = help_text(REGISTRY, width)
    assert max(len(line) for line in text.splitlines()) <= width
    words = text.split()
    for _, what in KEYS:
        assert all(word in words for word in what.split())


def test_the_help_tells_the_keys_that_move_and_copy() -> None:
    keys = " ".join(f"{key} {what}" for key, what in KEYS)
    for word in ("Home", "End", "F4", "Mouse", "Ctrl+C copies"):
        assert word in keys
