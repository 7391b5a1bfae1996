"""How much faster is the ridge grid than scikit-learn's, and are the answers the same?

The rival is GridSearchCV(StandardScaler + RidgeClassifier), 26 strengths, 5 folds, one thread each,
CPU seconds. It is timed on float32 features, which suit it best, from a few strengths scaled to 26
(every strength costs it the same) plus its refit. Agreement is with scikit-learn in float64: the
strength chosen (among the chosen one and its neighbours), the held-out score, and the predictions
of 5,000 new rows. At iNat21's size no rival is run: it would need tens of gigabytes.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _features import WIDTH, features, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _rows import Row, note, peak_mb
from fieldmark.probes._select import stratified
from fieldmark.probes.ridge import Ridge
from fieldmark.probes.ridge.path import ridge_path
from fieldmark.probes.ridge.system import System

ALPHAS = [2.0**power for power in range(-15, 11)]
SCORING = {"accuracy": "accuracy", "macro_f1": "f1_macro"}
N_NEW = 5_000
LEAST_EQUAL = 0.9999
MOST_S, MOST_MB = 60, 2_000
warnings.filterwarnings("ignore", message="The least populated class")


@dataclass(frozen=True, slots=True)
class Case:
    n: int
    n_classes: int
    weight: str | None
    select_by: str
    n_timed: int
    """strengths the rival is timed on"""
    n_beside: int
    """strengths on each side of the chosen one that are tried in float64"""
    bar: float = 0.0


FULL = (
    Case(20_000, 500, None, "accuracy", 3, 2, 30),
    Case(20_000, 500, "balanced", "macro_f1", 3, 2, 30),
    Case(50_000, 1_000, None, "accuracy", 2, 1, 40),
    Case(50_000, 1_000, "balanced", "macro_f1", 2, 1, 40),
)
QUICK = (
    Case(1_000, 4, None, "accuracy", 1, 1),
    Case(1_000, 4, "balanced", "macro_f1", 1, 1),
)


def grid(alphas: list[float], case: Case, refit: bool) -> GridSearchCV:
    recipe = make_pipeline(StandardScaler(), RidgeClassifier(class_weight=case.weight))
    tried = {"ridgeclassifier__alpha": alphas}
    return GridSearchCV(recipe, tried, cv=5, scoring=SCORING[case.select_by], refit=refit)


def measure(case: Case) -> Row:
    note(f"ridge n={case.n} C={case.n_classes} {case.weight or 'plain'}")
    x, y = features(case.n, case.n_classes)
    ours = Ridge(class_weight=case.weight, select_by=case.select_by)
    ours_s, _ = timed(lambda: ours.fit(x, y))
    some = ALPHAS[:: len(ALPHAS) // case.n_timed][: case.n_timed]
    theirs_s, _ = timed(lambda: grid(some, case, refit=False).fit(x, y))
    refit = make_pipeline(StandardScaler(), RidgeClassifier(ours.alpha_, class_weight=case.weight))
    refit_s, _ = timed(lambda: refit.fit(x, y))
    agreement, is_equal = agree(case, ours, x, y)
    return Row(
        f"ridge n={case.n} C={case.n_classes} {case.weight or 'plain'} {case.select_by}",
        rival="GridSearchCV",
        scaled=f"{case.n_timed} of {len(ALPHAS)} strengths",
        rival_s=theirs_s * len(ALPHAS) / case.n_timed + refit_s,
        ours_s=ours_s,
        bar=case.bar,
        agreement=agreement,
        is_equal=is_equal,
        memory_mb=peak_mb(lambda: Ridge(class_weight=case.weight).fit(x, y)),
    )


def agree(case: Case, ours: Ridge, x: np.ndarray, y: np.ndarray) -> tuple[str, bool]:
    """In words, and whether it is enough."""
    at = ALPHAS.index(ours.alpha_)
    near = ALPHAS[max(0, at - case.n_beside) : at + case.n_beside + 1]
    exact = grid(near, case, refit=True).fit(x.astype(np.float64), y)
    new, _ = features(N_NEW, case.n_classes, seed=1)
    equal = float((exact.predict(new.astype(np.float64)) == ours.predict(new)).mean())
    is_same = exact.best_params_["ridgeclassifier__alpha"] == ours.alpha_
    told = (
        f"alpha {ours.alpha_:g} {'same' if is_same else 'DIFFERENT'} (of {len(near)}), score off "
        f"by {abs(exact.best_score_ - ours.cv_score_):.0e}, predictions {equal:.2%} equal"
    )
    return told, is_same and equal >= LEAST_EQUAL


def measure_large(n: int, n_classes: int, is_bar: bool) -> Row:
    """Statistics, every fold's solve for all strengths, and the refit, on a mapped file."""
    note(f"ridge n={n} C={n_classes}: statistics and solves")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        x, y = features(n, n_classes)
        np.save(path, x)
        del x
        mapped: Any = np.load(path, mmap_mode="r")
        y = np.unique(y, return_inverse=True)[1]
        ours_s, (system, peak) = timed(lambda: _solve_large(mapped, y))
    rank = int(np.count_nonzero(system.lambda_m > 0))
    is_small = peak <= MOST_MB
    return Row(
        f"ridge n={n} C={n_classes} d={WIDTH}: statistics, all strengths' solves, refit",
        rival="not run",
        rival_s=float("nan"),
        ours_s=ours_s,
        most_s=MOST_S if is_bar else 0,
        agreement=f"{rank} directions; {'under' if is_small else 'OVER'} {MOST_MB} MB beyond x",
        is_equal=is_small,
        memory_mb=peak,
    )


def _solve_large(x: np.ndarray, y: np.ndarray) -> tuple[System, float]:
    kept: list[System] = []

    def work() -> None:
        path = ridge_path(x, y, False, stratified(5, y))
        for fold in range(5):
            kept[:] = [path.system(fold)]
        path.model(1.0)

    peak = peak_mb(work)
    return kept[0], peak


def rows(is_quick: bool) -> Iterator[Row]:
    for case in QUICK if is_quick else FULL:
        yield measure(case)
    yield measure_large(2_000, 20, False) if is_quick else measure_large(500_000, 10_000, True)
