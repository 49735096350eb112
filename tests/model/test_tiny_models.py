"""The tiny models of the tests are what they claim to be: llama.cpp loads them and computes with them."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.helpers.float_reference import FloatReference
from tests.helpers.tiny_models import Family, write_tiny

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is an extra")

K_SHAPE: dict[str, Any] = {"d_model": 256, "heads": 8, "d_ff": 256, "expert_d_ff": 256}


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {}),
        ("llama", {"tied": True, "rope_factors": True, "quant": "Q4_1"}),
        ("mixtral", {"types": {"*down_exps*": "Q5_0"}}),
        ("olmoe", {"kv_heads": 4, "types": {"*up_exps*": "Q4_0"}}),
        ("qwen2moe", {"quant": "F16"}),
        ("mixtral", {"quant": "IQ4_NL", "types": {"*down_exps*": "MXFP4"}}),
        ("mixtral", {"quant": "IQ4_XS", "types": {"*down_exps*": "Q5_K"}, **K_SHAPE}),
        ("qwen3moe", {"quant": "Q4_K", "types": {"*down_exps*": "Q6_K", "*attn_v*": "Q5_K"}, **K_SHAPE}),
        ("mixtral", {"quant": "Q3_K", "types": {"*down_exps*": "Q4_K", "*attn_v*": "Q5_K"}, **K_SHAPE}),
    ],
)
def test_llama_cpp_computes_with_it(tmp_path: Path, family: Family, options: dict[str, Any]) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", family, **options)
    model = llama_cpp.Llama(str(path), n_ctx=64, n_threads=1, logits_all=True, verbose=False)
    text = "def the self(): caf\u00e9".encode()
    tokens = model.tokenize(text, add_bos=False, special=True)
    assert model.detokenize(tokens) == text and len(tokens) < len(text)
    model.eval(tokens)
    logits = np.array(model.scores[: len(tokens)])
    assert np.isfinite(logits).all() and logits.std() > 0.5
    model.close()


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {"tied": True, "rope_factors": True}),
        ("mixtral", {}),
        ("olmoe", {"kv_heads": 4}),
        ("qwen2moe", {}),
        ("qwen3moe", {"head_dim": 48}),
    ],
)
def test_the_float_reference_computes_what_llama_cpp_does(
    tmp_path: Path, family: Family, options: dict[str, Any]
) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", family, quant="F32", **options)
    logits, expected = logits_of_both(path)
    # llama.cpp keeps keys and values in F16: 2^-11 relative each. Up to 0.005 was measured in 24 models.
    assert np.abs(logits - expected).max() < 0.01 * np.abs(expected).max()


def logits_of_both(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """llama.cpp's and the float reference's, of the same tokens."""
    model = llama_cpp.Llama(str(path), n_ctx=64, n_threads=1, logits_all=True, verbose=False)
    tokens = model.tokenize(b"def the self(): while True: return x + 1", add_bos=False, special=True)
    model.eval(tokens)
    logits = np.array(model.scores[: len(tokens)])
    model.close()
    return logits, FloatReference(path).logits(tokens).numpy()


@pytest.mark.parametrize("quant", ["IQ4_NL", "MXFP4"])
def test_llama_cpp_reads_weights_in_tables_as_the_float_reference_does(tmp_path: Path, quant: str) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "llama", quant=quant)
    logits, expected = logits_of_both(path)
    # llama.cpp multiplies activations of 8 bits. Up to 0.025 was measured, and 0.033 for Q8_0.
    assert np.abs(logits - expected).max() < 0.06 * np.abs(expected).max()


def test_equal_arguments_give_equal_bytes(tmp_path: Path) -> None:
    digests = {
        hashlib.sha256(write_tiny(tmp_path / name, "qwen2moe", seed=seed).read_bytes()).hexdigest()
        for name, seed in (("a.gguf", 1), ("b.gguf", 1), ("c.gguf", 2))
    }
    assert len(digests) == 2
