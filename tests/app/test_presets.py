"""System prompts and presets as files: read, applied, refused by name."""

from pathlib import Path

import pytest

from ebbtide.app.presets import PresetFolder, describe_preset
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Sampling


@pytest.fixture
def folder(tmp_path: Path) -> PresetFolder:
    folder = PresetFolder(tmp_path)
    folder.prompts.mkdir()
    folder.presets.mkdir()
    (folder.prompts / "brief.md").write_text("Be brief.\n")
    (folder.presets / "wild.toml").write_text('prompt = "brief"\ntemperature = 1.2\n')
    (folder.presets / "own.toml").write_text('system = "Own words."\n')
    return folder


def test_a_preset_changes_only_what_it_names(folder: PresetFolder) -> None:
    before = Sampling(top_k=7)
    assert folder.preset("wild", before) == ("Be brief.", Sampling(top_k=7, temperature=1.2))
    assert folder.preset("own", before) == ("Own words.", before)


def test_all_that_a_preset_changes_is_said(folder: PresetFolder) -> None:
    (folder.presets / "all.toml").write_text('system = "One."\ntemperature = 0.7\ntop_p = 0.9\nseed = 0\n')
    preset = folder.preset("all", Sampling())
    said = describe_preset("all", preset, "You are a pirate", Sampling())
    for part in ("temperature 0.7", "top_p 0.9", "system prompt “One.”", "it was “You are a pirate”"):
        assert part in said
    assert "seed" not in said and "top_k" not in said
    assert describe_preset("all", preset, "One.", preset.sampling) == "Preset all: all is as it was."
    assert "pirate" not in describe_preset("own", folder.preset("own", Sampling()), "", Sampling())


def test_a_prompt_may_be_a_text_file(folder: PresetFolder) -> None:
    (folder.prompts / "pirate.txt").write_text("Talk like a pirate.\n")
    (folder.prompts / "brief.txt").write_text("The other one.")
    (folder.presets / "sea.toml").write_text('prompt = "pirate"\n')
    assert folder.prompt_names() == ["brief", "pirate"]
    assert folder.prompt("pirate") == "Talk like a pirate."
    assert folder.prompt("brief") == "Be brief.", "of two, the Markdown file"
    assert folder.preset("sea", Sampling()).system == "Talk like a pirate."
    with pytest.raises(UsageError) as refused:
        folder.prompt("nobody")
    assert refused.value.hint == "There are: brief, pirate."


def test_names(folder: PresetFolder, tmp_path: Path) -> None:
    assert folder.preset_names() == ["own", "wild"] and folder.prompt_names() == ["brief"]
    assert PresetFolder(tmp_path / "none").preset_names() == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("temperatur = 1", "temperatur"),
        ("temperature = 'hot'", "temperature"),
        ("[", "bad.toml"),
        ("temperature = 99", "temperature = 99 is not between 0 and 10"),
        ("temperature = -1", "temperature"),
        ("top_p = nan", "top_p = nan is not between 0 and 1"),
        ("top_k = -3", "top_k"),
        ("repeat_penalty = 0", "repeat_penalty"),
        ("prompt = 'no'", "brief"),
    ],
)
def test_faults_are_named(folder: PresetFolder, text: str, named: str) -> None:
    (folder.presets / "bad.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        folder.preset("bad", Sampling())
    assert named in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("name", ["missing", "../presets/wild", "/etc/passwd"])
def test_what_is_not_there(folder: PresetFolder, name: str) -> None:
    with pytest.raises(UsageError):
        folder.prompt(name)
