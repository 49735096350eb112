"""Stop strings split anywhere across pushes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.stop import StopFilter


@given(st.text("ab<|", max_size=40), st.lists(st.text("ab<|", min_size=1, max_size=5), max_size=3), st.data())
def test_any_split_shows_the_text_before_the_first_stop(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    stop_filter = StopFilter(stops)
    shown = ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        shown += stop_filter.push(text[start:end])
    shown += stop_filter.flush()
    # The first stop string to be complete ends the answer; the text before it is what was shown.
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    if not ends:
        assert shown == text and not stop_filter.stopped
    else:
        assert stop_filter.stopped
        assert text.startswith(shown) and not any(stop in shown for stop in stops)


def test_held_text_comes_at_the_end() -> None:
    stop_filter = StopFilter(["<|end|>"])
    assert stop_filter.push("hello <|en") == "hello "
    assert stop_filter.flush() == "<|en"


@pytest.mark.parametrize("stops", [[], [""]])
def test_no_stops_hold_nothing(stops: list[str]) -> None:
    assert StopFilter(stops).push("text") == "text"
