"""Looking at an engine from another process: only those with the key, never at the engine's cost."""

import errno
import os
import socket
import stat
import threading
from collections.abc import Iterator
from io import BytesIO
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import msgspec
import psutil
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.attach import Viewer, find_engines
from ebbtide.engine.client import EngineClient
from ebbtide.engine.endpoint import Endpoint
from ebbtide.engine.errors import EngineDied
from ebbtide.engine.frames import Card, Frame, card_path, choose_address
from ebbtide.engine.hub import Hub
from ebbtide.engine.observer import Observer, look_at_machine
from tests.helpers.tiny_models import write_tiny
from tests.helpers.waiting import PATIENCE_S, wait_for_end, wait_until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a pipe of Windows has no file to look at")


class Open:
    """An endpoint over a hub, and what it asked to be watched."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wishes = folder, list[m.Watch]()
        self.hub = Hub(BytesIO())
        self.endpoint = Endpoint(folder, os.getpid(), self.hub.frame, self.wishes.append)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    opened = Open(tmp_path / "engines")
    yield opened
    opened.endpoint.close()


def read(viewer: Viewer) -> Frame:
    frame = viewer.read(PATIENCE_S)
    assert frame is not None
    return frame


def test_on_a_full_disk_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        Open(tmp_path / "engines")
    assert list((tmp_path / "engines").iterdir()) == []


def test_a_viewer_gets_the_latest_of_everything(opened: Open) -> None:
    opened.hub.emit(m.Machine(process_bytes=1))
    opened.hub.emit(m.Machine(process_bytes=2))
    opened.hub.emit(m.Decision(1.0, "warm", "one"))
    opened.hub.emit(m.Token(1, "not for viewers", [1]))
    (card,) = find_engines(opened.folder)
    with Viewer(opened.folder, card) as viewer:
        frame = read(viewer)
        assert frame.pid == os.getpid() and frame.machine == m.Machine(process_bytes=2)
        assert [decision.sentence for decision in frame.decisions] == ["one"] and frame.loaded is None
        opened.hub.emit(m.Decision(2.0, "kv", "two"))
        wait_until(lambda: len(read(viewer).decisions) == 2, "the second decision")
    wait_until(lambda: len(opened.wishes) == 2, "the viewer's leave is noticed")
    first, last = opened.wishes
    assert first.every_s > 0 and last.every_s == 0 and first.viewer == last.viewer


def test_only_the_user_may_come_near(opened: Open) -> None:
    card = opened.endpoint.card
    for path, mode in ((opened.folder, 0o700), (card_path(opened.folder, card.pid), 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(Path(card.address).stat().st_mode) == 0o600
    assert len(bytes.fromhex(card.key)) == 32


def test_without_the_key_nothing_is_shown(opened: Open) -> None:
    card = opened.endpoint.card
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        Client(card.address, "AF_UNIX", authkey=b"a guess")
    with pytest.raises(EngineDied):
        Viewer(opened.folder, Card(card.pid, card.address, b"a guess".hex()))
    with Viewer(opened.folder, card) as viewer:
        assert read(viewer).pid == card.pid


def test_a_viewer_that_never_reads_holds_nobody_up(opened: Open) -> None:
    figures = bytes(6144 * 4)
    opened.hub.emit(m.Residency(48, 128, bytes(6144), figures, bytes(6144), [], figures, 1, 0, m.Memory()))
    card = opened.endpoint.card
    with Viewer(opened.folder, card), Viewer(opened.folder, card) as second:
        for number in range(50):
            opened.hub.emit(m.Machine(process_bytes=number))
        assert read(second).residency is not None


def test_too_many_viewers_are_turned_away(opened: Open) -> None:
    card = opened.endpoint.card
    viewers = [Viewer(opened.folder, card) for _ in range(8)]
    for viewer in viewers:
        read(viewer)
    with pytest.raises(EngineDied):
        Viewer(opened.folder, card)
    for viewer in viewers:
        viewer.close()


def test_what_dead_engines_left_is_cleaned_up(tmp_path: Path) -> None:
    folder = tmp_path / "engines"
    folder.mkdir()
    dead = 2**22 + 1  # beyond the largest process id
    (folder / f"{dead}.sock").touch()
    card_path(folder, dead).write_text(f'{{"pid": {dead}, "address": "{folder}/{dead}.sock", "key": "00"}}')
    (folder / "junk.json").write_text("{")
    precious = tmp_path / "precious"
    precious.touch()
    card_path(folder, dead + 1).write_text(f'{{"pid": {dead + 1}, "address": "{precious}", "key": "00"}}')
    assert find_engines(folder) == []
    assert [path.name for path in folder.iterdir()] == ["junk.json"]
    assert precious.exists()


def test_the_next_engine_cleans_up_after_one_that_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "engines"
    client = EngineClient(endpoint_folder=folder)
    client.start()
    try:
        wait_until(lambda: bool(find_engines(folder)), "the card")
        killed = client.pid
        assert killed is not None
        process = psutil.Process(killed)
        process.kill()
        wait_for_end([process])
        client.close()
        assert sorted(path.name for path in folder.iterdir()) == [f"{killed}.json", f"{killed}.sock"]
        opened = Open(folder)
        names = {path.name for path in folder.iterdir()}
        opened.endpoint.close()
        assert names == {f"{os.getpid()}.json", f"{os.getpid()}.sock"}
    finally:
        client.close()


def test_what_is_left_of_a_start_that_was_killed_is_cleaned_up(tmp_path: Path) -> None:
    dead = 2**22 + 1
    for name in (f"{dead}.sock", f"{dead}.new", f"{os.getpid()}.new", "notes.new"):
        (tmp_path / name).touch()
    assert find_engines(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == {f"{os.getpid()}.new", "notes.new"}


def test_a_card_whose_id_another_process_has_now_is_cleaned_up(tmp_path: Path) -> None:
    address = tmp_path / f"{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(address))
    card_path(tmp_path, os.getpid()).write_bytes(msgspec.json.encode(Card(os.getpid(), str(address), "00")))
    assert find_engines(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_took_over_the_id_is_no_engine(tmp_path: Path) -> None:
    address = str(tmp_path / f"{os.getpid()}.sock")
    card = Card(os.getpid(), address, "00")
    card_path(tmp_path, card.pid).write_text(f'{{"pid": {card.pid}, "address": "{address}", "key": "00"}}')
    with pytest.raises(EngineDied, match="does not answer"):
        Viewer(tmp_path, card)
    assert find_engines(tmp_path) == []


def test_a_folder_too_deep_for_a_socket_gets_a_private_one(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    opened = Open(deep)
    address = Path(opened.endpoint.card.address)
    assert len(str(address)) < 100 and stat.S_IMODE(address.parent.stat().st_mode) == 0o700
    with Viewer(deep, find_engines(deep)[0]) as viewer:
        assert read(viewer).pid == os.getpid()
    opened.endpoint.close()
    assert not address.parent.exists() and list(deep.iterdir()) == []
    assert choose_address(Path("/run/e"), 7) == "/run/e/7.sock"


def test_the_real_engine_shows_itself_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "engines"
    client = EngineClient(endpoint_folder=folder)
    client.start()
    try:
        client.send(m.Load(str(write_tiny(tmp_path / "m.gguf", "mixtral")), budget="100%", pack="no"))
        wait_until(lambda: bool(find_engines(folder)), "the card")
        (card,) = find_engines(folder)
        assert card.pid == client.pid
        with Viewer(folder, card) as viewer:
            frames: list[Frame] = []

            def complete() -> bool:
                frames.append(read(viewer))
                return None not in (frames[-1].loaded, frames[-1].residency, frames[-1].machine)

            wait_until(complete, "a frame with everything")
            assert any(decision.kind == "budget" for decision in frames[-1].decisions)
            client.close()
            with pytest.raises(EngineDied, match="has ended"):
                while True:
                    read(viewer)
    finally:
        client.close()
    assert list(folder.iterdir()) == []


def test_the_observer_works_only_while_watched() -> None:
    seen = threading.Event()
    observer = Observer(lambda machine: seen.set(), lambda: m.Machine())
    assert threading.active_count() == sum(thread.name != "observer" for thread in threading.enumerate())
    observer.set_rate(0.25)
    assert seen.wait(PATIENCE_S)
    observer.set_rate(0)


def test_what_the_system_says() -> None:
    machine = look_at_machine()
    assert machine.process_bytes and machine.total_bytes and machine.available_bytes and machine.app_bytes
    assert machine.process_bytes < machine.total_bytes
