"""Temperature scaling, conformal risk control, k-NN novelty: when may a label be trusted?

Three numbers are fitted on scores of photos by heads that never saw their unit: a temperature that
turns scores into probabilities (Guo et al. 2017, arXiv 1706.04599); a threshold under which a label
is called unsure, such that at most 5 of 100 photos of a new unit are named wrongly (Angelopoulos et
al. 2022, arXiv 2208.02814, with units in place of items); and distances to the nearest photos of
other units, from which a new photo's distance gets a p-value (Sun et al. 2022, arXiv 2204.06507).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

WRONG_PER_PHOTO = 0.05
"""accepted and wrong: what is promised at most"""
POOR = 1 / 3
"""of the names that are given, wrong: the promise holds, but nobody would expect that of "sure\""""
NOVEL_P = 0.02
"""photos of known labels at new units that are called unlike anything seen, by mistake"""
_BLOCK, _KNOWN_BLOCK = 256, 4096
"""photos that are compared at a time, and with how many known ones"""


def softmax(score_nc: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities of labels; a label that was not trained has none."""
    z_nc = score_nc / temperature
    z_nc = z_nc - z_nc.max(axis=1, keepdims=True)
    prob_nc = np.exp(z_nc)
    return np.asarray(prob_nc / prob_nc.sum(axis=1, keepdims=True))


def fit_temperature(score_nc: np.ndarray, code_n: np.ndarray, weight_n: np.ndarray) -> float:
    """The temperature that makes the labels most likely; a photo counts by its weight."""
    from scipy.optimize import minimize_scalar

    rows = np.arange(len(code_n))
    is_scored = np.isfinite(score_nc[rows, code_n])  # its fold may not have trained the label
    if not is_scored.any():
        return 1.0
    score_nc, code_n, weight_n = score_nc[is_scored], code_n[is_scored], weight_n[is_scored]
    spread = float(np.std(score_nc[np.isfinite(score_nc)])) or 1.0

    def loss(log_t: float) -> float:
        prob_n = softmax(score_nc, spread * math.exp(log_t))[rows[: len(code_n)], code_n]
        return float(-(weight_n * np.log(np.maximum(prob_n, 1e-12))).sum())

    minimum = minimize_scalar(loss, bounds=(-8.0, 4.0), method="bounded")
    return float(spread * math.exp(minimum.x))


@dataclass(frozen=True, slots=True)
class SureThreshold:
    """From which probability on a label is given without a warning."""

    at_least: float
    """of the label's probability; inf = every photo is unsure"""
    is_promise: bool
    """False: too few units to promise anything"""
    share_named: float
    """of the photos, at new units"""
    share_wrong: float
    """named and wrong, of all photos"""

    @property
    def wrong_of_named(self) -> float:
        return self.share_wrong / self.share_named if self.share_named else 0.0


def fit_threshold(
    prob_n: np.ndarray, is_right_n: np.ndarray, unit_n: np.ndarray, wrong: float = WRONG_PER_PHOTO
) -> SureThreshold:
    """The lowest threshold with (Σ wrong shares of units + 1) / (K + 1) <= `wrong`.

    With K units of which each counts the same, the expected share of photos of a new unit that are
    named and wrong is then at most `wrong`. It takes 19 units to promise 5 %.
    """
    # (Σ + 1) / (K + 1) <= wrong, solved for the sum; the 1 is the most that a new unit can add.
    n_units = int(unit_n.max()) + 1
    share_n = 1 / np.bincount(unit_n, minlength=n_units)[unit_n] / n_units
    order = np.argsort(-prob_n, kind="stable")
    wrong_n = np.cumsum((share_n * ~is_right_n)[order]) * n_units
    is_promise = n_units + 1 >= 1 / wrong
    allowed = wrong * (n_units + 1) - 1 if is_promise else wrong * n_units
    # Photos of equal probability are named together or not at all.
    is_last = np.append(np.diff(prob_n[order]) != 0, True)
    ends = np.flatnonzero(is_last & (wrong_n <= allowed + 1e-9))
    if not len(ends):
        return SureThreshold(math.inf, is_promise, 0.0, 0.0)
    is_named = prob_n >= prob_n[order][ends[-1]]
    named, mistaken = share_n @ is_named, share_n @ (is_named & ~is_right_n)
    if mistaken > named / 2:  # the promise holds, but such a model is sure of nothing
        return SureThreshold(math.inf, is_promise, 0.0, 0.0)
    return SureThreshold(float(prob_n[order][ends[-1]]), is_promise, float(named), float(mistaken))


def nearest_distance(
    x_nd: np.ndarray,
    known_kd: np.ndarray,
    k: int,
    unit_n: np.ndarray | None = None,
    known_unit_k: np.ndarray | None = None,
) -> np.ndarray:
    """Cosine distance to the k-th nearest known photo, of another unit where units are given."""
    n_near = min(k, len(known_kd))
    best_nk = np.full((len(x_nd), n_near), -np.inf, np.float32)
    for begin in range(0, len(known_kd), _KNOWN_BLOCK):
        block = slice(begin, begin + _KNOWN_BLOCK)
        unit_kd = unit_length(np.array(known_kd[block], np.float32))
        for start in range(0, len(x_nd), _BLOCK):
            rows = slice(start, start + _BLOCK)
            near_bk = unit_length(np.array(x_nd[rows], np.float32)) @ unit_kd.T
            if unit_n is not None and known_unit_k is not None:
                near_bk[unit_n[rows, None] == known_unit_k[None, block]] = -np.inf
            both_bk = np.concatenate([best_nk[rows], near_bk], axis=1)
            best_nk[rows] = np.partition(both_bk, -n_near, axis=1)[:, -n_near:]
    return np.asarray(1 - best_nk.min(axis=1).astype(np.float64))


def p_value(distance_n: np.ndarray, seen_k: np.ndarray, weight_k: np.ndarray) -> np.ndarray:
    """Weighted share of the seen distances that are at least as large, the new one among them."""
    # Conformal p value (Vovk et al. 2005): the new one counts among those at least as far.
    order = np.argsort(seen_k)
    weight = weight_k[order] / weight_k.sum()
    above = np.append(np.cumsum(weight[::-1])[::-1], 0.0)
    share_n = above[np.searchsorted(seen_k[order], distance_n, side="left")]
    n = len(seen_k)
    return np.asarray((share_n * n + 1) / (n + 1))


def unit_length(x_nd: np.ndarray) -> np.ndarray:
    """In place, and without a second array of squares."""
    length_n = np.sqrt(np.einsum("nd,nd->n", x_nd, x_nd))
    x_nd /= np.maximum(length_n, 1e-12)[:, None]
    return x_nd
