"""Where ebbtide keeps things: EBBTIDE_HOME, else XDG variables on every system, else platformdirs."""

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

APP_NAME = "ebbtide"


@dataclass(frozen=True)
class Paths:
    """ebbtide's own folders; none of them is created by looking it up."""

    config: Path
    cache: Path
    state: Path

    @property
    def settings_file(self) -> Path:
        return self.config / "settings.toml"

    @property
    def models(self) -> Path:
        """Model files that a person put into ebbtide's own folder."""
        return self.cache / "models"

    @property
    def starter(self) -> Path:
        """The starter model, one file for each quantisation."""
        return self.cache / "starter"

    @property
    def packs(self) -> Path:
        """Packs of model files that lie elsewhere."""
        return self.cache / "packs"

    @property
    def engines(self) -> Path:
        """Cards of running engines, for `ebbtide top`."""
        return self.state / "engines"

    @property
    def chats(self) -> Path:
        """The chat store; its folder is for the owner only."""
        return self.state / "chats" / "chats.db"

    @property
    def engine_log(self) -> Path:
        return self.state / "engine.log"


def find_paths() -> Paths:
    """The folders that hold now; EBBTIDE_HOME, when set, contains all of them."""
    home = os.environ.get("EBBTIDE_HOME")
    if home:
        root = Path(home).expanduser().absolute()
        return Paths(root / "config", root / "cache", root / "state")
    return Paths(
        _folder("XDG_CONFIG_HOME", platformdirs.user_config_path(APP_NAME, appauthor=False)),
        _folder("XDG_CACHE_HOME", platformdirs.user_cache_path(APP_NAME, appauthor=False)),
        _folder("XDG_STATE_HOME", platformdirs.user_state_path(APP_NAME, appauthor=False)),
    )


def _folder(variable: str, default: Path) -> Path:
    """XDG asks for absolute paths and says that others are to be ignored."""
    value = os.environ.get(variable, "")
    return Path(value) / APP_NAME if Path(value).is_absolute() else default
