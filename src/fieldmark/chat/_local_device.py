"""Where does a local chat model run, in which arithmetic, and what if memory runs out?

TF32 is never used: whoever asks for float32 on a GPU compares with a CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from fieldmark.errors import ModelError, UsageError

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = ("auto", *DTYPES)


def choose_device(wanted: str) -> Any:
    """The torch device for auto, cpu, cuda, cuda:1 or mps; refuses one that is not there."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = bool(torch.backends.mps.is_available())
    if wanted == "auto":
        wanted = "cuda" if count else "mps" if has_mps else "cpu"
    there = [
        "cpu",
        *["cuda"] * bool(count),
        *(f"cuda:{i}" for i in range(count)),
        *["mps"] * has_mps,
    ]
    if wanted in there:
        return torch.device(wanted)
    if wanted.partition(":")[0] not in ("cpu", "cuda", "mps"):
        raise UsageError(
            f"device {wanted!r} is not known: expected auto, cpu, cuda, cuda:0 or mps."
        )
    raise ModelError(f"device {wanted!r} is not there: torch sees {', '.join(there)}. Use one.")


def choose_precision(wanted: str, device: Any) -> str:
    """float32, bf16 or fp16; auto is bf16 on a GPU, which most such models were trained in."""
    if wanted not in PRECISIONS:
        raise UsageError(f"precision {wanted!r} is not known: expected {', '.join(PRECISIONS)}.")
    if wanted != "auto":
        return wanted
    if device.type != "cuda":
        return "float32"
    return "bf16" if torch.cuda.is_bf16_supported() else "fp16"


@contextlib.contextmanager
def arithmetic(device: Any) -> Iterator[None]:
    """No gradients, no TF32, and cuDNN's reproducible algorithms only."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device.type == "cuda":
            flags = torch.backends.cudnn.flags(
                enabled=True, benchmark=False, deterministic=True, allow_tf32=False
            )
            stack.enter_context(flags)
        yield


def is_out_of_memory(error: BaseException) -> bool:
    """Would a smaller batch have succeeded? Only CUDA has an exception of its own for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate" in text)


def free_memory(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
