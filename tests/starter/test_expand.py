"""The expanded file against the dense base, tensor by tensor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray

from tests.starter.conftest import EXPERTS, FFN, LAYERS, WIDTH, World, delta_arrays, sha256

# Largest rounding error of each quant as a share of its block's range of values.
QUANTS = {"Q8_0": 0.5 / 127, "Q4_1": 0.5 / 15, "Q5_1": 0.5 / 31}


def tensors(path: Path) -> dict[str, Any]:
    return {tensor.name: tensor for tensor in GGUFReader(path).tensors}


def values(tensor: Any) -> NDArray[np.float32]:
    shape = tuple(int(size) for size in reversed(tensor.shape))
    return np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(shape)


@pytest.mark.parametrize("quant", QUANTS)
def test_zero_deltas_give_the_dense_weights_in_every_expert(world: World, quant: str) -> None:
    dense, made = tensors(world.base), tensors(world.builder(quant).ensure())
    for layer in range(LAYERS):
        for part in ("gate", "up", "down"):
            base = values(dense[f"blk.{layer}.ffn_{part}.weight"])
            experts = made[f"blk.{layer}.ffn_{part}_exps.weight"]
            assert experts.tensor_type.name == quant
            for expert in values(experts):
                # Twice the rounding error: the float16 scale is rounded as well.
                np.testing.assert_allclose(expert, base, atol=2 * QUANTS[quant] * float(np.ptp(base)))


def test_deltas_are_scaled_products_of_the_factors(world: World) -> None:
    world.write_delta(zero=False)
    dense, made = tensors(world.base), tensors(world.builder("Q8_0").ensure())
    arrays = delta_arrays(zero=False)
    for layer, part in ((0, "gate"), (1, "up"), (1, "down")):
        a, b, scale = (arrays[f"{layer}.{part}.{name}"].astype(float) for name in ("a", "b", "scale"))
        expected = values(dense[f"blk.{layer}.ffn_{part}.weight"]) + scale[:, :, None] * (b @ a) / 127**2
        found = values(made[f"blk.{layer}.ffn_{part}_exps.weight"])
        np.testing.assert_allclose(found, expected, atol=2 * QUANTS["Q8_0"] * np.ptp(expected))


def test_all_else_is_copied_byte_for_byte(world: World) -> None:
    dense, made = tensors(world.base), tensors(world.builder().ensure())
    kept = {name for name in dense if not any(f"ffn_{part}." in name for part in ("gate", "up", "down"))}
    for name in kept:
        assert made[name].data.tobytes() == dense[name].data.tobytes()
        assert made[name].tensor_type == dense[name].tensor_type
    added = {
        f"blk.{i}.ffn_{part}.weight" for i in range(LAYERS) for part in ("gate_exps", "up_exps", "down_exps")
    }
    assert set(made) == kept | added | {f"blk.{i}.ffn_gate_inp.weight" for i in range(LAYERS)}


def test_shapes_and_metadata_are_those_of_llama_cpp(world: World) -> None:
    path = world.builder().ensure()
    made, fields = tensors(path), GGUFReader(path).fields
    assert list(made["blk.0.ffn_gate_exps.weight"].shape) == [WIDTH, FFN, EXPERTS]
    assert list(made["blk.0.ffn_down_exps.weight"].shape) == [FFN, WIDTH, EXPERTS]
    assert list(made["blk.0.ffn_gate_inp.weight"].shape) == [WIDTH, EXPERTS]
    assert fields["general.architecture"].contents() == "llama"
    assert fields["llama.expert_count"].contents() == EXPERTS
    assert fields["llama.expert_used_count"].contents() == 2
    assert fields["general.license"].contents() == "apache-2.0"
    base = GGUFReader(world.base).fields
    for name in ("tokenizer.ggml.tokens", "tokenizer.chat_template", "tokenizer.ggml.add_bos_token"):
        assert fields[name].contents() == base[name].contents()


def test_same_inputs_give_the_same_bytes(world: World) -> None:
    world.write_delta(zero=False)
    first = sha256(world.builder().ensure())
    assert sha256(world.builder().ensure(force=True)) == first
