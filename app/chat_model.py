"""The model of a chat: fetched, loaded, loaded anew; and back to what was loaded when that fails."""

from collections.abc import Callable

from ebbtide.app.phase import Phase
from ebbtide.app.stages import Pace
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Command, Load, Loaded, Progress

FindFetcher = Callable[[Load], EngineClient | None]
"""A background job, not started, that makes the file of a load; None for one that is there or never made."""


def no_fetcher(load: Load) -> EngineClient | None:
    return None


class ChatModel:
    """`find_fetcher` is asked before each load, since a file may go while the chat runs (the starter's is
    made again then)."""

    def __init__(self, engine: EngineClient, load: Load, find_fetcher: FindFetcher = no_fetcher) -> None:
        self.load = load
        self.loaded: Loaded | None = None
        self._progress: Progress | None = None
        self._pace = Pace()
        self.left = ""
        """How long the stage under way will still take, in words; empty where that is not known."""
        self.needs_pack = False
        self.state = Phase.STARTING
        """STARTING, FETCHING, LOADING, READY, FAILED or DIED."""
        self._engine = engine
        self._find_fetcher = find_fetcher
        self._fetcher: EngineClient | None = None
        self._is_made = False
        """The file has just been made: it is loaded, whatever the disk says."""
        self.is_going_back = False
        """What was loaded last is being loaded again, because its successor failed."""
        self._works: Load | None = None
        """What was loaded last: what a load that fails goes back to."""

    @property
    def progress(self) -> Progress | None:
        """The latest of what is under way; None = nothing is."""
        return self._progress

    @progress.setter
    def progress(self, event: Progress | None) -> None:
        self._progress = event
        self.left = self._pace.take(event.stage, event.done, event.total) if event is not None else ""

    @property
    def life(self) -> int:
        """Which of the engine's processes it is, in the order of their starts."""
        return self._engine.life

    def start(self) -> None:
        """Start the engine (or first the fetcher) and load. Main thread only: see EngineClient."""
        self.progress = None
        if self._fetcher is None and not self._is_made:
            self._fetcher = self._find_fetcher(self.load)
        self._is_made = False
        if self._fetcher is not None:
            self.state = Phase.FETCHING
            self._engine.close()
            self._fetcher.restart()
            return
        self.state = Phase.LOADING
        self._engine.restart()
        self._engine.send(self.load)

    def change(self, load: Load) -> bool:
        """What the next start loads. False: no start is needed, since the file is still being fetched."""
        still_fetching = self.state is Phase.FETCHING and load.path == self.load.path
        if self._fetcher is not None and load.path != self.load.path:
            self._drop_fetcher()
        self.load, self.loaded, self.is_going_back = load, None, False
        return not still_fetching

    def tell(self, command: Command) -> None:
        """Send a command; nobody hears it while there is no engine."""
        if self._engine.running:
            self._engine.send(command)

    def close(self) -> None:
        """End the processes."""
        for client in (self._fetcher, self._engine):
            if client is not None:
                client.close()

    # --- what has happened

    def was_made(self) -> None:
        """The file is there; the next start loads it."""
        self._drop_fetcher()
        self._is_made = True

    def _drop_fetcher(self) -> None:
        self._fetcher, fetcher = None, self._fetcher
        if fetcher is not None:
            fetcher.close()

    def was_loaded(self, loaded: Loaded) -> None:
        self.loaded, self.progress, self.state = loaded, None, Phase.READY
        self._works, self.is_going_back = self.load, False

    def has_failed(self, *, needs_pack: bool = False) -> bool:
        """It was not loaded. True: the next start loads what was there before."""
        self.progress, self.state, self.needs_pack = None, Phase.FAILED, needs_pack
        works, self.is_going_back = self._works, False
        if works == self.load:
            self._works = None  # not any more
        if works is None or works == self.load or needs_pack:
            return False
        self._drop_fetcher()
        self.load, self.is_going_back = works, True
        return True

    def has_died(self) -> None:
        self.progress, self.state = None, Phase.DIED
