"""What a text will cost, learnt from what earlier prompts have cost."""

from ebbtide.app.token_rate import TokenRate, size_of


def test_it_learns_from_prompts_that_are_long_enough() -> None:
    rate = TokenRate()
    assert rate.tokens(3300) == 1000
    rate.learn(400, 200)
    assert rate.tokens(3000) == 1500
    rate.learn(30, 49)
    rate.learn(100_000, 50)
    assert rate.tokens(3000) == 1500, "too short, or not likely"


def test_sizes_are_bytes() -> None:
    assert (size_of("abc"), size_of("漢"), size_of("\ud800")) == (3, 3, 1)
