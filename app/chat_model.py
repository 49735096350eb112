"""The model of a chat: fetched, loaded, loaded anew; and back to what was loaded when that fails."""

from ebbtide.app.phase import Phase
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Command, Load, Loaded, Progress


class ChatModel:
    """`fetcher`, if given, is a background job that makes the model file first (the starter's first run)."""

    def __init__(self, engine: EngineClient, load: Load, fetcher: EngineClient | None = None) -> None:
        self.load = load
        self.loaded: Loaded | None = None
        self.progress: Progress | None = None
        self.needs_pack = False
        self.state = Phase.STARTING
        """STARTING, FETCHING, LOADING, READY, FAILED or DIED."""
        self._engine = engine
        self._fetcher = fetcher
        self._fallback: Load | None = None
        """What was loaded before a reload that may fail."""

    def start(self) -> None:
        """Start the engine (or first the fetcher) and load. Main thread only: see EngineClient."""
        self.progress = None
        if self._fetcher is not None:
            self.state = Phase.FETCHING
            self._fetcher.restart()
            return
        self.state = Phase.LOADING
        self._engine.restart()
        self._engine.send(self.load)

    def change(self, load: Load) -> None:
        """What the next start loads."""
        self._fallback = self.load if self.state is Phase.READY else None
        self.load, self.loaded = load, None

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

    def was_fetched(self) -> None:
        """The file is there; the next start loads it."""
        self._fetcher, fetcher = None, self._fetcher
        if fetcher is not None:
            fetcher.close()

    def was_loaded(self, loaded: Loaded) -> None:
        self.loaded, self.progress, self.state = loaded, None, Phase.READY
        self._fallback = None

    def has_failed(self, *, needs_pack: bool = False) -> bool:
        """It was not loaded. True: the next start loads what was there before."""
        self.progress, self.state, self.needs_pack = None, Phase.FAILED, needs_pack
        fallback, self._fallback = self._fallback, None
        if fallback is None or needs_pack:
            return False
        self.load = fallback
        return True

    def has_died(self) -> None:
        self.progress, self.state = None, Phase.DIED
