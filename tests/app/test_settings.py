"""Settings: defaults, reading, refusing, and changing one field without losing the rest."""

from pathlib import Path

import msgspec
import pytest

from ebbtide.app.settings import Settings, load_settings, save_setting
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Sampling


def test_a_missing_file_means_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "none.toml") == Settings()


def test_defaults_of_sampling_are_the_engines() -> None:
    assert msgspec.structs.asdict(Settings().sampling) == msgspec.structs.asdict(Sampling())


def test_fields_are_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[engine]\nbudget = "8GB"\nthreads = 4\n[chat]\ntheme = "light"\n')
    settings = load_settings(path)
    assert (settings.engine.budget, settings.engine.threads, settings.chat.theme) == ("8GB", 4, "light")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[engine]\nbudgett = '8GB'\n", "budgett"),
        ("[engine]\nthreads = 'many'\n", "threads"),
        ("[chat]\ntheme = 'pink'\n", "theme"),
        ("[engine\n", "settings.toml"),
    ],
)
def test_faults_are_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=named):
        load_settings(path)


def test_saving_keeps_comments_and_other_fields(tmp_path: Path) -> None:
    path = tmp_path / "config" / "settings.toml"
    save_setting(path, "chat", "theme", "dark")
    path.write_text("# mine\n[chat]\ntheme = 'dark'\n[engine]\nctx = 512 # short\n")
    save_setting(path, "chat", "theme", "light")
    assert path.read_text() == '# mine\n[chat]\ntheme = "light"\n[engine]\nctx = 512 # short\n'
    assert load_settings(path).chat.theme == "light"


def test_every_field_is_documented_or_explains_itself() -> None:
    for table in Settings.__struct_fields__:
        assert getattr(Settings(), table).__doc__


@pytest.mark.parametrize("line", ["temperature = 99", "top_p = 1.5", "min_p = nan", "top_k = -1"])
def test_sampling_out_of_range_is_refused_with_the_range(tmp_path: Path, line: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[sampling]\n{line}\n")
    with pytest.raises(UsageError, match=f"{line} is not between 0 and"):
        load_settings(file)
