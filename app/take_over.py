"""A driver that goes on where the first frame ends: on the same alternate screen, without clearing it."""

from contextlib import suppress

from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver

from ebbtide.app.first_frame import ENTER, take_over
from ebbtide.app.paste_parser import PasteParser

# The driver makes its parser by this name, and has no other door for one.
vars(linux_driver)["XTermParser"] = PasteParser


class TakingOver(LinuxDriver):
    """Without a first frame, and when it starts again after a suspension, it is an ordinary driver."""

    _is_on_screen = False

    def start_application_mode(self) -> None:
        before = take_over()
        self._is_on_screen = before is not None
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if before is not None:
            self.attrs_before = before

    def _run_input_thread(self) -> None:
        """A terminal that has hung up cannot be read; somebody else looks after that (`lost_terminal`)."""
        with suppress(OSError):
            self.run_input_thread()

    def write(self, data: str) -> None:
        """To switch to the alternate screen would clear it, if it is shown already."""
        if self._is_on_screen and data == ENTER:
            self._is_on_screen = False
        else:
            super().write(data)
