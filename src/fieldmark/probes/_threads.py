"""BLAS threads of a fit: when is one enough?"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

SMALL_FIT = 20_000_000
"""values in the training matrix, above which several threads pay"""


def fitting_threads(n_values: int) -> AbstractContextManager[object]:
    """One thread for small fits: several wait for each other longer than they compute. Two made a
    192 × 192 ridge grid 9 × slower on two busy cores, and products smaller than that 100 × slower.
    """
    return _libraries().limit(limits=1) if n_values < SMALL_FIT else nullcontext()


@cache
def _libraries() -> Any:
    """Looking for the libraries takes 5 ms: too long to do it for each of NeWT's 164 fits."""
    import scipy.linalg  # noqa: F401  has a BLAS of its own, which must be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
