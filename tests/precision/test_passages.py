"""Passages: nothing lost of a short text, a fair spread over a long one, bounds kept to the token."""

from itertools import chain, islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.errors import UsageError
from ebbtide.engine.precision import passages as module
from ebbtide.engine.precision.library_text import is_held_out, library_texts
from ebbtide.engine.precision.passages import digest, parts, passages, read_text, spread


def characters(text: str) -> list[int]:
    """A token for each character."""
    return [ord(letter) for letter in text]


@given(st.lists(st.text("ab \n", max_size=60), max_size=4), st.integers(2, 9), st.integers(1, 300))
def test_passages_keep_to_their_bounds(texts: list[str], length: int, most: int) -> None:
    found = passages([texts], characters, [0], length, most)
    assert all(2 <= len(ids) <= length and ids[0] == 0 for ids in found)
    assert sum(map(len, found)) <= most
    # A passage of the front alone would be none: so one token of the bound may be left.
    everything = passages([texts], characters, [0], length, 10**6)
    assert sum(map(len, found)) >= min(sum(map(len, everything)), most) - 1


@given(st.text("ab \n", max_size=400), st.integers(2, 50))
def test_parts_lose_white_space_only(text: str, size: int) -> None:
    found = list(parts(text, size))
    assert all(part.strip() and len(part) <= size for part in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_short_text_is_used_whole_and_in_equal_pieces() -> None:
    (first, second) = passages([["x" * 1000]], characters, [], 512, 5000)
    assert len(first) == len(second) == 500


@given(st.integers(1, 200))
def test_every_beginning_is_spread(count: int) -> None:
    order = [int(item) for item in spread([str(at) for at in range(count)])]
    assert sorted(order) == list(range(count))
    half = sorted(order[: -(-count // 2)])
    assert all(after - before <= 3 for before, after in pairwise(half))


def test_kinds_take_turns() -> None:
    found = passages([["a" * 40] * 8, ["b" * 40] * 2], characters, [], 64, 240)
    assert ["".join(map(chr, ids))[0] for ids in found] == list("ababaa")


def test_a_digest_tells_texts_and_cuts_apart() -> None:
    assert digest([[1, 2], [3]]) != digest([[1], [2, 3]]) != digest([[1, 2, 3]])
    assert digest([[1, 2], [3]]) == digest([(1, 2), (3,)])


def test_of_a_very_long_file_the_beginning_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEXT_BYTES_LIMIT", 10)
    path = tmp_path / "long.txt"
    path.write_bytes("ä b\nc üüü\n".encode())
    assert read_text(path) == "ä b\n"


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "marked.txt"
    path.write_bytes("\ufeffwords".encode())
    assert read_text(path) == "words"


def test_a_folder_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_text(tmp_path)


def test_calibration_and_measurement_share_no_text() -> None:
    (code, prose), (held_code, held_prose) = library_texts(held_out=False), library_texts(held_out=True)
    assert min(map(len, (code, prose, held_code, held_prose))) > 0
    assert not {*code, *prose} & {*held_code, *held_prose}
    assert any("def " in text for text in islice(code, 5)) and not any("\ndef " in text for text in prose[:5])
    assert len(held_code) + len(held_prose) < (len(code) + len(prose)) / 8


def test_what_is_held_out_follows_from_the_name() -> None:
    """As in the recipe of the starter, which was not trained on these."""
    names = chain((f"stdlib/{at}.py" for at in range(1600)), ["topics/lambda"])
    assert 70 < sum(map(is_held_out, names)) < 130
