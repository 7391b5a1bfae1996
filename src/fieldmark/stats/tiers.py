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

from dataclasses import dataclass

import numpy as np

from fieldmark import draws
from fieldmark.stats.covariance import Errors
from fieldmark.stats.interval import LEVEL
from fieldmark.stats.paired import compare_with

N_DRAWS = 1000
FEWEST = 6
"""units on which two models must differ before one can be better"""
_ALWAYS = 1e6
"""standard errors of a lead that is the same on every unit"""
_ENOUGH = 1000
"""such units, beyond which their number no longer matters"""


@dataclass(frozen=True, slots=True, eq=False)
class Tiers:
    """Letters of the models; every array has one entry per model, in the order given."""

    letters: tuple[str, ...]
    score: np.ndarray
    order: tuple[int, ...]
    """models by score, best first, equal scores as given: for reading, not a ranking in a tier"""

    @property
    def best(self) -> tuple[int, ...]:
        """Those that may be the best, by score."""
        return tuple(model for model in self.order if self.letters[model] == "A")


def may_be_best(scores: Errors, level: float = LEVEL) -> np.ndarray:
    """Of each model whether it may be the best; the best is missed in 1 - level of cases."""
    return ~_MaxT(scores).is_beaten(np.arange(len(scores.value_m)), level)


def tiers(scores: Errors, level: float = LEVEL) -> Tiers:
    """The tiers of models that answered the same items."""
    standing = _MaxT(scores)
    order = np.argsort(-standing.height_m, kind="stable")
    letters = [""] * len(order)
    rest, number = order, 0
    while len(rest):
        is_beaten = standing.is_beaten(rest, level)
        for model in rest[~is_beaten]:
            letters[model] = tier_letter(number)
        rest, number = rest[is_beaten], number + 1
    return Tiers(tuple(letters), scores.value_m, tuple(order.tolist()))


def rank_limits(scores: Errors, level: float = LEVEL) -> np.ndarray:
    """The best and the worst rank of each model on these tasks (models × 2), 1 is the best.

    Only models that may be the best have 1 among their ranks.
    """
    standing = _MaxT(scores)
    everyone = np.arange(len(scores.value_m))
    n_better = standing.count_clear(everyone, (1 + level) / 2, 1)
    n_worse = standing.count_clear(everyone, (1 + level) / 2, -1)
    best_m = 1 + np.maximum(n_better, standing.is_beaten(everyone, level))
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

    def is_beaten(self, models: np.ndarray, level: float) -> np.ndarray:
        """Of each of these models, whether some other of them is surely better."""
        return self.count_clear(models, level, 1, stop=1) > 0

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
        return np.asarray((n_k >= FEWEST) & (beyond_k > np.sqrt(1 + 2 / np.maximum(n_k, 1))))
