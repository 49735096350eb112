"""Recorded operations as a list of calls."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from ebbtide.kernels.reference.attention import attention
from ebbtide.kernels.reference.kv import kv_write
from ebbtide.kernels.reference.linear import embed, linear
from ebbtide.kernels.reference.moe import combine, glu, moe
from ebbtide.kernels.reference.norm import rmsnorm
from ebbtide.kernels.reference.rope import rope
from ebbtide.kernels.reference.router import router

P = ParamSpec("P")


class ReferenceProgram:
    """See `Program`."""

    def __init__(self, calls: list[Callable[[], None]]) -> None:
        self._calls = calls

    def run(self) -> None:
        """See `Program.run`."""
        for call in self._calls:
            call()


class ReferenceRecorder:
    """See `Recorder`."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []
        self.linear, self.moe, self.embed = self._later(linear), self._later(moe), self._later(embed)
        self.glu, self.combine, self.rmsnorm = self._later(glu), self._later(combine), self._later(rmsnorm)
        self.rope, self.kv_write = self._later(rope), self._later(kv_write)
        self.attention, self.router = self._later(attention), self._later(router)

    def program(self) -> ReferenceProgram:
        """See `Recorder.program`."""
        calls, self._calls = self._calls, []
        return ReferenceProgram(calls)

    def _later(self, operation: Callable[P, None]) -> Callable[P, None]:
        def record(*args: P.args, **kwargs: P.kwargs) -> None:
            self._calls.append(partial(operation, *args, **kwargs))

        return record
