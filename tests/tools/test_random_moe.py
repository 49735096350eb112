"""Files of random mixtures of experts: true to their format, the same for a seed, whole or not there."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader, quants
from numpy.typing import NDArray

from ebbtide.engine.messages import Finished
from ebbtide.engine.model.forward import Forward
from tests.helpers.in_process import TEXT, generate, load, of, run
from tests.helpers.moe.recording import Recording
from tests.helpers.moe.residual import COMMON, OWN, Residual
from tests.helpers.moe.shapes import SHAPES, tiny
from tests.helpers.moe.vocabulary import words
from tests.helpers.waiting import wait_until
from tests.tools import moe_routing, random_moe

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python has the quantiser and is the oracle")

ANSWER = 24
NEAR = 0.5
"""Scores this close (they spread by 3) may swap places: llama.cpp rounds activations to 8 bits."""


def written(folder: Path, shape: str, *options: str) -> Path:
    path = folder / f"{shape}{''.join(options)}.gguf"
    random_moe.main([shape, str(path), "--tiny", *options])
    return path


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ("olmoe-1b-7b", "Q4_0"),
        ("olmoe-1b-7b", "Q4_K"),  # experts' down rows fall back to Q5_0
        ("olmoe-1b-7b", "Q3_K"),  # and to IQ4_NL
        ("qwen1.5-moe-a2.7b", "Q8_0"),
        ("qwen3-30b-a3b", "Q4_0"),
        ("qwen3-30b-a3b", "IQ4_XS"),
    ],
)
def test_llama_cpp_and_ebbtide_choose_the_same_tokens(tmp_path: Path, shape: str, kind: str) -> None:
    path = written(tmp_path, shape, "--type", kind, "--layers", "2")
    model: Any = llama_cpp.Llama(str(path), n_ctx=512, n_threads=1, logits_all=True, verbose=False)
    at = Recording(path, ctx=512, threads=1)
    ids = at.runtime.tokenizer.encode(TEXT, add_bos=False, parse_special=False)
    assert ids == model.tokenize(TEXT.encode(), add_bos=False)
    at.read(ids)
    model.eval(ids)
    mute = words(512, None).mute
    likeness, clear = [], 0
    for _ in range(ANSWER):
        ours, theirs = at.logits.copy(), np.array(model.scores[model.n_tokens - 1])
        likeness.append(np.corrcoef(ours[~mute], theirs[~mute])[0, 1])
        first, second = np.sort(ours)[:-3:-1]
        clear += first - second > NEAR
        assert ours.argmax() == theirs.argmax() or first - second <= NEAR
        assert ours[mute].max() < np.median(ours[~mute]) - 5  # no end, no filling, ever
        model.eval([int(ours.argmax())])
        at.answer(1)
    assert clear > ANSWER / 4
    # Where two experts are nearly as good, the last one chosen may be another.
    assert min(likeness) > 0.98 and np.median(likeness) > 0.999
    at.close()
    model.close()


def test_what_is_recorded_is_what_the_engine_answers(tmp_path: Path) -> None:
    path = written(tmp_path, "qwen3-30b-a3b")
    finished = of(run(load(path, pack="no"), generate(max_tokens=ANSWER)), Finished)[-1]
    at = Recording(path, ctx=512, threads=2)
    ids = at.runtime.tokenizer.encode(TEXT, add_bos=True, parse_special=True)
    at.read(ids)
    prompt = at.taken()
    assert at.answer(ANSWER) == finished.token_ids
    sizes = tiny(SHAPES["qwen3-30b-a3b"]).sizes
    assert [layer.shape for layer in prompt] == [(len(ids), sizes.top_k)] * sizes.layers
    assert [len(layer) for layer in at.taken()] == [ANSWER] * sizes.layers
    at.close()


def test_routers_carry_experts_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "olmoe-1b-7b")
    moe_routing.main([str(path), "--prompt", "300", "--answer", "60", "--threads", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["answer_tokens"] == 60
    assert 0.4 < found["carry_over_prompt"] < 0.8  # by chance 0.25: 4 of 16 experts
    assert found["carry_over_answer"] > 0.4
    rates = [found[f"lru_miss_{share}%"] for share in (25, 40, 50, 75)]
    assert rates == sorted(rates, reverse=True) and rates[0] > rates[-1] > 0


def test_no_two_experts_are_alike_and_their_weights_have_the_wished_size(tmp_path: Path) -> None:
    path = written(tmp_path, "olmoe-1b-7b", "--layers", "2")
    tensors = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    experts = [
        matrix
        for name in ("blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.1.ffn_gate_exps.weight")
        for matrix in quants.dequantize(tensors[name].data, tensors[name].tensor_type)
    ]
    assert all(matrix.std() == pytest.approx(256**-0.5, rel=0.05) for matrix in experts)
    products = np.corrcoef([matrix.ravel() for matrix in experts])
    assert abs(products - np.eye(len(experts))).max() < 0.05


def test_the_seed_decides_every_byte(tmp_path: Path) -> None:
    first, again, other = (
        written(tmp_path, "qwen3-30b-a3b", "--seed", seed).read_bytes()[-100_000:] for seed in ("3", "3", "4")
    )
    assert first == again != other


def test_threads_do_not_decide_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = written(tmp_path, "olmoe-1b-7b").read_bytes()
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert written(tmp_path, "olmoe-1b-7b").read_bytes() == many


def test_a_tokenizer_of_another_file_is_taken_and_filled_up(tmp_path: Path) -> None:
    path = written(tmp_path, "olmoe-1b-7b")
    taken = words(700, path)
    assert taken.texts[:512] == words(512, None).texts and taken.texts[-1] == "[PAD699]"
    assert taken.mute[[0, 1, 2, 600]].all() and not taken.mute[3:250].any()
    with pytest.raises(ValueError, match="does not hold"):
        words(100, path)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        random_moe.main(list(arguments))
    return ended.value.code, capsys.readouterr().err


def test_a_full_disk_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(random_moe, "free_bytes", lambda folder: 70_000_000)
    code, told = refused(capsys, "olmoe-1b-7b", str(tmp_path / "out.gguf"), "--layers", "3")
    assert code == 4
    assert f"GB are needed in {tmp_path}" in told and "0.07 GB are free" in told and "fewer --layers" in told
    assert not list(tmp_path.glob("*.gguf*"))


def test_bad_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.gguf")
    for arguments, reason in (
        (("gpt-7", out), "invalid choice: 'gpt-7'"),
        (("olmoe-1b-7b", out, "--layers", "17"), "has 16"),
        (("olmoe-1b-7b", out, "--type", "Q2_K"), "invalid choice: 'Q2_K'"),
        (("olmoe-1b-7b", out, "--seed", "-1"), "must not be negative"),
        (("olmoe-1b-7b", str(tmp_path / "none" / "out.gguf")), "there is no folder"),
    ):
        code, told = refused(capsys, *arguments)
        assert code == 2 and reason in told
    assert not list(tmp_path.glob("*.gguf*"))


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (KeyboardInterrupt(), 130),
        (OSError(errno.ENOSPC, "No space left on device"), 4),
        (OSError(errno.EIO, "Input/output error"), 1),
    ],
)
def test_an_unfinished_file_is_removed_and_an_older_one_stays(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: BaseException,
    code: int,
) -> None:
    path = written(tmp_path, "olmoe-1b-7b")
    before = path.read_bytes()

    def fail(name: str, done: int, total: int) -> None:
        if done > total // 2:
            raise fault

    monkeypatch.setattr(random_moe, "tell", fail)
    ended, told = refused(capsys, "olmoe-1b-7b", str(path), "--tiny", "--seed", "1")
    assert ended == code
    assert "cannot be written" in told or code == 130
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_a_terminated_tool_leaves_nothing(tmp_path: Path) -> None:
    tool = str(Path(random_moe.__file__))
    command = [sys.executable, tool, "olmoe-1b-7b", str(tmp_path / "out.gguf"), "--layers", "1"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: any(tmp_path.glob("*.part")), "the unfinished file")
        process.terminate()
    assert process.returncode == 143
    assert not list(tmp_path.glob("out*"))


def test_parts_of_the_hidden_state_have_their_sizes(tmp_path: Path) -> None:
    """Of independent tokens, behind each layer's attention."""
    name = "qwen1.5-moe-a2.7b"
    at = Recording(written(tmp_path, name, "--type", "Q8_0"), ctx=512, threads=1)
    promised, found = Residual(tiny(SHAPES[name])), []
    forward, groups = at.runtime.forward, at.pager.groups
    assert isinstance(forward, Forward)

    def look(layer: int, experts: NDArray[np.integer]) -> Iterator[NDArray[np.uint8]]:
        halves = np.split(forward._rows.x[: len(experts)], 2, axis=1)
        found.append([halves[0].mean(), halves[0].std(), halves[1].std()])
        return groups(layer, experts)

    at.pager.groups = look  # type: ignore[method-assign]
    at.read(np.random.default_rng(0).integers(3, 250, 256).tolist())
    at.close()
    for layer, (common, own, context) in enumerate(found):
        assert common == pytest.approx(COMMON, rel=0.1)
        assert own == pytest.approx(OWN, rel=0.2)
        assert context * OWN / own == pytest.approx(np.sqrt(promised.context(layer)), rel=0.2)
