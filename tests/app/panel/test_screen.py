"""The full panel driven by keys, at every size; only what has changed is drawn again."""

import json
import re

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input

from ebbtide.app.panel.canvas import Cells
from ebbtide.app.panel.event_log import LastDecision
from ebbtide.app.panel.expert_map import ExpertMap
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.grid import Place
from ebbtide.app.panel.help_text import panel_help
from ebbtide.engine.messages import Evict, Failed, Pin, Progress
from tests.helpers.panel_host import PanelHost
from tests.helpers.panel_states import MIB, decision, feed, loaded, machine, residency

DASH = "\N{EN DASH}"
SIZES = [(80, 24), (120, 40), (200, 60)]


async def drawn(pilot: Pilot[None]) -> str:
    """The screen once everything is drawn."""
    for _ in range(3):
        await pilot.pause()
        host(pilot).panel.update()
    await pilot.pause()
    return host(pilot).text()


def host(pilot: Pilot[None]) -> PanelHost:
    assert isinstance(pilot.app, PanelHost)
    return pilot.app


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_everything_has_a_name(size: tuple[int, int], theme: str) -> None:
    async with PanelHost(feed(), theme).run_test(size=size) as pilot:
        text = await drawn(pilot)
    for words in (
        "memory · tiny",
        "live",
        "270 of 300 MiB",
        *("dense 60", "experts 160", "KV 40", "work 10", "runtime 125", "free 30"),
        "process 400 MiB = 270 in use + 5 kept free + 125 runtime",
        "Context 10 gave way",
        *("decode", "hits", "moved"),
        "180 of 240 in memory",
        "L00 · expert 0",
        "[p] pin",
        "pinned by hand",
    ):
        assert words in text
    lines = text.split("\n")
    assert len(lines) == size[1] and all(len(line) <= size[0] for line in lines)


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (30, 12), (60, 18), (300, 10)])
async def test_no_size_is_too_small(size: tuple[int, int]) -> None:
    async with PanelHost(feed()).run_test(size=size) as pilot:
        await pilot.press("z", "down", "slash", "x", "escape", "j", "space")
        await drawn(pilot)
        await pilot.resize_terminal(90, 30)
        assert "events" in await drawn(pilot)


@pytest.mark.parametrize(("layers", "experts"), [(1, 1), (94, 128), (48, 512), (200, 8)])
async def test_models_of_every_shape(layers: int, experts: int) -> None:
    async with PanelHost(feed(layers, experts)).run_test(size=(120, 40)) as pilot:
        for keys in ("", "z"):
            await pilot.press(*keys, *["down"] * 3, *["right"] * 3)
            assert "── experts" in await drawn(pilot)


async def test_before_the_engine_has_said_anything() -> None:
    async with PanelHost(PanelFeed()).run_test(size=(80, 24)) as pilot:
        text = await drawn(pilot)
        assert "No model is loaded yet." in text and "no engine" in text
        await pilot.press("down", "p", "e", "z")
        assert host(pilot).sent == []


async def test_a_dense_model_says_why_there_is_no_map() -> None:
    dense = feed(12, 0)
    dense.take(residency(12, 0))
    async with PanelHost(dense).run_test(size=(80, 24)) as pilot:
        assert "This model has no experts" in await drawn(pilot)


async def test_arrows_choose_and_letters_act() -> None:
    async with PanelHost(feed()).run_test(size=(120, 40)) as pilot:
        await pilot.press("up", "left", "down", "right", "right")
        text = await drawn(pilot)
        assert "L01 · expert 2" in text and "8-bit, 2.0 MiB · pinned" in text and "[p] unpin" in text
        assert "10 uses, 11% of its layer's" in text
        await pilot.press("p", "down", "p", "e")
        assert host(pilot).sent == [Pin(1, 2, on=False), Pin(2, 2, on=True), Evict(2, 2)]
        assert "absent, read when it is needed" in await drawn(pilot)


async def test_a_click_chooses() -> None:
    async with PanelHost(feed()).run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        experts = host(pilot).panel.query_one(ExpertMap)
        assert experts.grid is not None
        await pilot.click(ExpertMap, offset=experts.grid.locate(Place(20, 5)))
        assert "L20 · expert 5" in await drawn(pilot)


async def test_looking_only_sends_nothing() -> None:
    async with PanelHost(feed(), read_only=True).run_test(size=(120, 40)) as pilot:
        await pilot.press("p", "e")
        assert host(pilot).sent == []
        assert "[p] pin" not in await drawn(pilot)


async def test_zoom_follows_the_chosen_expert() -> None:
    async with PanelHost(feed(48, 128)).run_test(size=(120, 40)) as pilot:
        assert "experts in memory: a dot each" in await drawn(pilot)
        await pilot.press("z")
        text = await drawn(pilot)
        assert (
            f"enlarged: L00{DASH}L18 of 48, experts 0{DASH}37 of 128" in text and "↓ 29 more layers" in text
        )
        assert re.search(r"^ ?L00 [·▇].*>", text, re.MULTILINE)
        await pilot.press(*["down"] * 47, *["right"] * 60)
        text = await drawn(pilot)
        assert (
            f"L29{DASH}L47 of 48, experts 23{DASH}60" in text
            and "L47 · expert 60" in text
            and "↑ 29 more" in text
        )
        assert re.search(r"^ ?L47<[·▇].*>", text, re.MULTILINE) and not re.search(
            r"^ ?L00", text, re.MULTILINE
        )


async def test_events_pause_filter_and_json() -> None:
    made = feed()
    async with PanelHost(made).run_test(size=(120, 40)) as pilot:
        await pilot.press("space")
        made.take(decision("Something new happened"))
        text = await drawn(pilot)
        assert "paused, 1 new" in text and "pinned by hand" in text
        events = text.split("── events")[1]
        assert "Something new" not in events
        await pilot.press("space", "slash", *"gave")
        events = (await drawn(pilot)).split("── events")[1]
        assert 'with "gave"' in events and "Context 10" in events and "pinned by hand" not in events
        await pilot.press("enter", "j")
        events = (await drawn(pilot)).split("── events")[1]
        found = re.search(r"\{.*\}", events)
        assert found and json.loads(found[0])["sentence"] == "Context 10 gave way"
        assert '"n":1}' in found[0]
        await pilot.press("slash", *["backspace"] * 4, *"nonsense")
        assert "Nothing matches." in await drawn(pilot)
        await pilot.press("escape")
        assert not host(pilot).panel.query_one(Input).display and not host(pilot).closed


@pytest.mark.parametrize(("layers", "experts"), [(30, 8), (48, 128), (4, 4)])
async def test_zoom_makes_every_expert_larger(layers: int, experts: int) -> None:
    async with PanelHost(feed(layers, experts)).run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        shown = host(pilot).panel.query_one(ExpertMap)
        before = shown.grid
        await pilot.press("z")
        after = shown.grid
        assert before is not None and after is not None
        assert after.cell_width / after.experts_per_cell > before.cell_width / before.experts_per_cell
        assert after.layers_per_row <= before.layers_per_row


async def test_zoom_fills_the_width_and_says_which_layers_are_in_view() -> None:
    async with PanelHost(feed()).run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("z")
        text = await drawn(pilot)
        assert f"experts, enlarged: L00{DASH}L06 of 30 " in text and "↓ 23 more layers" in text
        shown = host(pilot).panel.query_one(ExpertMap)
        assert shown.grid is not None and 32 <= shown.grid.width <= shown.size.width


async def test_a_map_that_is_too_large_at_its_smallest_says_what_is_beyond() -> None:
    async with PanelHost(feed(400, 64)).run_test(size=(72, 24)) as pilot:
        text = await drawn(pilot)
        shown = host(pilot).panel.query_one(ExpertMap)
        assert shown.grid is not None and shown.grid.width > shown.size.width
        assert re.search(r"^ ?L000? .*> ", text, re.MULTILINE)
        await pilot.press(*["right"] * 20, "z", *["down"] * 120)
        text = await drawn(pilot)
        assert "L120" in text and "more layers" in text, "a long label stays whole"


async def test_the_filter_is_left_first_then_the_panel() -> None:
    async with PanelHost(feed()).run_test(size=(120, 40)) as pilot:
        await pilot.press("slash", *"gave", "enter")
        assert 'with "gave"' in await drawn(pilot)
        await pilot.press("escape")
        assert "with" not in (await drawn(pilot)).split("── events")[1]
        assert not host(pilot).closed
        await pilot.press("slash", *"pin", "escape")
        assert "Context 10" in (await drawn(pilot)).split("── events")[1] and not host(pilot).closed
        await pilot.press("escape")
        await pilot.pause()
        assert host(pilot).closed


@pytest.mark.parametrize(("key", "read_only"), [("question_mark", False), ("f1", True)])
async def test_the_panel_has_its_own_list_of_keys(key: str, read_only: bool) -> None:
    async with PanelHost(feed(), read_only=read_only).run_test(size=(100, 40)) as pilot:
        assert "? keys" in await drawn(pilot)
        await pilot.press(key)
        await pilot.pause()
        text = host(pilot).text()
        for words in ("Arrows", "enlarge the map", "take the filter away", "weights that every token needs"):
            assert words in text
        assert ("keep the chosen expert" in text) != read_only
        await pilot.press("escape")
        await pilot.pause()
        assert "experts in memory" in host(pilot).text() and not host(pilot).closed


@pytest.mark.parametrize("width", [10, 30, 60, 91])
def test_the_list_of_keys_fits_its_width(width: int) -> None:
    lines = panel_help(True, width).split("\n")
    assert lines[0] == "Keys" and all(len(line) <= max(width, 24) for line in lines)


async def test_a_small_screen_has_figures_and_says_how_to_leave() -> None:
    async with PanelHost(feed()).run_test(size=(40, 12)) as pilot:
        text = await drawn(pilot)
        for words in (
            "270 of 300 MiB",
            "experts 160",
            "free 30",
            "decode",
            "? keys · F2 closes",
            "180 of 240",
        ):
            assert words in text


async def test_sentences_are_no_longer_than_can_be_read() -> None:
    made = feed()
    made.take(decision("a long sentence " * 30))
    async with PanelHost(made).run_test(size=(200, 60)) as pilot:
        lines = [line for line in (await drawn(pilot)).splitlines() if "a long sentence" in line]
        assert len(lines) > 3 and max(map(len, lines)) <= 125


async def test_a_map_that_is_not_there_yet_says_why() -> None:
    made = PanelFeed()
    async with PanelHost(made).run_test(size=(80, 24)) as pilot:
        assert "Waiting for the engine" in await drawn(pilot)
        made.take(loaded())
        text = await drawn(pilot)
        assert "The engine is at work" in text and "Waiting" not in text


@pytest.mark.parametrize("key", ["f2", "escape", "q"])
async def test_leaving(key: str) -> None:
    async with PanelHost(feed()).run_test() as pilot:
        await pilot.press(key)
        await pilot.pause()
        assert host(pilot).closed


async def test_only_changed_cells_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = feed()
    async with PanelHost(made).run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        asked: list[Region] = []
        monkeypatch.setattr(Cells, "refresh", lambda self, *regions: asked.extend(regions))
        host(pilot).panel.update()
        assert asked == []
        made.take(residency(30, 8, lambda layer, expert: int((layer, expert) == (3, 0)) * 8 or 8, [(1, 2)]))
        experts = host(pilot).panel.query_one(ExpertMap)
        experts.update()
        assert asked and all(region.height == 1 for region in asked)
        before = sum(region.area for region in asked)
        asked.clear()
        made.take(residency(30, 8, lambda layer, expert: 0 if (layer, expert) == (3, 0) else 8, [(1, 2)]))
        experts.update()
        assert len(asked) == 1 and asked[0].area <= 4 < before


async def test_what_the_system_tells_every_second_draws_the_bars_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = feed()
    async with PanelHost(made).run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        panel = host(pilot).panel
        panel._tick()
        asked: list[str] = []
        usual = Cells.update

        def noted(cells: Cells) -> None:
            asked.append(type(cells).__name__)
            usual(cells)

        monkeypatch.setattr(Cells, "update", noted)
        made.take(machine(available_bytes=1234 * MIB))
        panel._tick()
        assert set(asked) - {"Sparks"} == {"MemoryBars"}
        await pilot.pause()
        assert "free 1.2" in host(pilot).text()
        asked.clear()
        panel._tick()
        assert set(asked) <= {"Sparks"}
        made.take(decision("It gave way", "kv"))
        panel._tick()
        assert "ExpertMap" in asked or "Tile" in asked


async def test_names_from_files_cannot_act_on_the_terminal() -> None:
    made = PanelFeed()
    made.take(loaded(name="\x1b]0;owned\x07[red]日本\u202e"))
    made.take(decision("\x1b[2Jevil [bold]"))
    made.take(decision("\x9b2J", "kv"))
    async with PanelHost(made).run_test(size=(120, 40)) as pilot:
        await pilot.press("j")
        text = await drawn(pilot)
        assert "[red]" in text and not set("\x1b\x07\x9b\u202e") & set(text)
        assert all(len(line) <= 120 for line in text.splitlines())


async def test_swap_and_a_group_are_named() -> None:
    made = feed()
    made.take(machine(process_swap_bytes=7 * MIB, cgroup_limit_bytes=500 * MIB, cgroup_usage_bytes=450 * MIB))
    async with PanelHost(made).run_test(size=(120, 40)) as pilot:
        text = await drawn(pilot)
        assert "7.0 MiB swapped out" in text and "cgroup 450 MiB of 500 MiB" in text


async def test_a_screen_behind_does_not_make_this_one_draw() -> None:
    """Textual passes regions of a hidden screen on to the one in front, where they would add up."""
    async with PanelHost(feed()).run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        panel = host(pilot).panel
        for _ in range(3):
            panel.refresh(Region(0, 0, 80, 20))
        await pilot.pause()
        assert not panel._dirty_regions and not panel._repaint_required


async def test_a_larger_screen_has_no_smaller_map() -> None:
    """Beside the map there is one of uses only where both are as large as one alone."""
    widths = []
    for size in ((80, 24), (100, 30), (120, 40)):
        async with PanelHost(feed()).run_test(size=size) as pilot:
            await drawn(pilot)
            grid = host(pilot).panel.query_one(ExpertMap).grid
            assert grid is not None
            widths.append(grid.cell_width if grid.style == "halves" else grid.cell_width + 1)
    assert widths == sorted(widths), widths


async def test_a_dead_engine_has_no_experts_in_memory() -> None:
    state = feed()
    async with PanelHost(state).run_test(size=(100, 30)) as pilot:
        assert "in memory" in await drawn(pilot)
        state.end()
        text = await drawn(pilot)
        assert "of 240 in memory" not in text and "✗ no engine" in text


async def test_while_a_model_is_loaded_nobody_says_that_there_is_no_engine() -> None:
    state = feed()
    async with PanelHost(state).run_test(size=(100, 30)) as pilot:
        for before in (state.take, lambda _: state.end()):
            before(Progress("reading", 1, 2))
            state.take(Progress("reading", 1, 2))
            text = await drawn(pilot)
            assert "a model is loading" in text and "no engine" not in text
        state.take(Failed(0, "error", "no", 1))
        assert "✗ no engine" in await drawn(pilot)


async def test_what_is_latest_is_the_last_of_all_events() -> None:
    state = feed()
    for kind in ("prefix", "prefill", "pin", "evict"):
        state.take(decision(f"A {kind} has come.", kind))
        assert f"A {kind} has come." in "".join(
            cell.text for row in LastDecision(state).rows(60, 3) for cell in row
        )
