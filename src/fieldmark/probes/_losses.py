"""Which way does the loss fall, seen from the logits?

Cross-entropy over classes, or binary cross-entropy over traits of which some are not known. Both
are means over the batch, as torch's CrossEntropyLoss and BCEWithLogitsLoss take them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fieldmark.probes._arrays import Array, beside, namespace, numbers, real, sigmoid, softmax
from fieldmark.probes._moments import balanced_weights


class Loss(Protocol):
    """`row_ub`: which rows the batch holds, one batch for all runs (u = 1) or one for each."""

    def slope(self, logit_sbt: Array, row_ub: Array) -> Array:
        """The loss's derivative in each logit."""

    def value(self, logit_sbt: Array, row_ub: Array) -> Array:
        """The loss of each run."""


@dataclass(frozen=True, slots=True)
class ClassLoss:
    """Softmax cross-entropy; rows count by the weight of their class."""

    code_n: Array
    weight_c: Array

    @classmethod
    def read(cls, code_n: np.ndarray, rows: np.ndarray, is_balanced: bool, x: Array) -> ClassLoss:
        """`rows` are those to learn from: they give the weights of the classes."""
        count_c = np.bincount(code_n[rows], minlength=int(code_n.max()) + 1)
        weight_c = balanced_weights(count_c) if is_balanced else np.ones(len(count_c))
        return cls(beside(code_n.astype(np.int64), x), real(weight_c, x))

    def slope(self, logit_sbt: Array, row_ub: Array) -> Array:
        code_ub, weight_ub = self._batch(row_ub)
        slope_sbt = softmax(logit_sbt)
        slope_sbt[self._own(logit_sbt, code_ub)] -= 1
        slope_sbt *= (weight_ub / weight_ub.sum(axis=1)[:, None])[..., None]
        return slope_sbt

    def value(self, logit_sbt: Array, row_ub: Array) -> Array:
        code_ub, weight_ub = self._batch(row_ub)
        xp = namespace(logit_sbt)
        loss_sb = -xp.log(softmax(logit_sbt)[self._own(logit_sbt, code_ub)])
        return (loss_sb * weight_ub).sum(axis=1) / weight_ub.sum(axis=1)

    def _batch(self, row_ub: Array) -> tuple[Array, Array]:
        code_ub = self.code_n[row_ub]
        return code_ub, self.weight_c[code_ub]

    @staticmethod
    def _own(logit_sbt: Array, code_ub: Array) -> tuple[Array, Array, Array]:
        n_runs, n_rows = logit_sbt.shape[:2]
        runs, rows = (numbers(range(n), logit_sbt) for n in (n_runs, n_rows))
        return runs[:, None], rows[None], code_ub


@dataclass(frozen=True, slots=True)
class TraitLoss:
    """Binary cross-entropy over the known traits; a batch that knows none has loss 0."""

    present_nt: Array
    """the trait's weight where it is present, else 0"""
    counted_nt: Array
    """the same, and 1 where it is known to be absent"""
    n_known_n: Array

    @classmethod
    def read(
        cls, target_nt: np.ndarray, rows: np.ndarray, is_balanced: bool, x: Array
    ) -> TraitLoss:
        """`rows` are those to learn from: they give the weights of present traits."""
        is_known_nt = ~np.isnan(target_nt)
        present_nt = np.where(is_known_nt, target_nt, 0.0)
        absent_nt = is_known_nt - present_nt
        if is_balanced:
            present_nt *= _present_weights(present_nt[rows], absent_nt[rows])
        counted_nt, n_known_n = present_nt + absent_nt, is_known_nt.sum(axis=1)
        return cls(real(present_nt, x), real(counted_nt, x), real(n_known_n, x))

    def slope(self, logit_sbt: Array, row_ub: Array) -> Array:
        slope_sbt = sigmoid(logit_sbt)
        slope_sbt *= self.counted_nt[row_ub]
        slope_sbt -= self.present_nt[row_ub]
        slope_sbt /= self._n_known(row_ub)[:, None, None]
        return slope_sbt

    def value(self, logit_sbt: Array, row_ub: Array) -> Array:
        xp = namespace(logit_sbt)
        bent_sbt = xp.log1p(xp.exp(-xp.abs(logit_sbt)))
        present_ubt, counted_ubt = self.present_nt[row_ub], self.counted_nt[row_ub]
        absent_ubt = counted_ubt - present_ubt
        loss_sbt = present_ubt * (bent_sbt + xp.clip(-logit_sbt, 0, None))
        loss_sbt += absent_ubt * (bent_sbt + xp.clip(logit_sbt, 0, None))
        return loss_sbt.sum(axis=2).sum(axis=1) / self._n_known(row_ub)

    def _n_known(self, row_ub: Array) -> Array:
        return namespace(self.n_known_n).clip(self.n_known_n[row_ub].sum(axis=1), 1, None)


def _present_weights(present_nt: np.ndarray, absent_nt: np.ndarray) -> np.ndarray:
    """Absent over present, for each trait; 1 where all rows agree."""
    n_present_t, n_absent_t = present_nt.sum(axis=0), absent_nt.sum(axis=0)
    has_both_t = (n_present_t > 0) & (n_absent_t > 0)
    return np.where(has_both_t, n_absent_t / np.where(has_both_t, n_present_t, 1), 1.0)
