"""Multiple comparisons with the best (max-t): which models may be the best, and at which rank?

A model may be the best unless some other is better by more than chance explains, when all others
are looked at together: the largest of the differences to it, each in its own standard errors, is
compared with the largest that chance would give (Hsu 1981). The models' errors are drawn jointly,
from their covariance, so that models which fail on the same units are told apart by the others.

No model is behind another from which their comparison alone does not part it, so that a table and
`compare` agree; two models alone are parted exactly where their comparison parts them.

Tiers: A holds all that may be the best; B all that may be the best of the rest; and so on. A rank
interval counts who is surely better and who surely worse (Mogstad et al. 2024).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fieldmark import draws
from fieldmark.stats.covariance import Errors
from fieldmark.stats.interval import student
from fieldmark.stats.items import LEVEL
from fieldmark.stats.paired import compare_with
from fieldmark.stats.power import FEWEST_UNITS

N_DRAWS = 2000
_ALWAYS = 1e6
"""standard errors of a lead that is the same on every unit"""
_ENOUGH = 1000
"""such units, beyond which their number no longer matters"""


def may_be_best(scores: Errors) -> np.ndarray:
    """Of each model whether it may be the best; the best is missed in 5 % of cases."""
    return ~_MaxT(scores).is_beaten(np.arange(len(scores.value_m)))


def tiers(scores: Errors) -> tuple[str, ...]:
    """The letter of each of several models that answered the same items."""
    standing = _MaxT(scores)
    rest, number = np.argsort(-standing.height_m, kind="stable"), 0
    letters = [""] * len(rest)
    while len(rest):
        is_beaten = standing.is_beaten(rest)
        for model in rest[~is_beaten]:
            letters[model] = tier_letter(number)
        rest, number = rest[is_beaten], number + 1
    return tuple(letters)


def rank_limits(scores: Errors) -> np.ndarray:
    """The best and the worst rank of each model on these tasks (models × 2), 1 is the best.

    Only models that may be the best have 1 among their ranks.
    """
    standing = _MaxT(scores)
    everyone = np.arange(len(scores.value_m))
    n_better = standing.count_clear(everyone, (1 + LEVEL) / 2, 1)
    n_worse = standing.count_clear(everyone, (1 + LEVEL) / 2, -1)
    best_m = 1 + np.maximum(n_better, standing.is_beaten(everyone))
    return np.stack([best_m, np.maximum(len(everyone) - n_worse, best_m)], axis=1)


def tier_letter(number: int) -> str:
    """A to Z for 0 to 25, then AA, AB, ...

    >>> [tier_letter(number) for number in (0, 25, 26, 701, 702)]
    ['A', 'Z', 'AA', 'ZZ', 'AAA']
    """
    before, letter = divmod(number, 26)
    return (tier_letter(before - 1) if before else "") + chr(ord("A") + letter)


class _MaxT:
    """Differences of all pairs in standard errors, and what chance gives."""

    def __init__(self, scores: Errors) -> None:
        self.scores = scores
        self.height_m = scores.value_m if scores.is_up else -scores.value_m
        variance_mm = scores.pair_mm
        gap_mm = self.height_m[None] - self.height_m[:, None]
        se_mm = np.sqrt(np.maximum(variance_mm, 1e-30))
        always_mm = np.where(np.abs(gap_mm) > 1e-9, _ALWAYS * np.sign(gap_mm), 0.0)
        self.far_mm = np.where(variance_mm > 1e-24, gap_mm / se_mm, always_mm)
        """how far the column's model is above the row's"""
        freedom = scores.pair_freedom_mm[~np.eye(len(gap_mm), dtype=bool)]
        self.freedom = max(float(np.median(freedom)), 1.0) if len(freedom) else 1.0
        self._luck_rm: np.ndarray | None = None

    def is_beaten(self, models: np.ndarray) -> np.ndarray:
        """Of each of these models, whether some other of them is surely better."""
        return self.count_clear(models, LEVEL, 1, stop=1) > 0

    def count_clear(self, models: np.ndarray, level: float, way: int, stop: int = 0) -> np.ndarray:
        """How many of the others are surely better (way 1) or worse (-1) than each model.

        With `stop`, counting ends there.
        """
        from scipy.special import stdtrit  # slow to load, and most reports need none

        n = len(models)
        if n < 2:
            return np.zeros(n, np.int64)
        if len(self.height_m) == 2:
            # Of two models alone: as their comparison says, which looks both ways.
            pair = compare_with(self.scores, 0, np.array([1]))
            is_behind = way * (self.height_m[models] - self.height_m[models[::-1]]) < 0
            return np.asarray(is_behind & (pair.p[0] <= 1 - LEVEL), np.int64)
        least = float(stdtrit(self.freedom, level))
        most = float(stdtrit(self.freedom, 1 - (1 - level) / (n - 1)))  # Bonferroni
        far_mm = way * self.far_mm[np.ix_(models, models)]
        counts = np.zeros(n, np.int64)
        for index in np.flatnonzero((far_mm > least).any(axis=1)).tolist():
            far_m = far_mm[index]
            is_sure = bool(stop) and far_m.max() > most
            needs = most if is_sure else max(least, self._critical(models, index, way, level))
            counts[index] = self._count_sure(models, index, far_m, needs, stop)
        return counts

    def _critical(self, models: np.ndarray, index: int, way: int, level: float) -> float:
        """What the largest of the differences to one model reaches by chance."""
        luck_rm = self._luck()[:, models]
        gap_rm = luck_rm - luck_rm[:, [index]]
        cov_mm = self._spread_mm[np.ix_(models, models)]
        own_m = np.diag(cov_mm)
        variance_m = own_m + own_m[index] - 2 * cov_mm[index]
        is_apart = variance_m > 1e-24
        se_m = np.sqrt(np.maximum(variance_m, 0.0))  # rounding leaves equal models below zero
        gap_rm *= np.divide(way, se_m, out=np.zeros(len(own_m)), where=is_apart)
        largest_r = gap_rm.max(axis=1)
        place_r = min(int(np.ceil(level * N_DRAWS)), N_DRAWS - 1)
        return float(np.partition(largest_r * self._heavy_r, place_r)[place_r])

    def _luck(self) -> np.ndarray:
        """Errors that chance would give (draws × models), jointly."""
        if self._luck_rm is None:
            # Any root of the covariance gives the same law; eigenvalues below 0 are rounding.
            strength, axes = np.linalg.eigh(self.scores.cov_mm)
            root = axes * np.sqrt(np.maximum(strength, 0.0))
            random = draws.generator(0, "", "", "max-t")
            self._spread_mm = root @ root.T
            luck_rm = random.standard_normal((N_DRAWS, len(root)), np.float32)
            self._luck_rm = luck_rm @ root.T.astype(np.float32)
            # Multivariate t: normal errors over √(χ²_ν / ν), one draw for all models.
            chi_r = random.chisquare(self.freedom, N_DRAWS) / self.freedom
            self._heavy_r = 1 / np.sqrt(chi_r)
        return self._luck_rm

    def _count_sure(
        self, models: np.ndarray, index: int, far_m: np.ndarray, needs: float, stop: int
    ) -> int:
        """Those that are far enough ahead, and differ on enough units to be sure.

        A lead is no larger than its units: that says how many there must be, mostly enough.
        """
        ahead = np.flatnonzero(far_m > needs)
        lead_k = np.abs(self.height_m[models[ahead]] - self.height_m[models[index]])
        is_sure = self._is_sure(lead_k / self.scores.largest, far_m[ahead] / needs)
        if not is_sure.all() and not (stop and is_sure.any()):
            open_k = ahead[~is_sure]
            n_k = self.scores.n_discordant(int(models[index]), models[open_k], _ENOUGH)
            is_sure[~is_sure] = self._is_sure(n_k, far_m[open_k] / needs)
        sure = ahead[is_sure]
        sure = sure[np.argsort(-far_m[sure], kind="stable")]
        if stop and len(sure) and self._n_parted(models, index, sure[:1]):
            return 1  # the farthest is enough
        return self._n_parted(models, index, sure)

    def _n_parted(self, models: np.ndarray, index: int, others: np.ndarray) -> int:
        """How many of them their comparison parts from the model too: it looks both ways, this
        test one, so that of few units it asks for a little more.
        """
        if not len(others):
            return 0
        pairs = compare_with(self.scores, int(models[index]), models[others])
        return int((pairs.p <= 1 - LEVEL).sum())

    @staticmethod
    def _is_sure(n_k: np.ndarray, beyond_k: np.ndarray) -> np.ndarray:
        # Two added units widen a standard error by √(1 + 2 / n), as in a comparison (paired.py).
        return np.asarray((n_k >= FEWEST_UNITS) & (beyond_k > np.sqrt(1 + 2 / np.maximum(n_k, 1))))


# --- Ranks over tasks: where would models stand on other tasks like these, and do tasks agree?
#
# Tasks are drawn anew, not their items: what the scores of tasks differ by already holds the luck
# of their items, which must not be counted twice. Kendall's tau says whether two tasks order the
# models alike.

FEWEST_TASKS = 3


def rank_limits_elsewhere(height_tm: ArrayLike) -> np.ndarray:
    """The best and the worst rank (models × 2) by the mean over tasks like these, drawn anew.

    `height_tm`: scores (tasks × models), turned so that more is better. Tasks on the same photos
    should come as one row, their mean. NaN for fewer than three rows.
    """
    height_tm = np.asarray(height_tm, np.float64)
    if height_tm.ndim != 2 or not height_tm.shape[1]:
        raise ValueError(f"values have the shape {height_tm.shape}: expected tasks × models.")
    n_tasks, n_models = height_tm.shape
    if n_tasks < FEWEST_TASKS:
        return np.full((n_models, 2), math.nan)
    random = draws.generator(0, "", "", "tasks")
    count_rt = random.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), size=N_DRAWS)
    mean_m = height_tm.mean(axis=0)
    drawn_rm = count_rt @ height_tm / n_tasks
    # Few tasks: a resample varies less than a new draw would, and Student's t is wider yet.
    widen = math.sqrt(n_tasks / (n_tasks - 1)) * student(n_tasks - 1) / student(1e9)
    rank_rm = ranked(mean_m + widen * (drawn_rm - mean_m))
    tail = (1 - LEVEL) / 2
    low_m, high_m = np.quantile(rank_rm, (tail, 1 - tail), axis=0)
    own_m = ranked(mean_m[None])[0]
    return np.stack(
        [np.minimum(np.floor(low_m), own_m), np.maximum(np.ceil(high_m), own_m)], axis=1
    )


def ranked(height_rm: np.ndarray) -> np.ndarray:
    """Ranks in each row, 1 for the highest; equals share the mean of their ranks."""
    height_rm = np.asarray(height_rm, np.float64)
    n_rows, n = height_rm.shape
    order = np.argsort(-height_rm, axis=1, kind="stable")
    falling = np.take_along_axis(height_rm, order, axis=1)
    is_new = np.ones((n_rows, n), bool)
    is_new[:, 1:] = falling[:, 1:] != falling[:, :-1]
    run = np.cumsum(is_new.ravel()) - 1
    position = np.tile(np.arange(1.0, n + 1), n_rows)
    mean_place = np.bincount(run, position) / np.bincount(run)
    rank_rm = np.empty((n_rows, n))
    np.put_along_axis(rank_rm, order, mean_place[run].reshape(n_rows, n), axis=1)
    return rank_rm


def kendall_tau(values_tm: ArrayLike) -> np.ndarray:
    """Kendall's tau-b between tasks (tasks × tasks): do they order the models alike?

    1 alike, -1 turned round, 0 unrelated; NaN where fewer than two models did both tasks or one of
    them ties all. Turn the sign of scores of which less is better first.
    """
    score_tm = np.asarray(values_tm, np.float64)
    if score_tm.ndim != 2:
        raise ValueError(f"values have the shape {score_tm.shape}: expected tasks × models.")
    model_i, model_j = np.triu_indices(score_tm.shape[1], 1)
    gap_tp = score_tm[:, model_i] - score_tm[:, model_j]
    is_known = (~np.isnan(gap_tp)).astype(np.float64)
    sign_tp = np.sign(np.nan_to_num(gap_tp))
    untied_tt = np.abs(sign_tp) @ is_known.T  # pairs untied in the row's task, known in both
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((sign_tp @ sign_tp.T) / np.sqrt(untied_tt * untied_tt.T))
