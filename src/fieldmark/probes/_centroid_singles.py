"""Which row is nearest in direction, for many draws that hold one row of each class?

With one row a class, centred and of length one, no mean is taken: the value of a row r for a test
row t is `(t - mu)(r - mu) / |r - mu|`, and of its four products only `t r` is long. Draws share
rows, so that product is computed once for each row that any draw holds, in float32. Rows whose
values are within rounding of the best are measured again in float64. Memory: a float32 copy of the
rows and test rows, and `rows × _BLOCK_TESTS` products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldmark.probes._distance import make_ready

_BLOCK_TESTS = 256
_ROUNDING = 128 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True, slots=True)
class Single:
    """A draw: positions of its rows, its mean, and the length of each row from the mean."""

    at_r: np.ndarray
    middle_d: np.ndarray
    length_r: np.ndarray


def best_singles(row_ud: np.ndarray, test_td: np.ndarray, singles: Sequence[Single]) -> np.ndarray:
    """The nearest row's place in each draw for each test row; the first among equals.

    No row may be the mean of its draw.
    """
    offset_d = test_td.mean(axis=0, dtype=np.float64)
    single = np.dtype(np.float32)
    near_ud, near_td = (make_ready(each, offset_d, single) for each in (row_ud, test_td))
    middle_kd = np.stack([each.middle_d for each in singles]) - offset_d
    square_k = np.einsum("kd,kd->k", middle_kd, middle_kd)
    along_ku = middle_kd.astype(single) @ near_ud.T - square_k[:, None].astype(single)
    along_kt = middle_kd.astype(single) @ near_td.T
    margin_kt = _margins(near_ud, near_td, np.sqrt(square_k), singles)
    best_kt = np.empty(along_kt.shape, np.intp)
    for start in range(0, len(test_td), _BLOCK_TESTS):
        part = slice(start, start + _BLOCK_TESTS)
        product_ub = near_ud @ near_td[part].T
        for draw, each in enumerate(singles):
            value_rb = product_ub.take(each.at_r, axis=0)
            value_rb -= along_kt[draw, part]
            value_rb -= along_ku[draw, each.at_r, None]
            value_rb *= (1 / each.length_r).astype(single)[:, None]
            is_near_rb = value_rb >= value_rb.max(axis=0) - margin_kt[draw, part]
            best_kt[draw, part] = _settle(is_near_rb, row_ud, test_td[part], each)
    return best_kt


def _settle(
    is_near_rb: np.ndarray, row_ud: np.ndarray, test_bd: np.ndarray, single: Single
) -> np.ndarray:
    """The row that is near to each test row; where there are several, the nearest in float64."""
    at_p, test_p = np.divmod(np.flatnonzero(is_near_rb.ravel()), is_near_rb.shape[1])
    best_b = np.zeros(is_near_rb.shape[1], np.intp)
    best_b[test_p] = at_p
    is_open_p = np.bincount(test_p, minlength=len(best_b))[test_p] > 1
    if is_open_p.any():
        at_p, test_p = at_p[is_open_p], test_p[is_open_p]
        row_pd = row_ud[single.at_r[at_p]] - single.middle_d
        unit_pd = test_bd[test_p] - single.middle_d
        length_p = np.sqrt(np.einsum("pd,pd->p", unit_pd, unit_pd))
        unit_pd /= np.where(length_p > 0, length_p, 1.0)[:, None]
        unit_pd -= row_pd / single.length_r[at_p, None]
        order = np.lexsort((at_p, np.einsum("pd,pd->p", unit_pd, unit_pd), test_p))
        tests, first = np.unique(test_p[order], return_index=True)
        best_b[tests] = at_p[order[first]]
    return best_b


def _margins(
    near_ud: np.ndarray, near_td: np.ndarray, middle_k: np.ndarray, singles: Sequence[Single]
) -> np.ndarray:
    """Leads (draws × tests) that rounding could make up."""
    length_u, length_t = (np.sqrt(np.einsum("nd,nd->n", each, each)) for each in (near_ud, near_td))
    grown_k = [
        np.max((length_u[each.at_r] + middle) / each.length_r)
        for each, middle in zip(singles, middle_k, strict=True)
    ]
    margin_kt = (length_t + middle_k[:, None]) * np.array(grown_k)[:, None]
    return np.asarray(_ROUNDING * margin_kt, np.float32)
