"""What is to be learnt: one class an image, or several traits of which some are not known?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark.probes._arrays import Array
from fieldmark.probes._inputs import ProbeDataError, read_labels
from fieldmark.probes._losses import ClassLoss, Loss, TraitLoss
from fieldmark.probes._tensor import as_numpy


@dataclass(frozen=True, slots=True)
class Targets:
    """Class numbers (n), or traits (n × T) of 0, 1 and NaN; `classes` are labels or columns."""

    value: np.ndarray
    classes: np.ndarray

    @property
    def has_traits(self) -> bool:
        return self.value.ndim == 2

    def loss(self, rows: np.ndarray, is_balanced: bool, x: Array) -> Loss:
        if self.has_traits:
            return TraitLoss.read(self.value, rows, is_balanced, x)
        return ClassLoss.read(self.value, rows, is_balanced, x)

    def strata(self) -> np.ndarray:
        """Groups of which a share is held out: the classes; traits have too many patterns."""
        return np.zeros(len(self.value), np.intp) if self.has_traits else self.value

    def score(
        self,
        rows: np.ndarray,
        prob_nt: np.ndarray,
        threshold: float,
        scorer: Callable[[np.ndarray, np.ndarray], float],
    ) -> float:
        """The score of the class, or the mean over traits known somewhere in these rows."""
        if not self.has_traits:
            return scorer(self.value[rows], prob_nt.argmax(axis=1))
        target_nt, found = self.value[rows], []
        for true_n, prob_n in zip(target_nt.T, prob_nt.T, strict=True):
            is_known_n = ~np.isnan(true_n)
            if is_known_n.any():
                answer_n = (prob_n > threshold)[is_known_n].astype(np.intp)
                found.append(scorer(true_n[is_known_n].astype(np.intp), answer_n))
        return float(np.mean(found)) if found else 0.0

    def holdout_notes(self, rows: np.ndarray) -> list[str]:
        """Says of how many traits the held-out rows know one answer at most."""
        if not self.has_traits:
            return []
        value_nt = self.value[rows]
        is_judged_t = (value_nt == 0).any(axis=0) & (value_nt == 1).any(axis=0)
        n_poor, n_traits = int((~is_judged_t).sum()), len(is_judged_t)
        told = f"{n_poor} of {n_traits} traits have one answer only in the held-out images"
        return [told] if n_poor else []


def read_targets(y: Any, n_rows: int) -> Targets:
    """Labels of n rows; two dimensions are traits, but for one column that is not of reals."""
    label = as_numpy(y) if y is not None else None
    is_column = label is not None and label.ndim == 2 and label.shape[1] == 1
    if label is None or label.ndim != 2 or (is_column and label.dtype.kind not in "fb"):
        return Targets(*read_labels(y, n_rows))
    return _read_traits(label, n_rows)


def _read_traits(label_nt: np.ndarray, n_rows: int) -> Targets:
    if len(label_nt) != n_rows or not label_nt.shape[1]:
        raise ProbeDataError(
            f"traits have the shape {label_nt.shape}: "
            f"expected one row for each of {n_rows} rows of features, one column a trait."
        )
    try:
        target_nt = label_nt.astype(np.float64)
    except (TypeError, ValueError):
        raise ProbeDataError("traits are not numbers: expected 0, 1 or NaN (not known).") from None
    is_odd_nt = ~np.isnan(target_nt) & (target_nt != 0) & (target_nt != 1)
    if is_odd_nt.any():
        raise ProbeDataError(
            f"traits hold {target_nt[is_odd_nt][0]:g}: expected 0, 1 or NaN (not known)."
        )
    is_empty_t = np.isnan(target_nt).all(axis=0)
    if is_empty_t.any():
        raise ProbeDataError(
            f"column {int(is_empty_t.argmax())} of {target_nt.shape[1]} traits is not known for "
            "any training image: leave that trait out."
        )
    return Targets(target_nt, np.arange(target_nt.shape[1]))
