"""CUDA streams, events and graphs, and their absence on a CPU: work that overlaps, in a given
order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from fieldmark.errors import OutOfMemory


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


# --- CUDA graphs: a network's many kernels as one launch
# A forward pass is hundreds of launches, each of which takes the interpreter lock that decoding
# and writing need too. Recorded once for a full batch, it is one. What cannot be recorded runs as
# it is.


LOG = logging.getLogger(__name__)


class RecordedNetwork:
    """`encode` for batches of one shape; call it on the stream it was made on."""

    def __init__(self, encode: Callable[[Any], Any], pixels: Any) -> None:
        self._pixels = pixels.clone()
        for _ in range(2):  # libraries choose their kernels and workspaces on first use
            encode(self._pixels)
        torch.cuda.current_stream(pixels.device).synchronize()
        self._graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(pixels.device)
        # Other threads go on allocating and copying meanwhile.
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._features = encode(self._pixels)

    def __call__(self, pixels: Any) -> Any:
        """Features that hold until the next call."""
        self._pixels.copy_(pixels)
        self._graph.replay()
        return self._features


def recorded(encode: Callable[[Any], Any], pixels: Any) -> Callable[[Any], Any]:
    """The same function, recorded for batches of the shape of `pixels` where that is possible."""
    if pixels.device.type != "cuda":
        return encode
    try:
        return RecordedNetwork(encode, pixels)
    except OutOfMemory:
        raise
    except Exception as error:  # noqa: BLE001 - networks fail in many ways; nothing is lost
        LOG.info("the network cannot be recorded as a CUDA graph: %s", error)
        return encode
