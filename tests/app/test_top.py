"""`ebbtide top`: which engine it looks at, what it prints, and how it ends."""

import json
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from msgspec import structs

from ebbtide.app.commands.top import print_frames
from ebbtide.app.frame_json import experts_object, frame_object
from ebbtide.app.paths import find_paths
from ebbtide.app.top_app import TopApp
from ebbtide.engine.attach import Viewer, app_of, find_engines, find_successor
from ebbtide.engine.client import EngineClient
from ebbtide.engine.endpoint import Endpoint
from ebbtide.engine.errors import EngineDied
from ebbtide.engine.frames import Frame, card_path
from ebbtide.engine.hub import Hub
from ebbtide.engine.messages import Load
from tests.helpers.app_types import Cli
from tests.helpers.chat_host import shown
from tests.helpers.panel_states import decision, loaded, machine, memory, residency, snapshot
from tests.helpers.tiny_models import write_tiny
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the folder of an engine is short enough elsewhere")


@pytest.fixture
def folder(home: Path) -> Path:
    return find_paths().engines


@pytest.fixture
def endpoint(folder: Path) -> Iterator[Endpoint]:
    """An engine that has said everything once."""
    hub = Hub(BytesIO())
    for event in (loaded(2, 4), residency(2, 4, pinned=[(1, 3)]), machine(), snapshot(5, 9, 1, 0)):
        hub.emit(event)
    hub.emit(decision("It gave way", "kv"))
    endpoint = Endpoint(folder, os.getpid(), hub.frame, lambda watch: None)
    yield endpoint
    endpoint.close()


def test_without_an_engine_it_says_what_to_do(cli: Cli) -> None:
    for arguments in (["top"], ["top", "--json"], ["top", "--follow"], ["top", "12345"]):
        result = cli(*arguments)
        assert result.code == 3 and result.out == ""
        assert "ebbtide: No engine" in result.err and "Start `ebbtide`" in result.err


def test_bounds_are_told_with_their_places() -> None:
    picture = structs.replace(
        residency(2, 4), bounds=bytes([0, 5, 0, 0, 0, 0, 4, 0]), held=bytes([0] * 6 + [1, 0])
    )
    told = experts_object(picture)
    assert told["bounds"] == [[0, 1, 5, False], [1, 2, 4, True]] and told["average_bits"] == 8.0
    assert experts_object(residency(2, 4))["bounds"] == [], "where widths do not change"


def test_a_stale_card_is_no_engine(cli: Cli, folder: Path) -> None:
    folder.mkdir(parents=True)
    address = folder / f"{os.getpid()}.sock"
    card_path(folder, os.getpid()).write_text(
        json.dumps({"pid": os.getpid(), "address": str(address), "key": "00"})
    )
    assert cli("top", "--json").code == 3
    assert list(folder.iterdir()) == []


def test_one_object(cli: Cli, endpoint: Endpoint) -> None:
    result = cli("top", "--json")
    assert result.code == 0 and result.out.count("\n") == 1
    shown = json.loads(result.out)
    assert shown["pid"] == os.getpid() and shown["phase"] == "decode" and shown["model"] == "tiny"
    assert shown["experts"]["widths"] == ["0888", "8880"] and shown["experts"]["pinned"] == [[1, 3]]
    assert shown["experts"]["uses"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert shown["memory"]["kv_bytes"] == memory().kv_bytes
    assert shown["machine"]["process_bytes"] == machine().process_bytes and "type" not in shown["machine"]
    assert [one["sentence"] for one in shown["decisions"]] == ["It gave way"]


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_into_a_pipe_it_prints_once(cli: Cli, endpoint: Endpoint, arguments: tuple[str, ...]) -> None:
    result = cli("top", *arguments)
    assert result.code == 0 and json.loads(result.out)["model"] == "tiny"


def test_follow_goes_on_until_the_engine_ends(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = iter(range(3))
    read = Viewer.read

    def three(viewer: Viewer, timeout_s: float) -> Frame | None:
        if next(frames, None) is None:
            raise EngineDied("engine 1 has ended", hint="")
        return read(viewer, timeout_s)

    monkeypatch.setattr(Viewer, "read", three)
    result = cli("top", "--follow")
    assert result.code == 0 and result.out.count("\n") == 3 and "has ended" in result.err


def test_named_by_its_process(cli: Cli, endpoint: Endpoint) -> None:
    assert cli("top", "--json", str(os.getpid())).code == 0
    assert cli("top", "--json", str(os.getpid() + 1)).code == 3


def test_what_is_not_known_is_null() -> None:
    shown = frame_object(Frame(pid=1, at=2.0))
    assert shown["phase"] == "loading" and shown["experts"] is None and shown["memory"] is None
    assert json.dumps(shown)


async def test_the_screen_shows_another_process_engine(endpoint: Endpoint, folder: Path) -> None:
    viewer = Viewer(folder, endpoint.card)
    async with TopApp(viewer, folder, "dark").run_test(size=(120, 40)) as pilot:
        await shown(pilot, "memory · tiny", "6 of 8 in memory", "It gave way")
        await shown(pilot, "q quits", "live", without=["[p] pin"])
        endpoint.close()
        viewer.close()
        await shown(pilot, "no engine")
        await pilot.press("q")


async def test_the_screen_goes_on_with_the_next_engine(endpoint: Endpoint, folder: Path) -> None:
    """As after /budget: the app ends its engine and starts another one."""
    viewer = Viewer(folder, endpoint.card)
    async with TopApp(viewer, folder, "dark").run_test(size=(120, 40)) as pilot:
        await shown(pilot, "6 of 8 in memory", "It gave way")
        endpoint.close()
        viewer.close()
        await shown(pilot, "no engine")
        hub = Hub(BytesIO())
        following = Endpoint(folder, os.getpid(), hub.frame, lambda watch: None)
        try:
            await shown(pilot, f"Attached to the new engine, process {os.getpid()}", "live")
            hub.emit(loaded(3, 4))
            hub.emit(residency(3, 4))
            await shown(pilot, "3 layers of 4 experts", without=["no engine"])
        finally:
            following.close()


def test_after_its_engine_the_app_s_next_one_is_looked_at(folder: Path) -> None:
    """Strangers are not: only where one engine runs, nobody has to choose."""
    clients = [EngineClient(endpoint_folder=folder) for _ in range(2)]
    try:
        for client in clients:
            client.start()
        wait_until(lambda: len(find_engines(folder)) == 2, "two cards")
        assert find_successor(folder, os.getpid()) is None, "two of one app"
        assert find_successor(folder, 0) is None, "two strangers"
        clients[0].close()
        wait_until(lambda: len(find_engines(folder)) == 1, "one card")
        for app in (os.getpid(), 0, 1):
            card = find_successor(folder, app)
            assert card is not None and card.pid == clients[1].pid
        assert app_of(clients[1].pid or 0) == os.getpid() and app_of(2**31 - 1) == 0
    finally:
        for client in clients:
            client.close()


def test_several_engines_are_listed(cli: Cli, endpoint: Endpoint, folder: Path, tmp_path: Path) -> None:
    client = EngineClient(endpoint_folder=folder)
    client.start()
    try:
        client.send(Load(str(write_tiny(tmp_path / "m.gguf", "mixtral")), budget="100%", pack="no"))
        wait_until(lambda: len(find_engines(folder)) == 2, "the second card")
        result = cli("top", "--json")
        assert result.code == 2 and "Several engines" in result.err
        assert f"{os.getpid()} tiny" in result.err and str(client.pid) in result.err
        assert json.loads(cli("top", "--json", str(client.pid)).out)["pid"] == client.pid
    finally:
        client.close()


def test_the_stream_ends_with_its_engine_and_tells_each_decision_once(
    endpoint: Endpoint, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Short(Viewer):
        """The engine ends after three frames."""

        frames = 3

        def read(self, timeout_s: float) -> Frame | None:
            self.frames -= 1
            if self.frames < 0:
                raise EngineDied("engine 1 has ended", hint="")
            return super().read(timeout_s)

    with Short(folder, endpoint.card) as viewer:
        print_frames(viewer)
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    assert [len(line["decisions"]) for line in lines] == [1, 0, 0] and "has ended" in captured.err
