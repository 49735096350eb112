"""How messages are written: sentences begin with a capital letter, sizes have a space, sums add up."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebbtide.app
import ebbtide.engine
from ebbtide.app.panel.numbers import together
from ebbtide.app.sentences import sentence
from ebbtide.app.session import error_of
from ebbtide.engine.messages import Failed
from ebbtide.engine.sizes import adding_up

SAYING = ("note", "hint", "say")
"""Functions that show their first argument."""
INSIDE = ("BadImport",)
"""Errors whose argument stands inside a sentence."""
GLUED = re.compile(r"[\d}][KMGT]i?B\b")
TO_BE_TYPED = (
    "Write 300MiB, ",
    "Write a size such as 300MiB ",
    "Give --budget ",
    "{} is not a size; write 300MiB",
)
"""What a person is to type stands as it is typed."""


class Said(NamedTuple):
    where: str
    text: str
    """An f-string's values are `{}`."""


def said_in(package: str, *, hints_only_of_errors: bool) -> Iterator[Said]:
    """Messages and hints of errors, and remarks, as they are written in the sources."""
    for path in sorted(Path(package).rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            hints = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
            is_remark = name_of(call) in SAYING and not hints_only_of_errors
            if name_of(call) in INSIDE or not (hints or is_remark):
                continue
            for node in [*call.args[:1], *hints]:
                if (text := text_of(node)) is not None:
                    yield Said(f"{path.name}:{node.lineno}", text)


def name_of(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def text_of(node: ast.expr) -> str | None:
    """The text of a literal; of a sum or a choice its beginning. None for what is no literal."""
    if isinstance(node, ast.BinOp):
        return text_of(node.left)
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        return "".join(map(str, parts))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def begins_well(text: str) -> bool:
    """Names keep their own letters: ebbtide, a file's with its ending, a setting's with its value."""
    return not text[:1].islower() or re.match(r"ebbtide |[a-z]+[.=:]\S", text) is not None


APP = list(said_in(ebbtide.app.__path__[0], hints_only_of_errors=False))
ENGINE = list(said_in(ebbtide.engine.__path__[0], hints_only_of_errors=True))


def test_there_is_something_to_look_at() -> None:
    assert len(APP) > 150 and len(ENGINE) > 80


def test_the_apps_messages_begin_with_a_capital_letter() -> None:
    assert [said for said in APP if not begins_well(said.text)] == []


def test_the_engines_messages_do_when_they_are_shown() -> None:
    shown = [said._replace(text=sentence(said.text)) for said in ENGINE]
    assert [said for said in shown if not begins_well(said.text)] == []


def test_sizes_have_a_space() -> None:
    found = [said for said in [*APP, *ENGINE] if GLUED.search(said.text)]
    assert [said for said in found if not said.text.startswith(TO_BE_TYPED)] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the disk's room: 5 MiB", "The disk's room: 5 MiB"),
        ("Give --budget 459MiB or more", "Give --budget 459MiB or more"),
        ("tiny.gguf is damaged", "tiny.gguf is damaged"),
        ("'tiny' is damaged", "'tiny' is damaged"),
        ("--threads 5 is too much", "--threads 5 is too much"),
        ("pcie=x is not a rate", "pcie=x is not a rate"),
        ("ebbtide knows none", "ebbtide knows none"),
        ("cuda:0 cannot be used: there is no driver", "cuda:0 cannot be used: there is no driver"),
        ("error: there is none", "Error: there is none"),
        ("done:", "Done:"),
        ("", ""),
    ],
)
def test_a_sentence(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_errors_of_the_engine_are_sentences() -> None:
    error = error_of(Failed(1, "the disk is full", "free 5 GiB", 4))
    assert (str(error), error.hint) == ("The disk is full", "Free 5 GiB")


PARTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=8)


@given(PARTS)
def test_rounded_parts_add_up(parts: list[float]) -> None:
    whole = round(sum(parts))
    rounded = adding_up(parts, whole)
    assert sum(rounded) == whole
    assert all(abs(a - b) <= 1 for a, b in zip(parts, rounded, strict=True))


def test_parts_of_something_else_are_rounded_one_by_one() -> None:
    assert adding_up([1.4, 2.6], 50) == [1, 3]


@given(
    st.lists(st.integers(0, 1 << 36), min_size=2, max_size=6), st.sampled_from([(1 << 20, 0), (1 << 30, 1)])
)
def test_figures_add_up_as_they_are_shown(parts: list[int], unit: tuple[int, int]) -> None:
    *figures, used = together(parts, sum(parts), *unit)
    numbers = [round(float(figure.replace(",", "")) * 10) for figure in (*figures, used)]
    assert sum(numbers[:-1]) == round(float(f"{sum(parts) / unit[0]:.{unit[1]}f}") * 10)
    assert numbers[-1] == sum(numbers[:-2])
