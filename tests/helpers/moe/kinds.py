"""Which GGUF type each tensor of a file gets, by llama.cpp's own rules."""

K_COLS = 256
"""Columns of a K-quant's block."""
FILE_TYPES = {"Q4_0": 2, "Q8_0": 7, "Q3_K": 11, "Q4_K": 14, "IQ4_XS": 30}
"""`general.file_type` of files whose matrices are of a type, as llama.cpp numbers them."""
_FALLBACKS = {"Q3_K": "IQ4_NL", "IQ4_XS": "IQ4_NL", "Q4_K": "Q5_0", "Q6_K": "Q8_0"}


def kind_of(name: str, shape: tuple[int, ...], wanted: str) -> str:
    """The type of a tensor in a file of type `wanted`.

    Vectors and routers stay F32. The output matrix is Q6_K unless all is Q8_0. Rows that are not whole
    K-quant blocks get the type that llama.cpp falls back to.
    """
    if len(shape) == 1 or "ffn_gate_inp" in name:
        return "F32"
    kind = "Q6_K" if name == "output.weight" and wanted != "Q8_0" else wanted
    return _FALLBACKS.get(kind, kind) if shape[-1] % K_COLS else kind
