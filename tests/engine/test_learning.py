"""Moments gathered while somebody chats: no answer changes, nothing is lost, nothing disturbs a chat."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Forward
from ebbtide.engine.precision import known_damage, learning
from ebbtide.engine.precision.array_file import alone
from ebbtide.engine.precision.calibration_file import (
    Calibration,
    Origin,
    aside_path,
    calibration_files,
    calibration_path,
    key_of,
    model_key,
)
from ebbtide.engine.precision.learning import Learner
from ebbtide.engine.precision.moments import Moments
from ebbtide.engine.precision.routes import Routes
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.weights.book_wish import BookWish
from ebbtide.engine.weights.open import read_spec
from ebbtide.engine.weights.pack_write import write_pack
from tests.engine.test_widths_that_follow import PROMPT, SIZES, Watched
from tests.helpers.in_process import TEXT, generate, load, of, run
from tests.helpers.tiny_models import write_tiny


@pytest.fixture(autouse=True)
def little_is_enough(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(learning, "LEAST_TOKENS", 64)
    yield


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "mixtral.gguf", "mixtral", **SIZES)


def loaded(model: Path, *, learn: bool = True, **fields: Any) -> m.Load:
    cache = str(model.parent / "cache")
    return load(model, **({"learn": learn, "cache_dir": cache, "ctx": 2048} | fields))


def place(model: Path) -> Path:
    return calibration_path(model.parent / "cache", key_of(open_gguf(model)))


def kept(model: Path) -> Calibration:
    file = open_gguf(model)
    return Calibration.load(place(model), key_of(file), read_spec(file))


def keep(model: Path, tokens: int = 900, origin: Origin = "chats") -> Calibration:
    """Moments from elsewhere, in the place of the model's."""
    file, rng = open_gguf(model), np.random.default_rng(0)
    spec = read_spec(file)
    shapes = [(spec.layers, spec.experts, columns) for columns in (spec.d_model, spec.expert_d_ff)]
    gate_up, down = (rng.gamma(0.5, size=shape).astype(np.float32) for shape in shapes)
    mass = rng.gamma(1.0, size=(spec.layers, spec.experts))
    calibration = Calibration(key_of(file), Moments(gate_up, down, mass, tokens), origin=origin)
    calibration.save(place(model))
    return calibration


def said(events: list[m.Event]) -> list[str]:
    return [found.sentence for found in of(events, m.Decision) if found.kind == "learning"]


def long(request_id: int = 1, **fields: Any) -> m.Generate:
    return generate(request_id, **({"text": PROMPT, "max_tokens": 30, "ignore_end": True} | fields))


@pytest.mark.parametrize("quality", ["exact", "balanced"])
def test_no_token_and_no_width_changes(model: Path, quality: str) -> None:
    turns = long(), long(2, text=TEXT), m.Clear(), long(3)
    runs = [
        Watched(loaded(model, learn=learn, budget="75%", quality=quality), *turns).run()
        for learn in (False, True)  # what the second keeps, the first does not know
    ]
    ids = [[done.token_ids for done in of(seen.events, m.Finished)] for seen in runs]
    assert len(ids[0]) == 3 and ids[0] == ids[1]
    assert (runs[0].table.committed == runs[1].table.committed).all()
    assert said(runs[1].events) and not said(runs[0].events)


@pytest.mark.parametrize("last", [None, 0, 1, 7])
@pytest.mark.parametrize("follows", [False, True])
def test_no_bit_of_a_chunk_changes(model: Path, last: int | None, follows: bool) -> None:
    """Nor what the routes of a model whose widths follow them are."""
    runtime = Runtime.load(loaded(model, budget="40%"), lambda *_: None)
    forward, spec = runtime.forward, runtime.spec
    assert isinstance(forward, Forward)
    learner, found = Learner(forward, place(model), model_key(runtime.source)), []
    for reads in (forward, learner):
        routes = Routes(spec.layers, spec.experts, None)
        forward.routes = routes if follows else None
        sequence = runtime.pool.new_sequence()
        runtime.pool.extend(sequence, 40, runtime.fast.provenance(Lane.PREFILL))
        view = runtime.kv_view(sequence)
        rows = reads.hidden(np.arange(3, 43, dtype=np.int32), 0, view, lambda: False, last).copy()
        runtime.pool.extend(sequence, 1, runtime.fast.provenance(Lane.DECODE))
        token = forward.hidden(np.array([9], np.int32), 40, view, lambda: False).copy()
        runtime.pool.release(sequence)
        found.append((rows, token, routes.routing.mass(), routes.tokens))
    runtime.close()
    assert learner._samples is not None and learner._samples.tokens == 40
    assert len(found[0][0]) == (40 if last is None else last)
    for plain, seen in zip(*found, strict=True):
        assert np.array_equal(plain, seen)


def test_what_chats_show_is_kept_and_added_to(model: Path) -> None:
    events = run(loaded(model), long())
    first = kept(model)
    assert first.origin == "chats" and first.damage is None and not first.moments.has_down
    assert 64 <= first.moments.tokens <= 600, "one chunk of eight"
    per_token = first.moments.mass.sum(axis=1)
    assert (per_token > 0.4).all() and (per_token <= 1).all(), "the last layer's rows too"
    assert said(events) == [
        f"What chats show of the experts is kept: {first.moments.tokens} tokens, "
        f"{first.moments.tokens} of them new"
    ]
    run(loaded(model), long())
    both = kept(model).moments
    assert both.tokens == 2 * first.moments.tokens
    np.testing.assert_allclose(both.mass, first.moments.mass)
    np.testing.assert_allclose(both.gate_up, first.moments.gate_up, rtol=1e-5)


def test_what_is_new_is_kept_when_another_model_is_loaded(model: Path) -> None:
    """Also what no rest came for: the load waits behind the answer."""
    other = write_tiny(model.with_name("llama.gguf"), "llama")
    run(loaded(model), long(), loaded(other))
    assert kept(model).moments.tokens and len(
        calibration_files(model.parent / "cache", key_of(open_gguf(model)))
    )


def test_a_small_budget_is_not_for_this(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MOST_OF_BUDGET", 1e-4)
    assert not said(run(loaded(model), long())) and not place(model).exists()


def test_little_is_not_worth_a_write(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "LEAST_TOKENS", 4096)
    assert not said(run(loaded(model), long(), generate(2))) and not place(model).exists()


def test_only_questions_are_looked_at(model: Path) -> None:
    cache = str(model.parent / "cache")
    score, arm = m.Score(1, PROMPT), m.Arm(2, "static", bits=5, cache_dir=cache)
    events = run(loaded(model, budget="64MiB"), score, arm, m.Score(3, PROMPT, against_full=True))
    assert not of(events, m.Failed) and not said(events) and not place(model).exists()
    run(loaded(model, learn=False), long())
    assert not place(model).exists()


@pytest.mark.parametrize("origin", ["text", "imatrix"])
def test_a_calibration_stays_as_it_is(model: Path, origin: Origin) -> None:
    keep(model, origin=origin)
    before = place(model).read_bytes()
    assert not said(run(loaded(model), long())) and place(model).read_bytes() == before


def test_a_calibration_that_was_made_meanwhile_stays(model: Path) -> None:
    seen = Watched(loaded(model), long())

    def calibrate() -> None:
        if of(seen.events, m.Loaded) and not place(model).exists():
            keep(model, origin="text")

    seen.idle = calibrate
    events = seen.run().events
    assert len(of(events, m.Finished)) == 1 and kept(model).origin == "text"
    assert said(events) == ["Chats add nothing more to the calibration: the model has been calibrated."]


def test_calibrate_replaces_what_chats_showed(model: Path) -> None:
    keep(model)
    cache = str(model.parent / "cache")
    events = run(load(model), m.Calibrate(1, cache_dir=cache, text_path=__file__, max_tokens=512))
    assert of(events, m.Calibrated) and kept(model).origin == "text" and kept(model).moments.has_down
    assert kept(model).moments.tokens <= 512


def test_two_windows_lose_nothing_of_each_other(model: Path) -> None:
    run(loaded(model), long())
    alone = kept(model).moments.tokens
    place(model).unlink()
    outer, inner = (Watched(loaded(model), long()) for _ in range(2))

    def other_window() -> None:
        if of(outer.events, m.Loaded) and not inner.events:
            inner.run()

    outer.idle = other_window
    outer.run()
    assert kept(model).moments.tokens == 2 * alone


@pytest.mark.parametrize("fault", ["full", "no folder"])
def test_what_cannot_be_written_disturbs_nobody(
    model: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    if fault == "full":
        monkeypatch.setattr("ebbtide.engine.precision.array_file.os.fsync", full)
    else:
        (model.parent / "cache").mkdir(exist_ok=True)
        place(model).parent.write_bytes(b"a file where the folder should be")
    events = run(loaded(model, pack="no"), long(), generate(2), long(3))
    assert [done.finish_reason for done in of(events, m.Finished)] == ["length", "length", "length"]
    assert not of(events, m.Failed) and len(said(events)) == 1
    assert "could not be written" in said(events)[0] and not place(model).is_file()


@pytest.mark.parametrize("kind", ["damaged", "foreign", "arrays"])
def test_a_file_that_cannot_be_used_is_put_aside(model: Path, kind: str) -> None:
    file = place(model)
    keep(model)
    data = bytearray(file.read_bytes())
    if kind == "arrays":  # which only the merging reads
        data[data.index(b"mass.npy") + 400] ^= 255
    else:
        other = write_tiny(model.with_name("other.gguf"), "mixtral")
        keep(other)
        data = bytearray(b"no archive" if kind == "damaged" else place(other).read_bytes())
    file.write_bytes(data)
    events = run(loaded(model), long())
    told = [*of(events, m.Loaded)[0].notices, *said(events)]
    (sentence,) = (sentence for sentence in told if "aside" in sentence)
    assert "ebbtide calibrate" in sentence and aside_path(file).name in sentence
    assert aside_path(file).read_bytes() == data and kept(model).moments.tokens < 600
    assert set(calibration_files(model.parent / "cache", key_of(open_gguf(model)))) == {
        file,
        aside_path(file),
    }


def test_widths_follow_what_chats_showed(model: Path) -> None:
    """Damage is measured anew when there are twice as many tokens behind the moments, and not before."""
    wish = loaded(model, learn=False, quality="balanced", budget="75%")
    measured = []
    for tokens in (None, 900, 1000, 1799, 1800, 2000):
        if tokens:
            keep(model, tokens)
        events = run(wish, generate(max_tokens=1))
        measured.append(known_damage.STAGE in {event.stage for event in of(events, m.Progress)})
        notice = known_damage.BY_CHATS.format(tokens=tokens) if tokens else known_damage.NO_CALIBRATION
        assert [told for told in of(events, m.Loaded)[0].notices if "Widths are" in told] == [notice]
    assert measured == [True, True, False, False, True, False]


def test_mass_of_chats_is_where_routing_begins(model: Path) -> None:
    calibration = keep(model)
    seen = Watched(loaded(model, learn=False, quality="balanced", budget="75%")).run()
    assert seen.engine._widths is not None
    mass = seen.engine._widths._routes.routing.mass()
    np.testing.assert_allclose(mass, calibration.moments.mass)


def test_models_without_planes_of_their_own_to_choose(model: Path, tmp_path: Path) -> None:
    dense = write_tiny(tmp_path / "dense.gguf", "llama", context=2048)
    pack = write_pack(model, tmp_path / "mixtral.any.pack.gguf", page_bytes=4096, books=BookWish())
    for path in (dense, pack):
        events = run(loaded(path, pack="no"), long())
        assert not of(events, m.Failed) and not said(events)
    assert not place(model).exists()


def test_a_pack_of_codes_takes_nothing_from_chats_but_mass(model: Path, tmp_path: Path) -> None:
    keep(model)
    pack = write_pack(model, tmp_path / "mixtral.any.pack.gguf", page_bytes=4096, books=BookWish())
    events = run(loaded(pack, quality="high", pack="no"), generate(max_tokens=1))
    assert known_damage.BOOKS_ALONE in of(events, m.Loaded)[0].notices


def test_a_process_that_was_stopped_while_it_wrote_holds_nobody_up(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "alone", partial(alone, patience_s=0))
    with alone(place(model).parent) as first, alone(place(model).parent, 0) as second:
        assert (first, second) == (True, False)
        events = run(loaded(model), long(), long(2))
    assert len(of(events, m.Finished)) == 2 and len(said(events)) == 1 and "let go" in said(events)[0]
    assert not place(model).exists()
    assert "is kept" in said(run(loaded(model), long()))[0]
