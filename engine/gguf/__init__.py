"""Reading GGUF files: nothing in a file is trusted before it has been checked."""

from ebbtide.engine.gguf.file import GgufFile
from ebbtide.engine.gguf.reader import open_gguf
from ebbtide.engine.gguf.tensors import TensorInfo
from ebbtide.engine.gguf.values import KeyType

__all__ = ["GgufFile", "KeyType", "TensorInfo", "open_gguf"]
