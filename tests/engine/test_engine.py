"""The engine on tiny models in true formats: exactness, reuse, cancel, failures. In process, no pipe."""

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from ebbtide.app.budget_wish import bytes_of
from ebbtide.engine import messages as m
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.model.forward import Cancelled
from ebbtide.engine.room import CHUNK_TOKENS, LONG_CHUNK_TOKENS, HostRoom
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.scoring import teacher_forced
from ebbtide.engine.text import Tokenizer
from ebbtide.engine.threads import usable_threads
from ebbtide.engine.weights.pack_index import bank_tensor
from ebbtide.kernels.dispatch import IsaChoice, pick
from ebbtide.kernels.ops import Ops
from tests.helpers.attention_kernels import isas
from tests.helpers.decoder import Decoder
from tests.helpers.float_reference import FloatReference
from tests.helpers.in_process import TEXT, generate, load, of, run
from tests.helpers.random_blocks import SUPER_TYPES
from tests.helpers.tiny_models import EIGHT_EXPERTS, Family, write_tiny

LANES: tuple[Literal["prefill", "decode"], ...] = ("prefill", "decode")
FAMILIES: list[Family] = ["llama", "mixtral", "olmoe", "qwen2moe", "qwen3moe"]


# Wide enough that one expert is several pages and a third of the budget is a real shortage.


K_SIZES: dict[str, Any] = {"d_model": 256, "heads": 8, "d_ff": 256, "expert_d_ff": 256}


@pytest.fixture(scope="module")
def olmoe(folder: Path) -> Path:
    return write_tiny(folder / "olmoe.gguf", "olmoe", seed=1, **EIGHT_EXPERTS)


@pytest.mark.parametrize(
    ("family", "quant"),
    [*product(FAMILIES, ["Q8_0", "Q4_1", "IQ4_NL", "F16"]), ("mixtral", "Q3_K"), ("mixtral", "IQ4_XS")],
)
def test_logits_follow_the_float_reference(folder: Path, family: Family, quant: str) -> None:
    # What is rounded on the way: keys and values to BF16 (2^-9 relative each), F16 weights to 8-bit codes
    # (2^-8).
    bound = 0.05 if quant == "F16" else 0.02
    sizes = K_SIZES if quant in SUPER_TYPES else {}
    wrong: list[bool] = []
    for seed in (3, 4):
        path = write_tiny(folder / f"{family}-{quant}-{seed}.gguf", family, quant=quant, seed=seed, **sizes)
        logits, ids = logits_of_both_lanes(path)
        expected = FloatReference(path).logits(ids).numpy()
        wrong += (np.abs(logits - expected).max(axis=1) > bound * np.abs(expected).max()).tolist()
    # A rounding may swap two experts of nearly equal score: right, but another answer for that row.
    assert np.mean(wrong) <= (0.0 if family == "llama" else 0.1)


def logits_of_both_lanes(path: Path) -> tuple[np.ndarray[Any, Any], list[int]]:
    runtime = Runtime.load(load(path, pack="no"), lambda *_: None)
    ids = runtime.tokenizer.encode(TEXT, add_bos=False, parse_special=False)[:150]
    rows: dict[Lane, list[np.ndarray[Any, Any]]] = {Lane.PREFILL: [], Lane.DECODE: []}
    for lane, found in rows.items():
        teacher_forced(runtime, ids, lane, lambda: False, lambda _, logits, f=found: f.append(logits.copy()))  # type: ignore[misc]
    runtime.close()
    prefill, decode = (np.concatenate(found) for found in rows.values())
    assert (prefill == decode).all(), "the lanes must agree bit for bit at full width"
    return prefill, ids


@pytest.mark.parametrize("sampling", [m.Sampling(), m.Sampling(temperature=0.9, seed=11)])
@pytest.mark.parametrize("family", ["mixtral", "olmoe"])
def test_same_tokens_at_every_budget_and_thread_count(
    family: str, sampling: m.Sampling, request: pytest.FixtureRequest
) -> None:
    model, outcomes = request.getfixturevalue(family), {}
    for budget, threads in (("100%", 2), ("60%", 1), ("20%", 2), ("100%", 1), ("20%", 3)):
        events = run(load(model, budget=budget, threads=threads), generate(sampling=sampling))
        finished = of(events, m.Finished)[0]
        assert finished.memory.peak_bytes <= finished.memory.budget_bytes
        outcomes[budget, threads] = finished
    tokens = [tuple(finished.token_ids) for finished in outcomes.values()]
    assert len(set(tokens)) == 1 and len(tokens[0]) == 24
    assert outcomes["20%", 2].memory.expert_hit_rate < outcomes["100%", 2].memory.expert_hit_rate


@pytest.mark.parametrize("family", ["mixtral", "olmoe"])
def test_experts_read_on_a_guess_change_no_token(family: str, request: pytest.FixtureRequest) -> None:
    model, found = request.getfixturevalue(family), []
    for prefetch in (False, True):
        decoder = Decoder(model, TEXT, budget="60%", prefetch=prefetch)
        assert decoder.runtime.pager is not None
        for _ in range(24):
            decoder.seconds(1)
            decoder.runtime.fast.check_integrity()
            found.append(decoder.runtime.logits[0].copy())
        assert (decoder.runtime.pager.trust.made > 0) == prefetch
        decoder.close()
    assert (np.array(found[:24]) == np.array(found[24:])).all()


def test_a_cancelled_token_leaves_no_guess_open(olmoe: Path) -> None:
    decoder = Decoder(olmoe, TEXT, budget="60%", prefetch=True)
    runtime, checks = decoder.runtime, iter([False, False, True])
    with pytest.raises(Cancelled):
        sequence = runtime.pool.new_sequence()
        runtime.pool.extend(sequence, 1, Provenance(Lane.DECODE, runtime.kv.format))
        runtime.forward.hidden(np.array([7], np.int32), 0, runtime.kv_view(sequence), lambda: next(checks))
    runtime.pool.release(sequence)
    runtime.fast.check_integrity()
    decoder.close()


def test_long_chunks_give_the_bits_of_short_ones(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiny(folder / "long.gguf", "mixtral", context=1024)
    outcomes = []
    for chunk in (CHUNK_TOKENS, LONG_CHUNK_TOKENS):
        monkeypatch.setattr(HostRoom, "chunks", (chunk,))
        outcomes.append(prompt_logits(path, 700))
    short, long = outcomes
    assert len(short) == 700 and (short == long).all()


def prompt_logits(path: Path, tokens: int) -> np.ndarray[Any, Any]:
    runtime = Runtime.load(load(path, ctx=1024), lambda *_: None)
    assert (runtime.chunk_tokens,) == HostRoom.chunks
    ids = runtime.tokenizer.encode(TEXT * 8, add_bos=False, parse_special=False)[:tokens]
    rows: list[np.ndarray[Any, Any]] = []
    teacher_forced(runtime, ids, Lane.PREFILL, lambda: False, lambda _, logits: rows.append(logits.copy()))
    runtime.close()
    return np.concatenate(rows)


def test_chunks_are_long_where_memory_is_ample(folder: Path) -> None:
    sizes: dict[str, Any] = {"layers": 2, "experts": 64, "d_ff": 1024, "d_model": 512}
    path = write_tiny(folder / "ample.gguf", "mixtral", **sizes)
    for budget, chunk in (("auto", LONG_CHUNK_TOKENS), ("0%", CHUNK_TOKENS)):
        runtime = Runtime.load(load(path, budget=budget), lambda *_: None)
        assert runtime.chunk_tokens == chunk
        runtime.close()


@pytest.mark.parametrize("isa", isas())
def test_prompt_and_tokens_have_the_same_bits_on_every_processor(olmoe: Path, isa: str) -> None:
    command = load(olmoe, budget="20%", isa=isa)
    prompt, tokens = (of(run(command, m.Score(1, TEXT, lane=lane)), m.Scored)[0] for lane in LANES)
    assert prompt.logprobs == tokens.logprobs and prompt.top1 == tokens.top1
    (answer,) = of(run(command, generate(max_tokens=8)), m.Finished)
    (whole,) = of(run(load(olmoe, isa=isa), generate(max_tokens=8)), m.Finished)
    assert answer.token_ids == whole.token_ids and len(whole.token_ids) == 8


def test_weights_in_a_table_have_the_same_bits_on_every_processor_at_every_budget(folder: Path) -> None:
    path = write_tiny(
        folder / "table.gguf", "mixtral", quant="IQ4_NL", types={"*down_exps*": "MXFP4"}, **EIGHT_EXPERTS
    )
    outcomes = set()
    for isa in isas():
        command = load(path, budget="20%", isa=isa)
        prompt, tokens = (of(run(command, m.Score(1, TEXT, lane=lane)), m.Scored)[0] for lane in LANES)
        assert prompt.logprobs == tokens.logprobs
        (answer,) = of(run(command, generate(max_tokens=8)), m.Finished)
        (whole,) = of(run(load(path, isa=isa), generate(max_tokens=8)), m.Finished)
        outcomes |= {tuple(answer.token_ids), tuple(whole.token_ids)}
    assert len(outcomes) == 1


@pytest.mark.parametrize("layers_seen", [0, 1, 4, 20])
def test_cancel_is_seen_between_layers_and_leaves_a_valid_prefix(mixtral: Path, layers_seen: int) -> None:
    events = run(load(mixtral), generate(1), generate(2), cancel_after=layers_seen)
    first, second = of(events, m.Finished)
    assert first.finish_reason == "cancelled" and second.finish_reason == "length"
    alone = of(run(load(mixtral), generate(2)), m.Finished)[0]
    assert second.token_ids == alone.token_ids


def test_tokens_stream_the_text_of_the_answer(mixtral: Path) -> None:
    events = run(load(mixtral), generate(max_tokens=40))
    finished = of(events, m.Finished)[0]
    assert "".join(token.text for token in of(events, m.Token)) == finished.text
    assert [i for token in of(events, m.Token) for i in token.ids] == finished.token_ids


def test_the_prompt_fills_the_context(mixtral: Path) -> None:
    events = run(load(mixtral, ctx=64), generate(1), generate(2, text="x = 1", max_tokens=0))
    failed = of(events, m.Failed)[0]
    assert failed.exit_code == 5 and "64" in failed.message and failed.request_id == 1
    finished = of(events, m.Finished)[0]
    assert finished.finish_reason == "context" and finished.usage.prompt + finished.usage.completion == 64


def test_a_budget_below_the_floor_names_the_smallest(mixtral: Path) -> None:
    failed = of(run(load(mixtral, budget="100KiB")), m.Failed)[0]
    assert failed.exit_code == 4
    smallest = failed.hint.split("--budget ")[1].split()[0]
    finished = of(run(load(mixtral, budget=smallest), generate(max_tokens=2)), m.Finished)[0]
    assert finished.finish_reason == "length"


def test_0_percent_is_the_smallest_budget_and_answers_alike(mixtral: Path) -> None:
    least, whole = (run(load(mixtral, budget=budget), generate()) for budget in ("0%", "100%"))
    assert not of(least, m.Failed)
    assert of(least, m.Loaded)[0].memory.budget_bytes < of(whole, m.Loaded)[0].memory.budget_bytes
    answers = [of(events, m.Finished)[0] for events in (least, whole)]
    assert answers[0].token_ids == answers[1].token_ids
    assert answers[0].memory.peak_bytes <= answers[0].memory.budget_bytes


def test_a_small_budget_without_a_pack_is_refused_with_the_size(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", experts=8, d_model=128, expert_d_ff=128, d_ff=128)
    failed = of(run(load(path, budget="20%", pack="no")), m.Failed)[0]
    assert failed.exit_code == 4 and failed.needs_pack and "--pack yes" in failed.hint
    assert list(tmp_path.iterdir()) == [path]


def test_experts_may_be_paged_from_the_model_file_itself(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", experts=8, d_model=128, expert_d_ff=128, d_ff=128)
    plain = run(load(path, budget="20%", pack="plain"), generate())
    assert list(tmp_path.iterdir()) == [path]
    (loaded,) = of(plain, m.Loaded)
    assert any("from the model file" in notice for notice in loaded.notices) and loaded.pack_s == 0
    packed = run(load(path, budget="20%", pack="yes"), generate())
    again = run(load(path, budget="20%", pack="yes"))
    assert of(packed, m.Loaded)[0].pack_s > 0 == of(again, m.Loaded)[0].pack_s
    with_pack, without = (of(events, m.Finished)[0] for events in (packed, plain))
    assert without.token_ids == with_pack.token_ids
    assert with_pack.memory.expert_hit_rate == without.memory.expert_hit_rate < 1
    beside = of(run(load(path, budget="20%", pack="plain")), m.Loaded)[0]
    assert any("from the model file" in notice for notice in beside.notices), (
        "a pack that is there is not used"
    )
    whole = of(run(load(path, budget="100%", pack="plain")), m.Loaded)[0]
    assert not any("from the model file" in notice for notice in whole.notices)


def test_what_a_budget_will_need_is_said_before_it_is_asked_for(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", experts=8, d_model=128, expert_d_ff=128, d_ff=128)
    whole = of(run(load(path, budget="100%", pack="no")), m.Loaded)[0]
    assert whole.pack_below_bytes == whole.base_bytes + whole.expert_bytes <= whole.memory.budget_bytes
    assert whole.pack_bytes == path.stat().st_size
    paged = of(run(load(path, budget="40%")), m.Loaded)[0]
    assert (paged.pack_below_bytes, paged.pack_bytes) == (0, 0)
    assert bytes_of("40%", whole) == bytes_of("40%", paged) == paged.memory.budget_bytes


def commands_without_a_model() -> Iterator[m.Command]:
    yield generate(5)
    yield m.Score(6, "text")


def test_requests_without_a_model_fail_and_the_engine_goes_on(mixtral: Path) -> None:
    events = run(*commands_without_a_model(), load(mixtral), generate(7, max_tokens=3))
    assert [failed.request_id for failed in of(events, m.Failed)] == [5, 6]
    assert of(events, m.Finished)[0].request_id == 7


def test_a_missing_file_fails_the_load(tmp_path: Path) -> None:
    failed = of(run(load(tmp_path / "none.gguf")), m.Failed)[0]
    assert failed.exit_code == 3 and failed.request_id == 0 and "none.gguf" in failed.message


def test_scores_agree_between_lanes_and_with_the_reference(mixtral: Path) -> None:
    events = run(load(mixtral), m.Score(1, TEXT, lane="prefill"), m.Score(2, TEXT, lane="decode"))
    prefill, decode = of(events, m.Scored)
    assert prefill.logprobs == decode.logprobs and prefill.top1 == decode.top1
    ids = prefill.token_ids
    tokenizer = Runtime.load(load(mixtral), lambda *_: None).tokenizer
    first = tokenizer.encode(TEXT, add_bos=True, parse_special=False)[0]
    expected = FloatReference(mixtral).logits([first, *ids])[:-1].log_softmax(-1).numpy()
    measured = np.array(prefill.logprobs)
    # All but a few tokens, where a rounding swapped two experts of nearly equal score.
    assert (np.abs(measured - expected[np.arange(len(ids)), ids]) < 0.05).mean() > 0.9


@pytest.mark.parametrize("ends", ["never", "always"])
def test_an_answer_can_go_on_behind_its_end(
    mixtral: Path, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For measuring: as many tokens as are asked for, the same ones that a model without an end gives."""
    monkeypatch.setattr(Tokenizer, "is_end", lambda self, token: ends == "always")
    ignoring = of(run(load(mixtral), generate(max_tokens=9, ignore_end=True)), m.Finished)[0]
    heeding = of(run(load(mixtral), generate(max_tokens=9)), m.Finished)[0]
    assert (len(ignoring.token_ids), ignoring.finish_reason) == (9, "length")
    wanted = (1, "stop") if ends == "always" else (9, "length")
    assert (len(heeding.token_ids), heeding.finish_reason) == wanted
    assert ignoring.token_ids[: len(heeding.token_ids)] == heeding.token_ids


def test_threads_far_beyond_the_processors_are_not_made(mixtral: Path) -> None:
    loaded = of(run(load(mixtral, threads=999)), m.Loaded)[0]
    assert loaded.threads <= 2 * usable_threads()
    assert any("--threads 999" in notice for notice in loaded.notices)


def test_threads_that_the_system_does_not_start_are_told(
    mixtral: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pick_few(isa: IsaChoice, threads: int) -> Ops:
        assert threads == 2
        return pick(isa, 1)

    wanted = of(run(load(mixtral, threads=2), generate()), m.Finished)[0]
    monkeypatch.setattr("ebbtide.engine.runtime.pick", pick_few)
    events = run(load(mixtral, threads=2), generate())
    loaded = of(events, m.Loaded)[0]
    assert loaded.threads == 1 and of(events, m.Finished)[0].token_ids == wanted.token_ids
    (told,) = [notice for notice in loaded.notices if "threads" in notice]
    assert told.startswith("Only 1 of 2 threads could be started") and "limit" in told


@pytest.mark.parametrize("harm", ["cut", "stale"])
def test_a_pack_in_the_cache_that_cannot_be_used_is_made_again(tmp_path: Path, harm: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", experts=8, d_model=128, expert_d_ff=128, d_ff=128)
    assert of(run(load(path, budget="20%")), m.Loaded)
    (pack,) = (tmp_path / "packs").iterdir()
    whole = pack.read_bytes()
    if harm == "cut":
        pack.write_bytes(whole[: len(whole) // 2])
    else:
        os.utime(path, ns=(1, 1))
    failed = of(run(load(path, budget="20%", pack="no")), m.Failed)[0]
    assert failed.exit_code == 4 and failed.needs_pack
    assert ("cut short" if harm == "cut" else "changed") in failed.message
    assert of(run(load(path, budget="20%")), m.Loaded)
    assert len(pack.read_bytes()) == len(whole)


def test_a_damaged_expert_fails_the_request_and_the_pack_is_made_again(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", experts=4, d_model=128, expert_d_ff=128, d_ff=128)
    good = of(run(load(path, budget="0%"), generate()), m.Finished)[0]
    (pack,) = (tmp_path / "packs").iterdir()
    bank = open_gguf(pack).tensors[bank_tensor(0, "gate_up")]
    with pack.open("r+b") as file:
        file.seek(bank.offset)
        file.write(bytes(bank.nbytes))
    events = run(load(path, budget="0%"), generate())
    failed = of(events, m.Failed)[0]
    assert not of(events, m.Finished) and failed.exit_code == 3 and failed.request_id == 1
    assert "of layer 0 (gate_up)" in failed.message and "load the model again" in failed.hint
    assert of(run(load(path, budget="0%"), generate()), m.Finished)[0].token_ids == good.token_ids


LONG_QUESTION, LONGER_QUESTION = (m.Turn("user", "one two three\n" * count) for count in (22, 200))
SHORT_TURNS = [m.Turn("user", "hello " * 20), m.Turn("assistant", "hello " * 20)]


@pytest.mark.parametrize(
    ("ctx", "turns", "what", "ways"),
    [
        (128, [LONG_QUESTION], "the question alone", "Shorten it, or load the model with a larger --ctx."),
        (128, [*SHORT_TURNS, LONG_QUESTION], "the question alone", "Shorten it, or load"),
        (128, [*SHORT_TURNS, m.Turn("user", "hello")], "the prompt", "start a new chat, or load"),
        (512, [LONGER_QUESTION], "the question alone", "Shorten it: this model's context is no longer."),
    ],
)
def test_a_prompt_that_is_too_long_says_what_is_and_what_helps(
    mixtral: Path, ctx: int, turns: list[m.Turn], what: str, ways: str
) -> None:
    (failed,) = of(run(load(mixtral, ctx=ctx), generate(text=None, turns=turns)), m.Failed)
    assert failed.exit_code == 5 and failed.message.startswith(what) and ways in failed.hint
    assert failed.message.endswith(f" and the context holds {ctx:,}")
    alone = what == "the question alone"
    assert (failed.question_tokens > ctx) is alone
    assert not alone or f" {failed.question_tokens:,} tokens" in failed.message


def test_a_loaded_model_says_its_own_context_and_the_smallest_budget_that_works(mixtral: Path) -> None:
    (loaded,) = of(run(load(mixtral, ctx=128)), m.Loaded)
    assert (loaded.ctx, loaded.model_ctx) == (128, 512)
    least = loaded.smallest_budget_bytes
    assert of(run(load(mixtral, ctx=128, budget=str(least))), m.Loaded)
    (failed,) = of(run(load(mixtral, ctx=128, budget=str(least - 1))), m.Failed)
    assert failed.exit_code == 4 and "too small" in failed.message
