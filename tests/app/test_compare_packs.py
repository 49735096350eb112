"""The third contender of a race inside a memory limit: ebbtide without a pack."""

from typing import Any

import msgspec
import pytest

from ebbtide.app.compare.packs import pages_from_a_pack
from ebbtide.app.compare.race import Race
from ebbtide.app.compare.rows import foot_lines
from ebbtide.app.compare.sample import DECODE, Prompt
from ebbtide.engine.messages import Load, Loaded, Memory
from tests.app.test_compare_parts import Told

LOADED = Loaded(
    *("m", "olmoe", 256, 100, 2, 8, "amx", 2, 0.1),
    memory=Memory(budget_bytes=900),
    base_bytes=300,
    expert_bytes=600,
    ample_bytes=50,
)


def test_it_takes_its_turn_and_what_is_cached_is_dropped_before_each() -> None:
    log: list[str] = []
    contenders = Told("a", log), Told("b", log)
    race = Race(
        *contenders,  # type: ignore[arg-type]
        [Prompt(DECODE, "", 1)],
        2,
        together=False,
        plain=Told("plain", log),  # type: ignore[arg-type]
        prepare=lambda: log.append("dropped"),
    )
    samples = race.run(lambda *_: None)
    assert [len(found[DECODE]) for found in samples] == [2, 2, 2]
    turn = ["dropped", "{} loads", "{} decode", "{} decode", "{} rests"]
    order = ["a", "b", "plain", "plain", "b", "a"]
    assert log == [step.format(name) for name in order for step in turn]


def test_who_stays_loaded_needs_no_clean_cache_again() -> None:
    log: list[str] = []
    race = Race(
        Told("a", log),  # type: ignore[arg-type]
        Told("b", log),  # type: ignore[arg-type]
        [Prompt(DECODE, "", 1)],
        2,
        together=True,
        prepare=lambda: log.append("dropped"),
    )
    assert race.run(lambda *_: None)[2] == {}
    assert log.count("dropped") == 2


@pytest.mark.parametrize(
    ("load", "budget_bytes", "wanted"),
    [
        (Load("m.gguf"), 949, True),
        (Load("m.gguf"), 950, False),
        (Load("m.gguf", pack="plain"), 949, False),
        (Load("m.pack.gguf"), 949, False),
    ],
)
def test_only_where_experts_are_paged_from_a_pack(load: Load, budget_bytes: int, wanted: bool) -> None:
    loaded = msgspec.structs.replace(LOADED, memory=Memory(budget_bytes=budget_bytes))
    assert pages_from_a_pack(loaded, load) is wanted


@pytest.mark.parametrize(
    ("pack_s", "words"), [(31.42, "The pack was made in 31.4 s, once."), (None, "had been made")]
)
def test_its_figures_are_told_below_the_table(pack_s: float | None, words: str) -> None:
    lines = foot_lines(_result(pack_s))
    told = next(line for line in lines if "without a pack" in line)
    assert "decode 2 tok/s (1 to 3), prefill 64 20.0 tok/s (20.0 to 20.0), first token 3 s (3 to 3)" in told
    assert "decode is 0.50x (0.40 to 0.60) of llama.cpp's" in told
    assert any(words in line for line in lines)


def _result(pack_s: float | None) -> dict[str, Any]:
    def spread(value: float, least: float, most: float) -> dict[str, Any]:
        return {"median": value, "min": least, "max": most, "runs": 3}

    settings = {"version": "0", "isa": "amx", "threads": 2, "ctx": 256, "budget_bytes": 900}
    return {
        "memory_limit_bytes": 1000,
        "read_ahead_bytes": None,
        "ebbtide": {"configuration": settings},
        "llama_cpp": {"configuration": None, "version": "0", "failures": []},
        "notes": [],
        "command": "ebbtide compare",
        "pack_s": pack_s,
        "ebbtide_plain": {
            "decode_tok_s": spread(2, 1, 3),
            "prefill_tok_s": {"64": spread(20, 20, 20)},
            "first_token_s": spread(3, 3, 3),
            "decode_ratio": 0.5,
            "decode_ratio_interval": [0.4, 0.6],
        },
    }
