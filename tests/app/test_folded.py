"""Lines for people end between words on a terminal, with what follows set in; elsewhere nothing is added."""

from collections.abc import Iterator
from io import StringIO

import pytest
from rich.cells import cell_len

from ebbtide.app.console import note, print_error, tell
from ebbtide.app.folded import columns_of, fold, write_folded
from ebbtide.engine.errors import FitError
from tests.helpers.narrow_terminal import NarrowTerminal

SENTENCE = "The file of this model is not where the settings say that it should be, and nothing else is."
ROW = "peak memory   542 MiB as the system sees it; weights, KV and workspace 463 MiB of a budget of 598 MiB"


@pytest.mark.parametrize("columns", [12, 20, 50, 80])
def test_lines_end_between_words(columns: int) -> None:
    lines = fold(SENTENCE, columns).split("\n")
    assert all(len(line) <= columns for line in lines)
    assert " ".join(line.strip() for line in lines) == SENTENCE
    assert all(line.startswith("  ") and line[2] != " " for line in lines[1:])


def test_what_fits_stays_as_it_is() -> None:
    assert fold(SENTENCE, len(SENTENCE)) == SENTENCE
    assert fold("", 10) == ""


def test_a_row_goes_on_under_its_last_column() -> None:
    first, *rest = fold(ROW, 80).split("\n")
    assert first.startswith("peak memory   542 MiB") and rest
    assert all(line.startswith(" " * 14 + line.strip()) for line in rest)


def test_a_column_far_to_the_right_is_not_kept() -> None:
    assert fold(f"{'x' * 30}  {SENTENCE}", 40).split("\n")[1].startswith("  of this")


def test_indented_lines_stay_indented() -> None:
    assert all(line.startswith("  ") and line[2] != " " for line in fold(f"  {SENTENCE}", 40).split("\n"))


def test_a_path_stays_in_one_piece() -> None:
    path = "/a/very/long/path" * 5
    assert path in fold(f"The file {path} is gone.", 40).split("\n  ")


def test_wide_letters_count_twice() -> None:
    text = " ".join(["漢字漢字"] * 8)
    assert all(cell_len(line) <= 30 for line in fold(text, 30).split("\n"))


def test_into_a_file_nothing_is_added() -> None:
    stream = StringIO()
    write_folded(stream, f"{SENTENCE}\n{ROW}")
    assert stream.getvalue() == f"{SENTENCE}\n{ROW}\n" and columns_of(stream) is None


@pytest.fixture
def narrow() -> Iterator[NarrowTerminal]:
    with NarrowTerminal(columns=50) as terminal:
        yield terminal


def test_errors_notes_and_answers_fit_the_terminal(
    narrow: NarrowTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", narrow.stream)
    monkeypatch.setattr("sys.stdout", narrow.stream)
    print_error(FitError(SENTENCE, hint=SENTENCE))
    note(SENTENCE)
    tell(ROW)
    lines = narrow.written().splitlines()
    assert len(lines) > 8 and all(len(line) <= 50 for line in lines)
    words = " ".join(narrow.written().split())
    assert words == f"ebbtide: {SENTENCE} {SENTENCE} {SENTENCE} {' '.join(ROW.split())}"


def test_an_error_s_second_line_is_not_taken_for_its_hint(
    narrow: NarrowTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", narrow.stream)
    print_error(FitError(SENTENCE, hint="Do this."))
    first, second, *_, last = narrow.written().splitlines()
    assert first.startswith("ebbtide: The file") and second.startswith(" " * 9 + second.strip())
    assert last == "  Do this."
