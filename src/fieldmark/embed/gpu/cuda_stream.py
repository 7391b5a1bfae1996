"""CUDA streams and events, and their absence on a CPU: work that overlaps, in a given order."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class CudaStream:
    """Work that a device does in order. Urgent work goes before that of other streams."""

    def __init__(self, device: Any, is_urgent: bool = False) -> None:
        self._stream: Any = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device, priority=-1 if is_urgent else 0)

    def use(self) -> AbstractContextManager[Any]:
        """What is asked for inside is done on this stream."""
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def mark(self) -> Any:
        """A point of the stream that others can wait for; on a CPU, the time."""
        if self._stream is None:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def wait(self, event: Any) -> None:
        """Until the device has come to the mark."""
        if self._stream is not None:
            event.synchronize()

    def follow(self, event: Any, tensor: Any) -> None:
        """What comes now here may use the tensor, which another stream has at that mark."""
        if self._stream is not None:
            self._stream.wait_event(event)
            tensor.record_stream(self._stream)


def elapsed_s(began: Any, ended: Any) -> float:
    """Seconds between two marks of one stream, when the device has come to the second."""
    if isinstance(began, float):
        return float(ended - began)
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1000
