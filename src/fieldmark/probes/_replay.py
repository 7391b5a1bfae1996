"""How does a GPU take a thousand small steps without waiting for Python between them?

Every step over a batch of one size launches the same kernels on arrays of the same place. They are
recorded once (a CUDA graph) and replayed with new contents in the arrays that change. The kernels
are the same, so are the results. Elsewhere a step is simply called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from fieldmark.probes._arrays import Array
from fieldmark.probes._tensor import on_accelerator

_FIRST_CALLS = 3
"""calls before the recording: libraries choose their kernels and workspaces in them"""

Step = Callable[..., None]


def replayed(step: Step, x: Array) -> Step:
    """The step, recorded where `x` is on a CUDA device.

    It may change only arrays that outlive it, and must not look at their values.
    """
    if on_accelerator(x) and x.device.type == "cuda":
        return _Replay(step)
    return step


class _Replay:
    def __init__(self, step: Step) -> None:
        self._step, self._n_calls = step, 0
        self._shapes: list[Any] = []
        self._inputs: list[Any] = []
        self._graph: Any = None

    def __call__(self, *arrays: Array) -> None:
        shapes = [each.shape for each in arrays]
        if not self._n_calls:
            self._shapes = shapes
        if shapes != self._shapes or self._n_calls < _FIRST_CALLS:
            self._step(*arrays)
        else:
            self._play(arrays)
        self._n_calls += shapes == self._shapes

    def _play(self, arrays: tuple[Array, ...]) -> None:
        if self._graph is None:
            torch = sys.modules["torch"]
            self._inputs = [each.clone() for each in arrays]
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.device(arrays[0].device), torch.cuda.graph(self._graph):
                self._step(*self._inputs)
        for kept, each in zip(self._inputs, arrays, strict=True):
            kept.copy_(each)
        self._graph.replay()
