"""nvJPEG: many JPEGs at once on the card, on its JPEG engines where it has them.

NVIDIA's library through ctypes: its calls release the interpreter lock, write straight into a
canvas of ours, and can interpolate chroma as libjpeg does (torchvision's binding cannot: its pixels
are 4 grey levels off on average, these at most 1 on the engines and 3 without them, both measured
on an H200). https://docs.nvidia.com/cuda/nvjpeg/
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fieldmark.errors import ModelError

_ENGINES, _KERNELS = 3, 2  # NVJPEG_BACKEND_HARDWARE, NVJPEG_BACKEND_GPU_HYBRID
_INTERPOLATE_CHROMA = 1 << 5  # NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION
_PLANES = 3  # NVJPEG_OUTPUT_RGB
_IMAGE = np.dtype([("channel", np.uint64, 4), ("pitch", np.uint64, 4)])


_IDLE: dict[str, list[NvjpegDecoder]] = {}
"""decoders that nobody uses just now, by device"""


def nvjpeg_decoder(library: str, device: Any) -> NvjpegDecoder:
    """One that was used before where there is one, else a new one."""
    try:
        return _IDLE[str(device)].pop()
    except (KeyError, IndexError):
        return NvjpegDecoder(library, device)


class NvjpegDecoder:
    """One decoder with its own state: for one thread and one stream."""

    def __init__(self, library: str, device: Any) -> None:
        self._device = device
        self._library = ctypes.CDLL(library)
        self._library.nvjpegDecodeBatched.argtypes = [ctypes.c_void_p] * 6
        self._handle, self._state = ctypes.c_void_p(), ctypes.c_void_p()
        with torch.cuda.device(device):
            self.n_engines = self._create()
            self._check("nvjpegJpegStateCreate", self._handle, ctypes.byref(self._state))
        self._batch = 0

    def decode(self, pointers: np.ndarray, lengths: np.ndarray, canvas: Any) -> bool:
        """Into the top left corners of the canvas (uint8, n × rows × 3 × columns), on the current
        stream; False when one of them cannot be decoded.

        The bytes must stay where they are until the stream has come here.
        """
        n, rows, _, columns = canvas.shape
        if n != self._batch:
            self._check("nvjpegDecodeBatchedInitialize", self._handle, self._state, n, 1, _PLANES)
            self._batch = n
        images = np.zeros(n, _IMAGE)
        starts = canvas.data_ptr() + np.arange(n, dtype=np.uint64) * np.uint64(rows * 3 * columns)
        for channel in range(3):
            images["channel"][:, channel] = starts + np.uint64(channel * columns)
            images["pitch"][:, channel] = 3 * columns
        stream = torch.cuda.current_stream(self._device).cuda_stream
        arrays: Sequence[np.ndarray] = (
            np.ascontiguousarray(pointers, np.uint64),
            np.ascontiguousarray(lengths, np.uint64),
            images,
        )
        code = self._library.nvjpegDecodeBatched(
            self._handle, self._state, *(array.ctypes.data for array in arrays), stream
        )
        if code:
            self._batch = 0
        return int(code) == 0

    def close(self) -> None:
        """Kept for the next who wants one: engines take a second and a half to wake."""
        _IDLE.setdefault(str(self._device), []).append(self)

    def _create(self) -> int:
        """How many JPEG engines are used; 0: the card's ordinary processors do it."""
        for backend in (_ENGINES, _KERNELS):
            code = self._library.nvjpegCreateEx(
                backend, None, None, _INTERPOLATE_CHROMA, ctypes.byref(self._handle)
            )
            if code == 0:
                return self._count_engines() if backend == _ENGINES else 0
        raise ModelError(
            f"nvJPEG cannot be used on {self._device} (code {code}): use --decode cpu."
        )

    def _count_engines(self) -> int:
        engines, cores = ctypes.c_uint(), ctypes.c_uint()
        count = getattr(self._library, "nvjpegGetHardwareDecoderInfo", None)
        if count is None:
            return 1
        count(self._handle, ctypes.byref(engines), ctypes.byref(cores))
        return int(engines.value)

    def _check(self, function: str, *arguments: Any) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise ModelError(f"nvJPEG: {function} failed (code {code}): use --decode cpu.")
