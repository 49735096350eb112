"""Log-probabilities of words, of a model's scores."""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


def log_softmax(logits: F32) -> NDArray[np.float64]:
    """Natural log-probabilities, f64[M, vocabulary], of logits f32[M, vocabulary]."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True)))
