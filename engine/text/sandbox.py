"""A jinja2 environment for templates that come with a model and so from a stranger.

jinja2's immutable sandbox keeps them from reaching Python; the limits here keep them from running for ever
or growing without bound: steps are counted by a trace function, large repetitions are refused before they
happen. What slips through (a template that doubles a text again and again) can only bring down the engine.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

STEP_LIMIT = 2_000_000
"""Python lines and calls of one rendering; a chat of 500 turns takes about 40,000."""
SIZE_LIMIT = 1 << 24
"""Characters or items that one repetition may make."""
BITS_LIMIT = 1 << 14
"""Length of the numbers that a template may reckon with."""


_WIDE_FORMAT = re.compile(r"%[^a-zA-Z%]*(\d{5}|\*)")


class TemplateRefusalError(TemplateRuntimeError):
    """Raised by a template itself through `raise_exception`, or by a limit."""


class ChatSandbox(ImmutableSandboxedEnvironment):
    """The environment that chat templates are written for."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationBlock],
        )
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic, refused when its result would be huge."""
        if operator == "%" and isinstance(left, str) and _WIDE_FORMAT.search(left):
            raise SecurityError("a format this wide is not available")
        if _is_huge(operator, left, right):
            raise SecurityError(f"the result of {operator} is too large")
        return super().call_binop(context, operator, left, right)


class GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}`, which marks answers for training: just its content here."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@contextmanager
def limited_steps(limit: int = STEP_LIMIT) -> Iterator[None]:
    """This thread may execute `limit` lines and calls of Python within; then `TemplateRefusalError` comes."""
    left = limit

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal left
        left -= 1
        if left < 0:
            raise TemplateRefusalError("it takes too many steps")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _is_huge(operator: str, left: Any, right: Any) -> bool:
    """Whether `left operator right` may be too large to be made."""
    if isinstance(left, int) and isinstance(right, int):
        bits = int(left).bit_length(), int(right).bit_length()
        return (bits[0] * max(right, 1) if operator == "**" else sum(bits)) > BITS_LIMIT
    repeated, times = (left, right) if isinstance(right, int) else (right, left)
    return hasattr(repeated, "__len__") and isinstance(times, int) and len(repeated) * times > SIZE_LIMIT


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: jinja2's own filter would escape for HTML, which no model was trained on."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise TemplateRefusalError(message)


def _strftime_now(layout: str) -> str:
    return datetime.now().strftime(layout)
