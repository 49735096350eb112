"""The whole panel on a screen of its own: bars, speed, map, inspector, events."""

from collections.abc import Callable
from typing import ClassVar, Self

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Region
from textual.screen import Screen
from textual.widgets import Input

from ebbtide.app.panel.details import Histogram, Inspector
from ebbtide.app.panel.event_log import EventLog, LastDecision
from ebbtide.app.panel.expert_map import ExpertMap
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.grid import Place, fit
from ebbtide.app.panel.help_text import panel_help
from ebbtide.app.panel.inks import INK_CLASSES, Inked
from ebbtide.app.panel.inventory import facts
from ebbtide.app.panel.memory_bars import MemoryBars
from ebbtide.app.panel.pace import Pace, panel_beat, update_parts
from ebbtide.app.panel.rule import Rule
from ebbtide.app.panel.sparks import Sparks
from ebbtide.app.panel.title import map_remark, map_words, model_words, pulse
from ebbtide.app.panel.uses_map import UsesMap
from ebbtide.app.widgets.resting_input import RestingInput
from ebbtide.engine.messages import Bound, Command, Evict, Pin


class MemoryScreen(Inked, Screen[None]):
    """`send` takes commands for the engine; None = only to look at, as `ebbtide top` does."""

    AUTO_FOCUS = ""
    COMPONENT_CLASSES: ClassVar[set[str]] = INK_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2,q", "close", "Close", id="panel.close"),
        Binding("escape", "back", "Leave the filter, or close", id="panel.back"),
        Binding("question_mark,f1", "help", "Keys", id="panel.help"),
        Binding("up,k", "move(-1, 0)", "Layer above", id="panel.up"),
        Binding("down", "move(1, 0)", "Layer below", id="panel.down"),
        Binding("left,h", "move(0, -1)", "Expert before", id="panel.left"),
        Binding("right,l", "move(0, 1)", "Next expert", id="panel.right"),
        Binding("p", "pin", "Pin", id="panel.pin"),
        Binding("e", "evict", "Evict", id="panel.evict"),
        Binding("b", "bound(False)", "Bound its width", id="panel.bound"),
        Binding("w", "bound(True)", "Hold its width", id="panel.hold"),
        Binding("z", "zoom", "Zoom", id="panel.zoom"),
        Binding("space", "pause", "Pause events", id="panel.pause"),
        Binding("slash", "filter", "Filter events", id="panel.filter"),
        Binding("j", "json", "Events as JSON", id="panel.json"),
        Binding("pageup", "scroll_events(-3)", "Newer events", id="panel.newer"),
        Binding("pagedown", "scroll_events(3)", "Older events", id="panel.older"),
    ]
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - so declared by the base class
        (0, "-narrow"),
        (70, "-normal"),
        (150, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012 - so declared by the base class
        (0, "-tiny"),
        (14, "-low"),
        (23, "-short"),
        (36, "-tall"),
        (50, "-high"),
    ]

    def __init__(
        self,
        feed: PanelFeed,
        period_s: float,
        send: Callable[[Command], None] | None,
        way_out: str = "F2 closes",
    ) -> None:
        super().__init__()
        self._feed, self._period_s, self._send, self._way_out = feed, period_s, send, way_out
        self._map = ExpertMap(feed)
        self._log = EventLog(feed, lambda: self._map.place if self._send is not None else None)
        self._uses = UsesMap(feed, self._map)
        self._map.place = Place(0, 0)
        self._pace = Pace(feed, self._map)
        self._beat = panel_beat(self._tick, period_s)

    def compose(self) -> ComposeResult:
        feed = self._feed
        yield Rule(lambda: model_words(feed), self._pulse)
        yield MemoryBars(feed)
        yield LastDecision(feed)
        yield Rule(lambda: "speed, last 60 s", lambda: "max since load", "speed")
        yield Sparks(feed)
        yield Rule(self._map_title, lambda: f"[z]oom · {map_remark(feed, self._map.grid)}")
        with Horizontal(id="experts"):
            yield self._map
            yield self._uses
            with Vertical(id="details"):
                yield Histogram(feed)
                yield Inspector(feed, lambda: self._map.place, keys=self._send is not None)
        yield Rule(self._events_title, lambda: "[space] pause · [/] filter · [j]son", "events")
        yield RestingInput(placeholder="words that events must have", id="filter", compact=True)
        yield self._log

    def on_mount(self) -> None:
        self.query_one("#filter").display = False
        self._beat.start(self)
        self._feed.on_change = self._beat.wake

    def on_resize(self) -> None:
        self._beat.wake()  # what stands above the map depends on its size

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Deaf to regions: they come from the screen behind, which this one hides, and add up for good."""
        if regions:
            return self
        return super().refresh(repaint=repaint, layout=layout, recompose=recompose)

    def _tick(self) -> None:
        if self._pace.due(self):
            self.update()

    def update(self) -> None:
        """Draw what has changed."""
        self._uses.display = self._room_for_uses()
        update_parts(self)

    def _room_for_uses(self) -> bool:
        """Whether half of the room shows the experts as well as all of it."""
        residency = self._feed.residency
        if residency is None or residency.experts == 0 or self._map.zoomed:
            return False
        height = self._map.size.height
        room = self._map.size.width + (self._uses.size.width if self._uses.display else 0)
        whole, half = (fit(residency.layers, residency.experts, width, height) for width in (room, room // 2))
        return whole.style == half.style == "bars" and whole.cell_width == half.cell_width

    def _pulse(self) -> str:
        return f"{pulse(self._feed, self._period_s)} · ? keys · {self._way_out}"

    def _map_title(self) -> str:
        return map_words(self._map.grid, self._map.shown)

    def _events_title(self) -> str:
        words = "events"
        if self._log.words:
            words += f' with "{self._log.words}"'
        if self._log.paused:
            words += f" · paused, {self._log.waiting} new"
        return words

    # --- what the person does

    def action_close(self) -> None:
        self.dismiss()

    def action_back(self) -> None:
        """Esc takes the filter away first."""
        field = self.query_one("#filter", Input)
        if field.display or self._log.words:
            field.value = ""
            self._leave_filter()
        else:
            self.dismiss()

    def action_help(self) -> None:
        """Keys and words of the panel, over it."""
        from ebbtide.app.screens.text_page import TextPage

        self.app.push_screen(
            TextPage(lambda width: panel_help(self._send is not None, width), "Memory panel")
        )

    def action_move(self, down: int, right: int) -> None:
        residency, place = self._feed.residency, self._map.place
        if residency is None or residency.experts == 0 or place is None:
            return
        layer = max(0, min(place.layer + down, residency.layers - 1))
        expert = max(0, min(place.expert + right, residency.experts - 1))
        self._choose(Place(layer, expert))

    def _choose(self, place: Place) -> None:
        self._map.place = place
        self.update()

    def on_expert_map_chosen(self, message: ExpertMap.Chosen) -> None:
        self._choose(message.place)

    def action_pin(self) -> None:
        residency, place = self._feed.residency, self._map.place
        if self._can_act and residency is not None and place is not None:
            pinned = residency.pinned[place.layer * residency.experts + place.expert]
            self._tell(Pin(place.layer, place.expert, on=not pinned))

    def action_evict(self) -> None:
        if self._can_act and self._map.place is not None:
            self._tell(Evict(*self._map.place))

    def action_bound(self, held: bool) -> None:
        """At least as wide as it is, or (`held`) just so; the same key ends it, the other one changes it. The
        engine knows whether widths change at all.
        """
        residency, place = self._feed.residency, self._map.place
        if not self._can_act or residency is None or place is None:
            return
        known = facts(residency, place)
        if known.least and known.held == held:
            self._tell(Bound(place.layer, place.expert))
        else:
            self._tell(Bound(place.layer, place.expert, least=0 if held else min(known.blocks), held=held))

    @property
    def _can_act(self) -> bool:
        return self._feed.residency is not None and self._feed.residency.experts > 0

    def _tell(self, command: Command) -> None:
        if self._send is not None:
            self._send(command)

    def action_zoom(self) -> None:
        self._map.zoomed = not self._map.zoomed
        self.update()

    def action_pause(self) -> None:
        self._log.toggle_pause()
        self.update()

    def action_json(self) -> None:
        self._log.as_json = not self._log.as_json
        self.update()

    def action_scroll_events(self, count: int) -> None:
        self._log.scroll_by(count)
        self.update()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def on_input_changed(self, message: Input.Changed) -> None:
        self._log.words, self._log.skip = message.value, 0
        self.update()

    def on_input_submitted(self) -> None:
        self._leave_filter()

    def _leave_filter(self) -> None:
        self.query_one("#filter").display = False
        self.set_focus(None)
        self.update()
