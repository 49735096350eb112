"""A file that cannot be loaded is refused by `/model` before the model that answers is let go."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ebbtide.app.chat_app import ChatApp, PostEvent
from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.commands.chat import model_finder
from ebbtide.app.context import AppContext
from ebbtide.app.phase import Phase
from ebbtide.engine.client import EngineClient
from ebbtide.engine.errors import ModelError
from ebbtide.engine.messages import Load
from tests.helpers.chat_host import ask, ready, screen_of, shown
from tests.helpers.fake_engine import Script, command_line
from tests.helpers.tiny_models import write_tiny

BEFORE = Load("/models/tiny.gguf", budget="40%")


def cut_short(folder: Path) -> Path:
    path = write_tiny(folder / "cut.gguf", "llama")
    path.write_bytes(path.read_bytes()[:-4000])
    return path


def other_architecture(folder: Path) -> Path:
    path = write_tiny(folder / "rnn.gguf", "llama")
    path.write_bytes(path.read_bytes().replace(b"llama", b"rwkv7"))
    return path


def other_version(folder: Path) -> Path:
    path = write_tiny(folder / "new.gguf", "llama")
    path.write_bytes(b"GGUF" + (99).to_bytes(4, "little") + path.read_bytes()[8:])
    return path


def without_a_tensor(folder: Path) -> Path:
    return write_tiny(folder / "part.gguf", "llama", drop=["blk.1.ffn_down.weight"])


def text(folder: Path) -> Path:
    (folder / "notes.gguf").write_text("not a model")
    return folder / "notes.gguf"


def nothing(folder: Path) -> Path:
    return folder / "nowhere.gguf"


BAD = [cut_short, other_architecture, other_version, without_a_tensor, text, nothing]


@pytest.mark.parametrize("make", BAD)
def test_a_bad_file_is_not_found(make: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model_finder(AppContext())(str(make(tmp_path)), BEFORE)
    assert caught.value.hint


def test_a_good_file_is_found_and_all_other_wishes_stay(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "good.gguf", "qwen2moe")
    assert model_finder(AppContext())(str(path), BEFORE) == Load(str(path), budget="40%")


async def test_the_loaded_model_stays_and_the_reason_is_said(tmp_path: Path) -> None:
    def make_session(post_engine: PostEvent, post_fetcher: PostEvent) -> ChatSession:
        return ChatSession(EngineClient(command=command_line(Script()), on_event=post_engine), BEFORE)

    bad = cut_short(tmp_path)
    app = ChatApp(make_session, "dark", ChatTools(find_model=model_finder(AppContext())))
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        session = screen_of(pilot).session
        life, before = session.model.life, session.loaded
        await ask(pilot, f"/model {bad}")
        await shown(pilot, "cut short")
        assert session.loaded is before and session.phase is Phase.READY and session.model.life == life
