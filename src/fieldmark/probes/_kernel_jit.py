"""How do inner loops become machine code, and where is it kept?

numba compiles on first use and keeps the result under `NUMBA_CACHE_DIR` or, without one, where
Python keeps its bytecode: beside the module, so that every process on a machine compiles once,
whatever its settings. Where that cannot be written to, in the cache folder of fieldmark. numba is
optional (the extra `fast`): callers ask `has_numba` and take the slow way without it. Only modules
that are imported on first use may use `compiled`, since it imports numba.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from fieldmark.settings import load_settings

Function = TypeVar("Function", bound=Callable[..., Any])

# No NaN ever enters and a zero's sign is never asked for: with that promise maxima become vector
# instructions. Infinities do occur, and sums keep their order, so that steps can be compared with
# those of other libraries.
_PROMISES = {"nnan", "nsz"}


@cache
def has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def compiled(function: Function) -> Function:
    """The function as machine code, compiled when first called with a kind of argument."""
    from numba.core import config

    own: Any = config
    kept = own.CACHE_DIR
    if not kept and not os.access(Path(__file__).parent, os.W_OK):
        own.CACHE_DIR = str(load_settings().cache / "compiled")
    try:
        return _jit(function, is_kept=True)
    except RuntimeError:  # no folder can be written to: compiled anew in each process
        return _jit(function, is_kept=False)
    finally:
        own.CACHE_DIR = kept


def _jit(function: Function, is_kept: bool) -> Function:
    import numba

    made: Any = numba.njit(cache=is_kept, nogil=True, fastmath=_PROMISES, error_model="numpy")(
        function
    )
    return made  # type: ignore[no-any-return]
