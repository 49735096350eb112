"""Errors that a person may see: what went wrong, what to do about it, and the exit code."""

from typing import ClassVar

CARD_LOST_CODE = 75
"""What an engine process ends with that has lost its card: nothing in it can compute any more."""


class EbbtideError(Exception):
    """One line that says what (`str(error)`) and one that says what to do (`hint`)."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(EbbtideError):
    """A flag or value that cannot be taken."""

    exit_code = 2


class ModelError(EbbtideError):
    """A model that is not found, not readable, corrupt or unsupported."""

    exit_code = 3


class FitError(EbbtideError):
    """Something does not fit into memory or onto the disk."""

    exit_code = 4


class ContextError(EbbtideError):
    """A prompt longer than the context."""

    exit_code = 5
    question_tokens = 0
    """Tokens of the last question where it alone is too long, whatever is left out of the chat; else 0."""


class NetworkError(EbbtideError):
    """A download that cannot be made."""

    exit_code = 6


class EngineDied(EbbtideError):
    """The engine process ended by itself or was killed."""

    exit_code = 7
