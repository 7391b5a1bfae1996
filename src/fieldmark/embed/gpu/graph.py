"""CUDA graphs: a network's many kernels as one launch.

A forward pass is hundreds of launches, each of which takes the interpreter lock that decoding and
writing need too. Recorded once for a full batch, it is one. What cannot be recorded runs as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from fieldmark.errors import OutOfMemory

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
