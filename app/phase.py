"""What a chat is doing."""

from enum import StrEnum


class Phase(StrEnum):
    """What is going on, in a word for the status line."""

    STARTING = "starting"
    FETCHING = "fetching"
    LOADING = "loading"
    READY = "ready"
    READING = "reading"
    ANSWERING = "answering"
    STOPPING = "stopping"
    FAILED = "no model"
    DIED = "engine died"


BUSY = {Phase.READING, Phase.ANSWERING, Phase.STOPPING}
"""An answer is written."""
