"""An engine process with a card in its own memory, for `EngineClient(command=card_engine(file))`.

The card is gone from the moment that the file exists.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ILLEGAL_ADDRESS = 700
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tests.helpers import card_engine; card_engine.main()"
)


def card_engine(gone: Path) -> list[str]:
    """The command that starts one."""
    return [sys.executable, "-c", START, str(ROOT), str(gone)]


def main() -> None:
    """See the module's text; called by the command."""
    gone = Path(sys.argv[2])
    import tests.helpers.triton_interpreter  # noqa: F401 - before anything that imports Triton
    from ebbtide.engine import __main__ as engine
    from ebbtide.engine import runtime
    from ebbtide.engine.device.choice import choose_device
    from ebbtide.engine.device.driver import CudaDriver
    from ebbtide.engine.device.place import Place
    from tests.helpers.host_card import HostCard

    card = HostCard()
    card.library.refuse = lambda name: ILLEGAL_ADDRESS if gone.exists() else 0

    def find(wish: str) -> tuple[Place | None, str]:
        choice = choose_device(wish, lambda _: None, lambda: CudaDriver(card.library.opener()))
        return card.find(wish) if choice.card is not None else (None, choice.notice)

    vars(runtime)["find_place"] = find
    engine.main()
