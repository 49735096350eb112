"""Imports that the first paint does not wait for, made behind it, so that no key has to wait for them either.

Modules that are needed by some key, by some answer or by some list are imported inside the function that
needs them, with the remark "after the first paint". Those that take long are named here.
"""

import importlib
import threading

LATER = (
    "ebbtide.app.slash.all_commands",  # the first `/`
    "ebbtide.app.widgets.code_colors",  # the first answer: highlighter and parser
    "pathspec",  # the first `@`
    "markdown_it.tree",
    "ebbtide.app.wishes",  # keys of the prompt, with their lists
    "ebbtide.app.screens.text_page",
    "ebbtide.app.slash.help_text",
    "ebbtide.app.context_choice",
)
"""In the order in which they are likely to be needed."""


def import_later() -> threading.Thread:
    """Import them on a thread of its own; whoever needs one sooner waits for that one only."""
    thread = threading.Thread(target=_import_all, name="imports", daemon=True)
    thread.start()
    return thread


def _import_all() -> None:
    for name in LATER:
        importlib.import_module(name)
