"""Triton's interpreter, for tests on CPU tensors. Import it before anything that imports Triton."""

import importlib.util
import os
import platform
import sys
from types import SimpleNamespace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported

HAS_TRITON = importlib.util.find_spec("triton") is not None
MUST_HAVE = sys.platform == "linux" and platform.machine() == "x86_64"
"""Where a wheel of it can be installed."""
IS_MISSING = not HAS_TRITON and not MUST_HAVE
"""There is none for this platform, so its tests cannot run."""

if HAS_TRITON:
    import triton.language as tl
    from triton.runtime import interpreter

    patch_language = interpreter._patch_lang
    modules = [SimpleNamespace(__globals__={"language": language}) for language in (tl, tl.core)]

    def patch_once(kernel: Any) -> SimpleNamespace:
        """Patch what kernels see and what the functions that come with Triton see."""
        scopes = [patch_language(module) for module in modules]
        # Triton 3.6 asks for the number in an array of one dimension, which NumPy 2.4 refuses.
        scopes[-1].set_attr(tl.tensor, "__index__", lambda self: int(self.handle.data.item()))
        return SimpleNamespace(restore=lambda: [scope.restore() for scope in reversed(scopes)])

    def call_helper(self: Any, *args: Any, **kwargs: Any) -> Any:
        """A function called by a kernel. As it is, the interpreter patches `tl` anew for every such call,
        which takes nearly all of the time; here the launch has done so for all of them."""
        return self.rewrite()(*args, **kwargs)

    interpreter._patch_lang = patch_once
    interpreter.InterpretedFunction.__call__ = call_helper
