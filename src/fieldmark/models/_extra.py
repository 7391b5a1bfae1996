"""Is the optional package here that a family stands on, and in which arithmetic would it run?"""

from __future__ import annotations

import ctypes
import importlib
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from fieldmark.errors import MissingExtra, ModelError
from fieldmark.models._name import Request


def need_package(request: Request, package: str) -> Any:
    """The imported package, with torch seen to first; the line that installs them where it is
    missing.
    """
    for name in ("torch", package):
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise MissingExtra(request.name.text, "vision", name) from error
    return module


@lru_cache(maxsize=64)
def resolve_precision(device: str, precision: str) -> str:
    """The arithmetic that a torch model would run in; torch is imported only where a GPU may be.

    A cuda device that is not here is taken for one that has bf16: such a plan is made for another
    machine.
    """
    if precision != "auto":
        return precision
    if device in ("cpu", "mps") or (device == "auto" and not _may_have_gpu()):
        return "float32"
    try:
        from fieldmark import devices
    except ImportError:
        return "float32"
    try:
        return devices.choose_precision("auto", devices.choose_device(device))
    except ModelError:
        return "bf16"


def _may_have_gpu() -> bool:
    """False only where torch could find no CUDA or ROCm device; costs no import."""
    if sys.platform != "linux" or "torch" in sys.modules:
        return sys.platform != "darwin"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()
    return True
