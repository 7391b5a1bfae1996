"""Device, precision, batch size: where does a network run, in which arithmetic, how many at once?

TF32 is never used: whoever asks for float32 on a GPU compares with a CPU, and whoever wants speed
has bf16. cuDNN chooses among its reproducible algorithms only, without timing them: a timed choice
differs from run to run.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import importlib.util
import logging
import os
import sysconfig
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from fieldmark.errors import MissingExtra, ModelError, UsageError

DECODES = ("auto", "reference", "cpu", "gpu")
PRECISIONS = ("auto", "float32", "bf16", "fp16")
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LARGEST_BATCH = 256
"""Enough to keep a GPU busy, and small enough to fit nearly all of them: in bf16 the batch size
decides which kernels run, and with them the last digits of a feature (up to 0.8 % on an H200)."""
CPU_BATCH = 16
LOG = logging.getLogger(__name__)

# Read once, when CUDA starts: with the usual 8 queues streams wait for each other although they
# need not; decoding beside a network ran 20 times slower (H200).
if torch.cuda.is_initialized() and "CUDA_DEVICE_MAX_CONNECTIONS" not in os.environ:
    LOG.warning("CUDA was started before fieldmark: photos are decoded more slowly.")
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def choose_device(name: str) -> Any:
    """The torch device for auto, cpu, cuda, cuda:1 or mps; refuses one that is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(
            f"device {name!r} is not known: expected auto, cpu, cuda, cuda:0 or mps."
        ) from error
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    is_there = {"cpu": True, "cuda": (device.index or 0) < count, "mps": _has_mps()}
    if not is_there.get(device.type, False):
        others = [f"cuda:{index}" for index in range(count)] + ["mps"] * _has_mps()
        raise ModelError(
            f"device {name!r} is not available: torch sees {', '.join(['cpu', *others])}. "
            "Use one of these, or auto."
        )
    return device


def _has_mps() -> bool:
    return bool(torch.backends.mps.is_available())


def choose_precision(precision: str, device: Any) -> str:
    """float32, bf16 or fp16 for a device."""
    if precision not in PRECISIONS:
        raise UsageError(f"precision {precision!r} is not known: expected {', '.join(PRECISIONS)}.")
    if precision != "auto":
        return precision
    if device.type != "cuda":
        return "float32"
    return "bf16" if torch.cuda.is_bf16_supported() else "fp16"


def choose_decode(decode: str, device: Any) -> str:
    """How photos are read for a network on that device: reference, cpu or gpu."""
    if decode not in DECODES:
        raise UsageError(f"decode {decode!r} is not known: expected {', '.join(DECODES)}.")
    has_cpu = importlib.util.find_spec("torchvision") is not None
    has_gpu = device.type == "cuda" and nvjpeg_library() is not None
    if decode == "auto":
        return "gpu" if has_gpu else "cpu" if has_cpu else "reference"
    if decode == "cpu" and not has_cpu:
        raise MissingExtra("decode 'cpu'", "vision", "torchvision")
    if decode == "gpu" and not has_gpu:
        lacks = f"the model is on {device}" if device.type != "cuda" else "nvJPEG is not installed"
        raise ModelError(
            f"decode 'gpu' needs a CUDA device and the library nvJPEG, but {lacks}: use auto, "
            f"which takes the fastest one here (`fieldmark doctor` shows it)."
        )
    return decode


@lru_cache(maxsize=1)
def nvjpeg_library() -> str | None:
    """The nvJPEG library that can be loaded here: torchvision's own, that of a package of NVIDIA's,
    else the system's; None where there is none. Nothing is imported.
    """
    if not hasattr(os, "memfd_create"):  # how readers share memory with the decoder: Linux only
        return None
    of_system = ctypes.util.find_library("nvjpeg")
    for file in (*_packaged_nvjpeg(), *([of_system] if of_system else [])):
        with contextlib.suppress(OSError):
            ctypes.CDLL(file)
            return file
    return None


def _packaged_nvjpeg() -> list[str]:
    folders = dict.fromkeys(sysconfig.get_paths()[name] for name in ("platlib", "purelib"))
    patterns = ("torchvision.libs/libnvjpeg*.so*", "nvidia/*/lib/libnvjpeg.so*")
    return [
        str(path)
        for pattern in patterns
        for folder in folders
        for path in sorted(Path(folder).glob(pattern))
    ]


@contextlib.contextmanager
def arithmetic(device: Any, precision: str = "float32") -> Iterator[None]:
    """No gradients, no TF32, and the device's autocast where the weights are of another kind."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device.type == "cuda":
            flags = torch.backends.cudnn.flags(
                enabled=True, benchmark=False, deterministic=True, allow_tf32=False
            )
            stack.enter_context(flags)
        if precision != "float32":
            stack.enter_context(torch.autocast(device.type, dtype=DTYPES[precision]))
        yield


def is_out_of_memory(error: BaseException) -> bool:
    """Would a smaller batch have succeeded? Only CUDA has an exception of its own for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate" in text)


def fitting_batch(device: Any, embed: Callable[[int], object]) -> int:
    """How many images fit, from what 2 and 8 of them took; a power of two. `embed(n)` embeds n
    blank ones.
    """
    if device.type != "cuda":
        return CPU_BATCH
    embed(2)  # the libraries' own workspaces are allocated once, on first use
    small, large = (_peak_bytes(device, embed, n) for n in (2, 8))
    per_image = max((large - small) / 6, 1.0)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    # A fifth stays free: peaks vary with the kernels a batch size selects, and others use the
    # device too.
    fitting = max(1, min(LARGEST_BATCH, int(0.8 * free / per_image)))
    return int(2 ** (fitting.bit_length() - 1))


def _peak_bytes(device: Any, embed: Callable[[int], object], n_images: int) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    embed(n_images)
    return int(torch.cuda.max_memory_allocated(device))


def free_memory(device: Any) -> None:
    """Gives back what torch keeps for later."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
