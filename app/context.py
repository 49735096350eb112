"""What every command needs: folders, settings, and how an engine is started."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ebbtide.app.paths import Paths, find_paths
from ebbtide.app.settings import Settings, load_settings

if TYPE_CHECKING:
    from ebbtide.engine.client import ClientEvent, EngineClient


@dataclass
class AppContext:
    """Made once per call of the program."""

    engine_command: Sequence[str] = ()
    """Empty = the real engine."""
    debug: bool = False
    paths: Paths = field(default_factory=find_paths)

    @cached_property
    def settings(self) -> Settings:
        """Raises UsageError when the file is not valid."""
        return load_settings(self.paths.settings_file)

    def make_client(self, on_event: "Callable[[ClientEvent], None] | None" = None) -> "EngineClient":
        """A client that is not started yet."""
        from ebbtide.engine.client import ENGINE_COMMAND, EngineClient  # not before an engine is wanted

        return EngineClient(
            command=self.engine_command or ENGINE_COMMAND,
            log_path=self.paths.engine_log,
            on_event=on_event,
            endpoint_folder=self.paths.engines,
        )
