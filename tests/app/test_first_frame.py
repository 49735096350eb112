"""The first frame has the cells of the chat screen, and leaves no trace on the terminal, however it ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.ansi import AnsiDecoder
from rich.color import Color, ColorSystem
from rich.style import Style
from textual.strip import Strip

from ebbtide.app.chat_app import ChatApp
from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.first_inks import indexed, inks_of
from ebbtide.app.first_rows import Row, first_rows
from ebbtide.app.palettes import PALETTES
from ebbtide.app.settings import ChatSettings
from tests.helpers import held_ebbtide
from tests.helpers.chat_host import chat_app, settled, shown
from tests.helpers.fake_engine import Script

if sys.platform == "win32":
    pytest.skip("no first frame there", allow_module_level=True)

from tests.helpers.terminal import Terminal
from tests.helpers.terminal_cells import TerminalCells
from tests.helpers.waiting import PATIENCE_S, wait_until

SIZES = [(80, 24), (200, 60), (100, 30), (30, 18), (70, 12), (40, 10), (25, 9), (20, 5), (12, 4)]
LATER = ("textual.widgets._markdown", "markdown_it", "pathspec", "pygments.lexers", "ebbtide.app.slash")
NEVER = ("torch", "numpy", "gguf", "tokenizers", "ebbtide.app.commands.bench", "ebbtide.app.machine")


def idle_app(theme: str = "dark", *, compact: bool = False) -> ChatApp:
    """Its engine never starts, so that it stays as it is at the first paint."""
    session: ChatSession = chat_app(Script()).session
    tools = ChatTools(settings=ChatSettings(compact=compact))
    return ChatApp(lambda engine, fetcher: session, theme, tools=tools)


async def painted(app: ChatApp, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> list[Strip]:
    monkeypatch.setattr(app.session, "start", lambda: None)
    async with app.run_test(size=size) as pilot:
        await shown(pilot, *(["tiny"] if size[1] >= 8 else ["Ask"]))
        await settled(pilot)
        return app.screen._compositor.render_strips()


def words(row: Row) -> str:
    return "".join(text for text, _ in row)


@pytest.mark.parametrize(
    ("size", "compact"), [*((size, False) for size in SIZES), *((size, True) for size in SIZES[:4])]
)
async def test_same_characters(size: tuple[int, int], compact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    strips = await painted(idle_app(compact=compact), size, monkeypatch)
    rows = first_rows(*size, "tiny", compact=compact)
    assert [strip.text for strip in strips] == [words(row) for row in rows]


def styles_of(strip: Strip) -> list[tuple[str, str]]:
    """Character and sequence, cell by cell; of a space the background alone."""
    return [
        (letter, sequence(segment.style or Style(), letter)) for segment in strip for letter in segment.text
    ]


def sequence(style: Style, letter: str) -> str:
    seen = style if letter != " " or style.reverse else Style(bgcolor=style.bgcolor)
    return seen.render("x", color_system=ColorSystem.TRUECOLOR)


def drawn(row: Row, theme: str, no_color: bool) -> list[tuple[str, str]]:
    """As `styles_of`, read back from the sequences of the frame."""
    inks = inks_of(theme, 24, no_color=no_color)
    return [(letter, sequence(style_of(inks[ink]), letter)) for text, ink in row for letter in text]


def style_of(ink: str) -> Style:
    style = next(iter(AnsiDecoder().decode(f"{ink}x"))).spans[0].style
    assert isinstance(style, Style)
    return style


@pytest.mark.parametrize(
    ("theme", "no_color"),
    [*((theme, False) for theme in PALETTES), *((f"ebbtide-{shade}", True) for shade in ("dark", "light"))],
)
async def test_same_colors(theme: str, no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    strips = await painted(idle_app(theme.removeprefix("ebbtide-")), (80, 24), monkeypatch)
    for strip, row in zip(strips, first_rows(80, 24, "tiny"), strict=True):
        assert styles_of(strip) == drawn(row, theme, no_color)


@pytest.mark.parametrize("no_color", [False, True], ids=["colours", "NO_COLOR"])
@pytest.mark.parametrize("theme", [name.removeprefix("ebbtide-") for name in PALETTES])
def test_the_terminal_shows_the_same_cells_before_and_after(
    gate: Path, model: str, theme: str, no_color: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down to the ink of spaces; but the word of the state, which goes on from "starting" to "loading"."""
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    (home / "config").mkdir(parents=True)
    (home / "config" / "settings.toml").write_text("[chat]\nreduced_motion = true\n")  # no blinking cursor
    with Held(gate, model, "--theme", theme, script=Script(load_delay_s=PATIENCE_S)) as terminal:
        frame = TerminalCells(30, 100)
        frame.feed(terminal.output)
        painted = len(terminal.output)
        terminal.open()
        terminal.wait_for("loading", after=painted)

        def is_same() -> bool:
            screen = TerminalCells(30, 100)
            screen.feed(terminal.output)
            status, before = screen.cells[28], frame.cells[28]
            return (
                "".join(cell.text for cell in status).strip() == "tiny  ◐ loading"
                and status[:10] == before[:10]
                and status[18:] == before[18:]
                and screen.cells[:28] == frame.cells[:28]
                and screen.cells[29] == frame.cells[29]
            )

        # What a terminal gets at once may arrive here in parts.
        wait_until(is_same, "the same cells")


@pytest.mark.parametrize("size", [(80, 24), (50, 30), (30, 18), (200, 60)])
async def test_nothing_moves_when_an_earlier_chat_is_offered(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = idle_app()
    store = app.session.keeper.store
    chat = store.create_chat(title="A title that is much too long for one line of any screen " * 3)
    store.add_message(chat.id, None, "user", "hello")
    store.set_open_chat(chat.id)
    monkeypatch.setattr(app.session, "start", lambda: None)
    async with app.run_test(size=size) as pilot:
        text = await shown(pilot, "Ctrl+O goes", "A title"[: max(size[0] - 27, 1)])
    frame = [words(row).rstrip() for row in first_rows(*size, "tiny")]
    moved = [(row, now) for row, now in zip(frame, text.split("\n"), strict=True) if row != now]
    assert [(row, "Ctrl+O" in now) for row, now in moved] == [("", True)]


@pytest.mark.parametrize("color", ["#5cc8d7", "#0f1720", "#fbfaf7", "#1c2730", "#000000", "#ffffff"])
def test_256_colors_as_rich_chooses_them(color: str) -> None:
    expected = Color.parse(color).downgrade(ColorSystem.EIGHT_BIT).number
    assert indexed(tuple(bytes.fromhex(color[1:]))) == expected


class Held(Terminal):
    """A program that waits with its first frame on the terminal until `open` is called."""

    def __init__(self, gate: Path, model: str, *arguments: str, script: Script = Script()) -> None:  # noqa: B008
        super().__init__(script, model, *arguments, program=held_ebbtide.__file__)
        self.command.insert(2, str(gate))
        self.open = gate.touch

    def __enter__(self) -> "Held":
        super().__enter__()
        self.wait_for("sk about code", "◐ starting")
        return self


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "textual may be imported"


def test_keys_typed_during_the_first_frame_reach_the_prompt(gate: Path, model: str) -> None:
    with Held(gate, model) as terminal:
        terminal.send("hello there")
        assert not terminal.is_as_before()
        terminal.open()
        terminal.wait_for("ready")
        terminal.send("\r")
        terminal.wait_for("You said: hello there")
        terminal.send("\x04")
        assert terminal.wait_for_end() == 0
        assert terminal.is_as_before()
        check_one_screen(terminal)


def check_one_screen(terminal: Terminal) -> None:
    """The alternate screen is entered once, so nothing is cleared between frame and paint; and left once."""
    assert [terminal.output.count(b"\x1b[?1049" + end) for end in (b"h", b"l")] == [1, 1]
    assert terminal.output.rfind(b"\x1b[?25h") > terminal.output.rfind(b"\x1b[?25l")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)]
)
def test_a_signal_during_the_first_frame(gate: Path, model: str, number: int, code: int) -> None:
    with Held(gate, model) as terminal:
        terminal.process.send_signal(number)
        assert terminal.wait_for_end() == code
        assert terminal.is_as_before()
        check_one_screen(terminal)


def test_an_error_during_the_first_frame_is_read_on_the_main_screen(gate: Path, model: str) -> None:
    failing = gate.with_name("failing")
    failing.write_text("broken on purpose")
    with Held(gate, model) as terminal:
        failing.rename(gate)
        assert terminal.wait_for_end() == 1
        assert terminal.is_as_before()
        check_one_screen(terminal)
        assert terminal.output.rfind(b"broken on purpose") > terminal.output.rfind(b"\x1b[?1049l")


def test_a_wrong_model_is_said_without_a_frame(gate: Path) -> None:
    with Terminal(Script(), "nowhere.gguf") as terminal:
        assert terminal.wait_for_end() == 3
        assert b"\x1b[" not in terminal.output and b"nowhere" in terminal.output


def test_what_the_first_paint_does_not_import() -> None:
    code = (
        "import sys\n"
        "from ebbtide.app import chat_app, first_frame\n"
        "from ebbtide.app.commands import chat\n"
        f"print(*[name for name in {(*LATER, *NEVER)!r} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == []
