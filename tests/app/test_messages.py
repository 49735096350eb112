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
from ebbtide.app.sentences import in_two_lines, sentence, statement
from ebbtide.app.session import error_of
from ebbtide.engine.errors import UsageError
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the disk is full", "The disk is full."),
        ("A budget of 5 MiB is too small.", "A budget of 5 MiB is too small."),
        ("There is no flag --rnus. Did you mean --runs?", "There is no flag --rnus. Did you mean --runs?"),
        ("m.gguf is cut\nshort", "m.gguf is cut short."),
        ("", ""),
    ],
)
def test_a_headline_has_a_full_stop(text: str, shown: str) -> None:
    assert statement(text) == shown
    assert in_two_lines(UsageError(text, hint="write: /export md")) == f"{shown}\nWrite: /export md"


def test_hints_end_with_a_full_stop_or_with_something_to_be_typed() -> None:
    hints = [said for said in hints_in("app", "engine") if not said.text.endswith((".", "?", "{}"))]
    assert [said for said in hints if not re.search(r": [^ ]", said.text)] == []


def hints_in(*packages: str) -> Iterator[Said]:
    for package in packages:
        for path in sorted((Path(ebbtide.app.__path__[0]).parent / package).rglob("*.py")):
            for call in ast.walk(ast.parse(path.read_text("utf-8"))):
                for keyword in call.keywords if isinstance(call, ast.Call) else []:
                    if keyword.arg == "hint" and (text := end_of(keyword.value)):
                        yield Said(f"{path.name}:{keyword.value.lineno}", text)


def end_of(node: ast.expr) -> str | None:
    """As `text_of`, of a sum its end."""
    return end_of(node.right) if isinstance(node, ast.BinOp) else text_of(node)


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
