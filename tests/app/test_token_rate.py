"""What a text will cost: judged by what it is made of, and learnt from what earlier prompts have cost."""

import pytest

from ebbtide.app.token_rate import SAMPLE_CHARACTERS, SAMPLES, TokenRate, usual_tokens

ROWS = range(400)
TEXTS = {
    "integers": ("\n".join(f"{n * 7919 % 1000} {n * 31} {n * n}" for n in ROWS), 5928),
    "fractions": ("\n".join(f"{n / 7:.6f},{n / 11:.6f},{n / 13:.4f}" for n in ROWS), 10889),
    "log": (
        "\n".join(f"2026-11-30 08:{n % 60:02}:12.345 INFO request {n} took {n / 7:.2f} ms" for n in ROWS),
        15419,
    ),
    "hexadecimal": ("\n".join(f"{n * 2654435761 % 2**32:08x} {n * 40503 % 2**16:04x}" for n in ROWS), 5025),
    "csv": ("\n".join(f"{n},name{n},{n * 3}.5,true" for n in ROWS), 6607),
    "words": (
        "The budget counts everything that is put into fast memory, also what is thrown away.\n" * 50,
        900,
    ),
    "capitals": ("ERROR_CODE_INVALID MAX_RETRY_COUNT\n" * 100, 1400),
    "code": (
        "    def take(self, index: int = -1) -> str | None:\n        return self._rows[index]\n" * 50,
        1301,
    ),
    "Russian": ("Сегодня хорошая погода, пойдём гулять в парк. " * 60, 2222),
}
"""With their tokens in the starter's vocabulary, in which each digit is a token."""


@pytest.mark.parametrize("name", TEXTS)
def test_the_estimate_is_near(name: str) -> None:
    text, tokens = TEXTS[name]
    assert 0.8 * tokens <= usual_tokens(text) <= 1.25 * tokens


@pytest.mark.parametrize("name", TEXTS)
def test_of_a_long_text_some_is_enough(name: str) -> None:
    text = TEXTS[name][0] + "\n"
    many = 1 + 3 * SAMPLES * SAMPLE_CHARACTERS // len(text)
    assert usual_tokens(text * many) == pytest.approx(many * usual_tokens(text), rel=0.05)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("7", 1), ("\ud800", 1), (" ", 0)])
def test_short_and_odd_texts(text: str, tokens: int) -> None:
    assert usual_tokens(text) == tokens


def test_it_learns_from_prompts_that_are_long_enough() -> None:
    rate = TokenRate()
    assert rate.tokens(1000) == 1000
    rate.learn(100, 200)
    assert rate.tokens(1000) == 2000
    rate.learn(30, 49)
    rate.learn(30_000, 50)
    assert rate.tokens(1000) == 2000, "too short, or not likely"
