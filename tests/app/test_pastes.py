"""Chips for large pastes: what they stand for comes back exactly."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.pastes import Pastes

LONG = "".join(f"line {number}\n" for number in range(1204))


def test_a_large_paste_is_a_chip_and_comes_back() -> None:
    pastes = Pastes()
    chip = pastes.collapse(LONG)
    assert chip == "[pasted 1,204 lines]"
    assert pastes.expand(f"look: {chip} and {chip}!") == f"look: {LONG} and {LONG}!"
    assert pastes.chip_before(f"look: {chip}") == chip and pastes.chip_before(f"{chip} ") == ""


def test_a_small_paste_stays_text() -> None:
    assert Pastes().collapse("a\nb") == "a\nb"


def test_chips_of_the_same_size_differ() -> None:
    pastes = Pastes()
    one, two = pastes.collapse("x" * 5000), pastes.collapse("y" * 5000)
    assert (one, two) == ("[pasted 5,000 characters]", "[pasted 5,000 characters (2)]")
    assert pastes.collapse("x" * 5000) == one
    assert pastes.expand(two + one) == "y" * 5000 + "x" * 5000


def test_a_chip_that_was_changed_is_text() -> None:
    pastes = Pastes()
    pastes.collapse(LONG)
    assert pastes.expand("[pasted 1,20 lines] [pasted ") == "[pasted 1,20 lines] [pasted "


def test_a_pasted_text_that_looks_like_a_chip_is_not_expanded_again() -> None:
    pastes = Pastes()
    inner = pastes.collapse(LONG)
    outer = pastes.collapse("x" * 3000 + inner)
    assert pastes.expand(outer) == "x" * 3000 + inner


@given(st.text("ab[]() \npasted1,204 lines"))
def test_other_text_is_untouched(text: str) -> None:
    pastes = Pastes()
    pastes.collapse("z" * 9999)
    assert pastes.expand(text) == text


def test_a_known_paste_among_own_words_is_a_chip_again() -> None:
    pastes = Pastes()
    long = "line\n" * 30
    chip = pastes.collapse(long)
    assert pastes.fold(f"before {long} after") == f"before {chip} after"
    other = "other\n" * 30
    assert pastes.expand(pastes.fold(other)) == other and pastes.fold(other).startswith("[pasted ")


@given(st.lists(st.tuples(st.text("ab[]\n"), st.booleans())))
def test_words_and_chips_are_told_apart_after_a_restart(parts: list[tuple[str, bool]]) -> None:
    before, after = Pastes(), Pastes()
    text = "".join(before.collapse(part * 3000) if is_paste else part for part, is_paste in parts)
    whole = before.expand(text)
    again = after.with_chips(whole, before.spans(text))
    assert after.expand(again) == whole and after.spans(again) == before.spans(text)
