import pytest

from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.budget import Budget, headroom_bytes, parse_budget, parse_bytes
from ebbtide.engine.sizes import MIB, mib_typed, mib_words


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("300MiB", 300 << 20),
        ("8GB", 8 * 10**9),
        ("8gb", 8 * 10**9),
        ("1.5GiB", 3 << 29),
        (" 2 GiB ", 2 << 30),
        ("512M", 512 << 20),
        ("64k", 64 << 10),
        ("123", 123),
        ("7B", 7),
        ("1TB", 10**12),
    ],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert parse_bytes(text) == nbytes
    assert parse_budget(text) == Budget("bytes", nbytes)


@pytest.mark.parametrize(("text", "value"), [("40%", 40.0), ("0%", 0.0), ("100 %", 100.0), ("12.5%", 12.5)])
def test_percent(text: str, value: float) -> None:
    assert parse_budget(text) == Budget("percent", value)


def test_auto() -> None:
    assert parse_budget("auto") == parse_budget(" AUTO ") == Budget("auto")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MiB",
        "-5MiB",
        "8 XB",
        "8GB extra",
        "1e9",
        "1,5GB",
        "12,34MiB",
        "1,234.5GB",
        "nan",
        "101%",
        "-1%",
        "%",
        "0",
        "0MiB",
        "٣MB",
    ],
)
def test_nonsense_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_budget(text)
    assert error.value.hint


def test_quoted_sizes_are_enough() -> None:
    for nbytes in (1, MIB - 1, MIB, MIB + 1, 300 * MIB):
        assert parse_bytes(mib_typed(nbytes)) >= nbytes
    assert parse_bytes(mib_words(2736 * MIB)) == 2736 * MIB


def test_headroom_grows_with_memory_from_a_least() -> None:
    assert headroom_bytes(1 << 30) == 384 * MIB
    assert headroom_bytes(32 << 30) == 2 << 30
