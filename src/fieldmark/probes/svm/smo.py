"""Sequential minimal optimisation (SMO): the multipliers of an SVM whose kernel matrix is there.

As libsvm does it, step for step, so that answers agree and not only objectives: working pairs by
second-order information (Fan, Chen and Lin, JMLR 6, 2005), the later row where two are equal, the
kernel rounded to float32 beside a float64 diagonal, the same stopping rule. Shrinking is left out:
at the sizes this is for it saves nothing, and it does not change what is optimal. Compiled by numba
(the extra `fast`); imported on first use, because that takes time.

Rows come sorted by class, class c from `start[c]` to `start[c + 1]`. In each pair of classes the
lower one is the positive side.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fieldmark.settings import load_settings

Function = TypeVar("Function", bound=Callable[..., Any])
TOLERANCE = 1e-3
_TINY = 1e-12
_MOST_STEPS = 10_000_000
# No NaN ever enters and a zero's sign is never asked for: with that promise maxima become vector
# instructions. Infinities do occur, and sums keep their order, so that steps can be compared with
# those of other libraries.
_PROMISES = {"nnan", "nsz"}


def compiled(function: Function) -> Function:
    """The function as machine code, compiled when first called with a kind of argument.

    numba keeps the result under `NUMBA_CACHE_DIR` or, without one, where Python keeps its bytecode:
    beside the module, so that every process on a machine compiles once, whatever its settings.
    Where that cannot be written to, in the cache folder of fieldmark.
    """
    from numba.core import config

    numba_config: Any = config
    kept = numba_config.CACHE_DIR
    if not kept and not os.access(Path(__file__).parent, os.W_OK):
        numba_config.CACHE_DIR = str(load_settings().cache / "compiled")
    try:
        return _jit(function, is_kept=True)
    except RuntimeError:  # no folder can be written to: compiled anew in each process
        return _jit(function, is_kept=False)
    finally:
        numba_config.CACHE_DIR = kept


def _jit(function: Function, is_kept: bool) -> Function:
    import numba

    made: Any = numba.njit(cache=is_kept, nogil=True, fastmath=_PROMISES, error_model="numpy")(
        function
    )
    return made  # type: ignore[no-any-return]


@compiled
def _move(y_i: float, y_j: float, a_i: float, a_j: float, step: float, cost: float):  # type: ignore[no-untyped-def]
    """The two multipliers after a step along their line, kept within 0 and `cost`."""
    # Labels that differ keep a_i - a_j, equal ones a_i + a_j: the sum of y a stays 0.
    if y_i != y_j:
        keep = a_i - a_j
        a_i, a_j = a_i + step, a_j + step
        if keep > 0:
            if a_j < 0:
                a_i, a_j = keep, 0.0
            if a_i > cost:
                a_i, a_j = cost, cost - keep
        else:
            if a_i < 0:
                a_i, a_j = 0.0, -keep
            if a_j > cost:
                a_i, a_j = cost + keep, cost
        return a_i, a_j
    keep = a_i + a_j
    a_i, a_j = a_i - step, a_j + step
    if keep > cost:
        if a_i > cost:
            a_i, a_j = cost, keep - cost
        if a_j > cost:
            a_i, a_j = keep - cost, cost
    else:
        if a_j < 0:
            a_i, a_j = keep, 0.0
        if a_i < 0:
            a_i, a_j = 0.0, keep
    return a_i, a_j


@compiled
def _bar(y: float, a: float, cost: float):  # type: ignore[no-untyped-def]
    """What forbids a row to rise and to fall (0 or minus infinity): multipliers at their bounds."""
    at_top, at_bottom = a >= cost, a <= 0
    no_rise = at_top if y > 0 else at_bottom
    no_fall = at_bottom if y > 0 else at_top
    return (-np.inf if no_rise else 0.0), (-np.inf if no_fall else 0.0)


@compiled
def _last_equal(value_n: np.ndarray, bar_n: np.ndarray, value: float) -> int:
    for k in range(len(value_n) - 1, -1, -1):
        if value_n[k] + bar_n[k] == value:
            return k
    return -1


@compiled
def _offset(slope_n: np.ndarray, y_n: np.ndarray, alpha_n: np.ndarray, cost: float) -> float:
    """libsvm's rho: the mean over free rows, or the middle of what the bound rows allow."""
    low, high, total, n_free = -np.inf, np.inf, 0.0, 0
    for k in range(len(slope_n)):
        if 0 < alpha_n[k] < cost:
            n_free += 1
            total -= slope_n[k]
        elif (alpha_n[k] >= cost) == (y_n[k] > 0):
            low = max(low, -slope_n[k])
        else:
            high = min(high, -slope_n[k])
    return total / n_free if n_free else (low + high) / 2


@compiled
def solve(kernel_nn: np.ndarray, diagonal_n: np.ndarray, n_first: int, cost: float):  # type: ignore[no-untyped-def]
    """Signed multipliers and offset of one machine; the first `n_first` rows are positive.

    Also the largest multiplier there was before any was cut back to `cost`: a machine with any
    cost above it takes the same steps to the same answer.
    """
    n = len(diagonal_n)
    y_n, slope_n = np.empty(n), np.empty(n)
    alpha_n, gain_n, zero_n = np.zeros(n), np.empty(n), np.zeros(n)
    rise_n, fall_n = np.empty(n), np.empty(n)
    for k in range(n):
        y_n[k] = slope_n[k] = 1.0 if k < n_first else -1.0
        rise_n[k], fall_n[k] = _bar(y_n[k], 0.0, cost)
    largest = 0.0
    top, bottom = 1.0, -1.0
    for _ in range(_MOST_STEPS):
        if top - bottom < TOLERANCE:
            break
        # Second-order choice of the working pair (Fan, Chen and Lin 2005): i violates most, j gains
        # most, lead² / curve. Of equal rows libsvm takes the last.
        i = _last_equal(slope_n, rise_n, top)
        best = 0.0
        row_n, diagonal_i = kernel_nn[i], diagonal_n[i]
        for k in range(n):
            lead = max(top - slope_n[k] + fall_n[k], 0.0)
            curve = diagonal_i + diagonal_n[k] - 2.0 * row_n[k]
            curve = curve if curve > 0 else _TINY
            gain_n[k] = lead * lead / curve
            best = max(best, gain_n[k])
        if best <= 0:
            break
        j = _last_equal(gain_n, zero_n, best)
        curve = diagonal_i + diagonal_n[j] - 2.0 * row_n[j]
        step = y_n[i] * (slope_n[i] - slope_n[j]) / (curve if curve > 0 else _TINY)
        if y_n[i] == y_n[j]:
            step = -step
        a_i, a_j = _move(y_n[i], y_n[j], alpha_n[i], alpha_n[j], step, cost)
        move_i, move_j = y_n[i] * (a_i - alpha_n[i]), y_n[j] * (a_j - alpha_n[j])
        largest = max(largest, alpha_n[i] + alpha_n[j] + abs(step))
        alpha_n[i], alpha_n[j] = a_i, a_j
        rise_n[i], fall_n[i] = _bar(y_n[i], a_i, cost)
        rise_n[j], fall_n[j] = _bar(y_n[j], a_j, cost)
        other_n = kernel_nn[j]
        # The slopes follow the two multipliers; the next largest violation is found on the way.
        top, bottom = -np.inf, np.inf
        for k in range(n):
            slope_n[k] -= row_n[k] * move_i + other_n[k] * move_j
            top = max(top, slope_n[k] + rise_n[k])
            bottom = min(bottom, slope_n[k] - fall_n[k])
    offset = _offset(slope_n, y_n, alpha_n, cost)
    for k in range(n):
        alpha_n[k] *= y_n[k]
    return alpha_n, offset, largest


@compiled
def _block(kernel_mn: np.ndarray, row_n: np.ndarray):  # type: ignore[no-untyped-def]
    """The kernel among some rows, as libsvm keeps it, and its diagonal."""
    n = len(row_n)
    block, diagonal_n = np.empty((n, n), np.float32), np.empty(n)
    for k in range(n):
        diagonal_n[k] = kernel_mn[row_n[k], row_n[k]]
        for other in range(n):
            block[k, other] = kernel_mn[row_n[k], row_n[other]]
    return block, diagonal_n


@compiled
def _rows(start_c: np.ndarray, i: int, j: int) -> np.ndarray:
    """The rows of two classes, one class after the other."""
    n_i, n_j = start_c[i + 1] - start_c[i], start_c[j + 1] - start_c[j]
    row_n = np.empty(n_i + n_j, np.int64)
    for k in range(n_i):
        row_n[k] = start_c[i] + k
    for k in range(n_j):
        row_n[n_i + k] = start_c[j] + k
    return row_n


@compiled
def _best(vote_qc: np.ndarray, q: int) -> int:
    best = 0
    for code in range(vote_qc.shape[1]):
        if vote_qc[q, code] > vote_qc[q, best]:
            best = code
    return best


@compiled
def judge(kernel_mn: np.ndarray, start_c: np.ndarray, cost: float, code_q: np.ndarray):  # type: ignore[no-untyped-def]
    """Which held-out columns a machine gets right, one against one, the first class at a tie.

    Columns of the kernel: the m training rows, then the held-out ones. Also the largest multiplier
    (see `solve`) of all pairs.
    """
    m, n_classes, n_held = len(kernel_mn), len(start_c) - 1, len(code_q)
    vote_qc, value_q = np.zeros((n_held, n_classes), np.int64), np.zeros(n_held)
    right_q, largest = np.zeros(n_held, np.bool_), 0.0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            row_n = _rows(start_c, i, j)
            block, diagonal_n = _block(kernel_mn, row_n)
            coef_n, offset, reached = solve(block, diagonal_n, start_c[i + 1] - start_c[i], cost)
            largest = max(largest, reached)
            for q in range(n_held):
                value_q[q] = 0.0
            for k in range(len(row_n)):
                if coef_n[k] != 0:
                    for q in range(n_held):
                        value_q[q] += coef_n[k] * kernel_mn[row_n[k], m + q]
            for q in range(n_held):
                vote_qc[q, i if value_q[q] > offset else j] += 1
    for q in range(n_held):
        right_q[q] = _best(vote_qc, q) == code_q[q]
    return right_q, largest
