"""Folders: EBBTIDE_HOME over XDG over the system's own."""

from pathlib import Path

import pytest

from ebbtide.app.paths import find_paths


def test_home_contains_everything(home: Path) -> None:
    paths = find_paths()
    for path in (paths.settings_file, paths.models, paths.packs, paths.engine_log):
        assert path.is_relative_to(home)


def test_xdg_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EBBTIDE_HOME")
    for name in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    paths = find_paths()
    assert paths.config == tmp_path / "CONFIG" / "ebbtide"
    assert paths.models == tmp_path / "CACHE" / "ebbtide" / "models"
    assert paths.state == tmp_path / "STATE" / "ebbtide"


def test_a_relative_xdg_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EBBTIDE_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert find_paths().cache.is_absolute()


def test_looking_creates_nothing(home: Path) -> None:
    find_paths()
    assert not home.exists()
