"""The starter as the app sees it: when it has to be fetched, and how packs of it are made without asking."""

import json
from pathlib import Path

import pytest

from ebbtide.app import background, starter
from ebbtide.app.commands.loading import find_load, needs_fetching
from ebbtide.app.context import AppContext
from ebbtide.app.models import find_models, resolve, with_starter
from ebbtide.app.options import EngineFlags
from ebbtide.app.paths import find_paths
from ebbtide.engine.errors import NetworkError
from tests.helpers.app_types import Cli


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished starter, made from the delta that is shipped."""
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "manifest.json").write_text(json.dumps({"delta": {"sha256": "abc"}}))
    monkeypatch.setattr(starter, "_ASSETS", assets)
    path = starter.starter_file(find_paths())
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 10)
    starter.marker_of(path).write_text(json.dumps({"bytes": 10, "delta_sha256": "abc"}))
    return path


def test_a_finished_starter_is_not_fetched_again(finished: Path) -> None:
    load = find_load(AppContext(), None, EngineFlags())
    assert load.path == str(finished) and not needs_fetching(AppContext(), load)
    assert load.pack == "yes"


def test_no_pack_when_the_person_says_so(finished: Path) -> None:
    assert find_load(AppContext(), "starter", EngineFlags(pack="no")).pack == "no"


@pytest.mark.parametrize(
    "note", ['{"bytes": 9, "delta_sha256": "abc"}', '{"bytes": 10, "delta_sha256": "old"}', "[", ""]
)
def test_an_unfinished_or_old_starter_is_fetched(finished: Path, note: str) -> None:
    starter.marker_of(finished).write_text(note)
    assert needs_fetching(AppContext(), find_load(AppContext(), None, EngineFlags()))


def test_a_missing_starter_is_fetched() -> None:
    assert needs_fetching(AppContext(), find_load(AppContext(), None, EngineFlags()))


def test_another_model_is_never_fetched(model: str) -> None:
    load = find_load(AppContext(), model, EngineFlags())
    assert not needs_fetching(AppContext(), load) and load.pack == "ask"


def test_ls_shows_the_starter_and_rm_removes_it_whole(finished: Path, cli: Cli) -> None:
    (finished.parent / "base-model.gguf").write_bytes(b"x")
    assert cli("ls").out.split()[:1] == ["starter-Q8_0"] and "base" not in cli("ls").out
    assert cli("rm", "starter").code == 0
    assert not finished.exists() and not starter.marker_of(finished).exists()


def test_a_starter_that_is_gone_is_found_by_all_its_names_and_offered(finished: Path) -> None:
    finished.unlink()
    paths = find_paths()
    for name in ("starter", "starter-Q8_0", str(finished)):
        assert resolve(name, paths) == finished
    (offered,) = with_starter([], paths)
    assert (offered.path, offered.source) == (finished, "made when chosen")
    assert resolve(str(offered.path), paths) == finished


def test_a_starter_that_is_there_is_offered_once(finished: Path) -> None:
    paths = find_paths()
    assert [model.path for model in with_starter(list(find_models(paths)), paths)] == [finished]


def test_a_failed_fetch_ends_with_its_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Path:
        raise NetworkError("no network", hint="Connect.")

    monkeypatch.setattr(background, "run_job", fail)
    for command in (["pull"], ["run", "-p", "hi"], ["chat", "--plain"]):
        assert cli(*command).code == 6
