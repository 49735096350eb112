"""Calibration of tiny models in process: right moments, the same ones however it goes, and clear refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.precision import calibrating, units
from ebbtide.engine.precision.calibration_file import Calibration, Part, calibration_path, model_key
from ebbtide.engine.precision.damage import all_damage
from ebbtide.engine.precision.moments import Moments, steadied
from ebbtide.engine.precision.passages import passages
from ebbtide.engine.text import Tokenizer
from ebbtide.engine.weights.gguf_source import GgufSource
from tests.helpers.float_moments import FloatMoments
from tests.helpers.in_process import load, of, run
from tests.helpers.tiny_models import EIGHT_EXPERTS, Family, write_tiny

WORDS = "def tell(self, {0}):\n    return self.{0} in the ring of {1}\n"
TEXT = "".join(WORDS.format(f"name{at % 37}", at * at) for at in range(130))
"""About 6,500 tokens of the tiny vocabulary: 14 passages, 28 chunks, so 84 layers."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "mixtral.gguf", "mixtral", **EIGHT_EXPERTS)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.py"
    path.write_text(TEXT)
    return path


def calibrate(
    model: Path, cache: Path, text: Path | None, cancel_after: int | None = None, **fields: Any
) -> m.Calibrated | m.Failed:
    """The outcome of one calibration in a fresh engine."""
    of_load = {name: fields.pop(name) for name in ("budget", "threads", "isa") if name in fields}
    wish = m.Calibrate(1, str(cache), text_path=str(text or ""), **fields)
    events = run(load(model, cache_dir=str(cache), **of_load), wish, cancel_after=cancel_after)
    (outcome,) = [event for event in events if isinstance(event, m.Calibrated | m.Failed)]
    return outcome


def kept(model: Path, cache: Path) -> Calibration:
    source = GgufSource(open_gguf(model))
    try:
        key = model_key(source)
        return Calibration.load(calibration_path(cache, key), key, source.spec)
    finally:
        source.close()


def file_bytes(outcome: m.Calibrated | m.Failed) -> bytes:
    assert isinstance(outcome, m.Calibrated), outcome
    return Path(outcome.path).read_bytes()


@pytest.mark.parametrize("family", ["mixtral", "olmoe", "qwen2moe", "qwen3moe"])
def test_moments_follow_the_float_reference(
    family: Family, tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "PASSAGE_TOKENS", 16)  # the reference is slow, and this is about moments
    model = write_tiny(tmp_path / "model.gguf", family, seed=2)
    outcome = calibrate(model, tmp_path, text, isa="reference", max_tokens=700)
    assert isinstance(outcome, m.Calibrated) and outcome.tokens == 700
    found, expected = kept(model, tmp_path).moments, FloatMoments(model)
    tokenizer = Tokenizer.from_gguf(open_gguf(model))

    def encode(part: str) -> list[int]:
        return tokenizer.encode(part, add_bos=False, parse_special=False)

    for ids in passages([[TEXT]], encode, [], 512, 700):
        expected.logits(ids)
    # The kernels round what goes into a product to 8 or 16 bits; a token may choose another expert by that.
    np.testing.assert_allclose(found.mass * found.tokens, expected.mass, rtol=0.02)
    for name in ("gate_up", "down"):
        right = getattr(expected, name) / expected.mass[..., None]
        np.testing.assert_allclose(getattr(found, name), right, rtol=0.05, atol=0.01 * right.max())


def test_the_budget_and_the_threads_change_no_bit(model: Path, text: Path, tmp_path: Path) -> None:
    whole = file_bytes(calibrate(model, tmp_path / "a", text))
    for budget, threads in (("20%", 2), ("0%", 1)):
        assert file_bytes(calibrate(model, tmp_path / "a", text, budget=budget, threads=threads)) == whole


@pytest.mark.parametrize("layers", [1, 40, 83, 100, 150])
def test_an_interrupted_one_goes_on_to_the_same_file(
    layers: int, model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many layers: in the first passage, in the middle, and in the very last of them; then while the
    error of each width is measured, and what it costs.
    """
    monkeypatch.setattr(calibrating, "CHECKPOINT_PASSAGES", 2)
    whole = file_bytes(calibrate(model, tmp_path / "whole", text))
    cut = calibrate(model, tmp_path / "cut", text, cancel_after=layers)
    assert isinstance(cut, m.Failed) and cut.exit_code == 130
    parts = list((tmp_path / "cut" / "calibration").glob("*"))
    assert [path.name.endswith(".part.npz") for path in parts] == [True]
    assert file_bytes(calibrate(model, tmp_path / "cut", text, resume=True)) == whole
    assert [path.suffixes for path in (tmp_path / "cut" / "calibration").iterdir()] == [[".npz"]]


def test_damage_is_of_moments_that_few_tokens_do_not_shake(
    model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moments themselves are kept as they were measured: others may be added to them."""
    given: list[Moments] = []

    def look(source: Any, moments: Moments, progress: Any) -> Any:
        given.append(moments)
        return all_damage(source, moments, progress)

    monkeypatch.setattr(calibrating, "all_damage", look)
    calibrate(model, tmp_path, text)
    measured, (used,) = kept(model, tmp_path).moments, given
    assert (used.gate_up == steadied(measured).gate_up).all()
    assert (used.gate_up != measured.gate_up).any()


def test_what_errors_cost_is_kept_too(model: Path, text: Path, tmp_path: Path) -> None:
    outcome = calibrate(model, tmp_path, text)
    assert isinstance(outcome, m.Calibrated) and outcome.has_unit and outcome.has_damage
    unit = kept(model, tmp_path).unit
    assert unit is not None and unit.shape == (EIGHT_EXPERTS["layers"], 2) and (unit > 0).all()
    assert unit.std() > 0


def test_resume_does_only_what_is_left(
    model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "CHECKPOINT_PASSAGES", 2)
    calibrate(model, tmp_path, text, cancel_after=40)
    wish = m.Calibrate(1, str(tmp_path), text_path=str(text), resume=True)
    events = run(load(model, cache_dir=str(tmp_path)), wish)
    told = [event for event in of(events, m.Progress) if event.stage == calibrating.STAGE]
    assert 900 < told[0].done < told[-1].done == told[-1].total


def test_without_resume_it_begins_anew(
    model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "CHECKPOINT_PASSAGES", 2)
    calibrate(model, tmp_path, text, cancel_after=40)
    other = tmp_path / "other.txt"
    other.write_text("another text " * 50)
    refused = calibrate(model, tmp_path, other, resume=True)
    assert isinstance(refused, m.Failed) and refused.exit_code == 2 and "--resume" in refused.hint
    assert file_bytes(calibrate(model, tmp_path, other)) == file_bytes(
        calibrate(model, tmp_path / "b", other)
    )


def test_a_part_of_another_model_or_damaged_is_refused(
    model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "CHECKPOINT_PASSAGES", 2)
    other = write_tiny(tmp_path / "other.gguf", "olmoe", seed=1, **EIGHT_EXPERTS)
    for path in (model, other):
        calibrate(path, tmp_path, text, cancel_after=40)
    own, foreign = (Part.path(_place(path, tmp_path)) for path in (model, other))
    own.write_bytes(foreign.read_bytes())
    refused = calibrate(model, tmp_path, text, resume=True)
    assert isinstance(refused, m.Failed) and refused.exit_code == 3
    assert "other.gguf" in refused.message and "mixtral.gguf" in refused.message
    own.write_bytes(foreign.read_bytes()[:-1000])
    refused = calibrate(model, tmp_path, text, resume=True)
    assert isinstance(refused, m.Failed) and refused.exit_code == 3 and "damaged" in refused.message


def _place(model: Path, cache: Path) -> Path:
    source = GgufSource(open_gguf(model))
    source.close()
    return calibration_path(cache, model_key(source))


@pytest.mark.parametrize(
    ("content", "word"), [(b"", "no text"), (b" \n\t\n", "no text"), (b"\xff\xfe", "UTF-8")]
)
def test_a_text_without_words_is_refused(content: bytes, word: str, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    refused = calibrate(model, tmp_path, path)
    assert isinstance(refused, m.Failed) and refused.exit_code == 2 and word in refused.message
    assert not (tmp_path / "calibration").exists()


def test_a_text_that_is_not_there_is_refused(model: Path, tmp_path: Path) -> None:
    refused = calibrate(model, tmp_path, tmp_path / "nothing.txt")
    assert isinstance(refused, m.Failed) and refused.exit_code == 2 and "nothing.txt" in refused.message


@pytest.mark.parametrize("words", ["a", "one line of words\n"])
def test_a_text_shorter_than_a_chunk(words: str, model: Path, tmp_path: Path) -> None:
    """A single token is no recorded one here; experts that it did not choose have the layer's mean."""
    path = tmp_path / "short.txt"
    path.write_text(words)
    outcome = calibrate(model, tmp_path, path)
    assert isinstance(outcome, m.Calibrated) and 1 <= outcome.tokens < 20
    found = kept(model, tmp_path).moments
    unused = found.mass == 0
    assert outcome.unused_experts == unused.sum() > 0
    for layer in range(EIGHT_EXPERTS["layers"]):
        share = found.mass[layer] / found.mass[layer].sum()
        mean = (share[:, None] * found.gate_up[layer]).sum(axis=0)
        filled = found.gate_up[layer, unused[layer]]
        np.testing.assert_allclose(filled, np.broadcast_to(mean, filled.shape), rtol=1e-4)


def test_the_default_text_is_code_and_prose(model: Path, tmp_path: Path) -> None:
    outcome = calibrate(model, tmp_path, None, max_tokens=1500)
    assert isinstance(outcome, m.Calibrated) and outcome.tokens == 1500
    again = calibrate(model, tmp_path / "again", None, max_tokens=1500)
    assert file_bytes(outcome) == file_bytes(again)


def test_a_dense_model_has_nothing_to_calibrate(tmp_path: Path, text: Path) -> None:
    model = write_tiny(tmp_path / "dense.gguf", "llama")
    refused = calibrate(model, tmp_path, text)
    assert isinstance(refused, m.Failed) and refused.exit_code == 2 and "no experts" in refused.message


def test_a_folder_that_takes_no_file(model: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "calibration").write_text("in the way")
    refused = calibrate(model, tmp_path, text, cancel_after=0)
    assert isinstance(refused, m.Failed) and refused.exit_code == 4 and "written" in refused.message
