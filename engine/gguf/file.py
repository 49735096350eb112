"""A checked GGUF file: where its tensors lie and what its keys say."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.gguf.faults import missing_key, wrong_value
from ebbtide.engine.gguf.tensors import TensorInfo
from ebbtide.engine.gguf.values import Metadata

Default = TypeVar("Default")


@dataclass(frozen=True)
class GgufFile:
    """Holds no open file.

    `require_*` raise `ModelError` naming the key when it is absent, `get_*` give the default. Both raise
    `ModelError` when the key is there but holds another type.
    """

    path: Path
    version: int
    size_bytes: int
    alignment: int
    data_offset: int
    """First byte of the tensor data."""
    metadata: Metadata
    tensors: Mapping[str, TensorInfo]

    def require_int(self, key: str) -> int:
        value = self._present(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_value(self.path, key, _kind(value), "a whole number")
        return value

    def require_float(self, key: str) -> float:
        value = self._present(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise wrong_value(self.path, key, _kind(value), "a finite number")
        return float(value)

    def require_bool(self, key: str) -> bool:
        value = self._present(key)
        if not isinstance(value, bool):
            raise wrong_value(self.path, key, _kind(value), "true or false")
        return value

    def require_str(self, key: str) -> str:
        value = self._present(key)
        if not isinstance(value, str):
            raise wrong_value(self.path, key, _kind(value), "text")
        return value

    def require_strs(self, key: str) -> list[str]:
        value = self._present(key)
        if not isinstance(value, list):
            raise wrong_value(self.path, key, _kind(value), "a list of texts")
        return value

    def require_ints(self, key: str) -> NDArray[np.int64]:
        value = self._present(key)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
            raise wrong_value(self.path, key, _kind(value), "a list of whole numbers")
        return value.astype(np.int64)

    def require_floats(self, key: str) -> NDArray[np.float32]:
        value = self._present(key)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not np.isfinite(value).all():
            raise wrong_value(self.path, key, _kind(value), "a list of finite numbers")
        return value.astype(np.float32)

    def get_int(self, key: str, default: Default) -> int | Default:
        return self.require_int(key) if key in self.metadata else default

    def get_float(self, key: str, default: Default) -> float | Default:
        return self.require_float(key) if key in self.metadata else default

    def get_bool(self, key: str, default: Default) -> bool | Default:
        return self.require_bool(key) if key in self.metadata else default

    def get_str(self, key: str, default: Default) -> str | Default:
        return self.require_str(key) if key in self.metadata else default

    def _present(self, key: str) -> object:
        if key not in self.metadata:
            raise missing_key(self.path, key)
        return self.metadata[key]


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, np.ndarray):
        return f"a list of {value.dtype.name}"
    names = {str: "text", list: "a list of texts", int: "a whole number"}
    return names.get(type(value), f"the number {value}")
