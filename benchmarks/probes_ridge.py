"""How much faster is the ridge grid than scikit-learn's, and are the answers the same?

    python benchmarks/probes_ridge.py            n=20k C=500 and n=50k C=1000, plain and balanced
    python benchmarks/probes_ridge.py --quick    n=4k C=100
    python benchmarks/probes_ridge.py --large    statistics and solves of n=500k, C=10k

The rival is GridSearchCV(StandardScaler + RidgeClassifier), 26 strengths, 5 folds, one thread each,
CPU seconds. It is timed on float32 features, which suit it best, and, except for --quick, from a
few strengths scaled to 26 (every strength costs it the same) plus its refit. Agreement is with
scikit-learn in float64: the strength chosen (among the chosen one and its two neighbours each side;
with --quick among all 26), the held-out scores, and the predictions of 5,000 new rows.
"""

from __future__ import annotations

import sys
import tempfile
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

from _features import WIDTH, features, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fieldmark.probes._folds import stratified
from fieldmark.probes._ridge_path import ridge_path
from fieldmark.probes.ridge import Ridge

ALPHAS = [2.0**power for power in range(-15, 11)]
SCORING = {"accuracy": "accuracy", "macro_f1": "f1_macro"}
warnings.filterwarnings("ignore", message="The least populated class")


def grid(alphas: list[float], weight: str | None, select_by: str, refit: bool) -> GridSearchCV:
    recipe = make_pipeline(StandardScaler(), RidgeClassifier(class_weight=weight))
    tried = {"ridgeclassifier__alpha": alphas}
    return GridSearchCV(recipe, tried, cv=5, scoring=SCORING[select_by], refit=refit)


def compare(n: int, n_classes: int, weight: str | None, select_by: str, n_timed: int) -> float:
    x, y = features(n, n_classes)
    new, _ = features(5000, n_classes, seed=1)
    ours_s, ours = timed(lambda: Ridge(class_weight=weight, select_by=select_by).fit(x, y))
    at = ALPHAS.index(ours.alpha_)
    near = ALPHAS if n_timed == len(ALPHAS) else ALPHAS[max(0, at - 2) : at + 3]
    some = ALPHAS[:: len(ALPHAS) // n_timed][:n_timed]
    theirs_s, _ = timed(lambda: grid(some, weight, select_by, refit=False).fit(x, y))
    refit = make_pipeline(StandardScaler(), RidgeClassifier(ours.alpha_, class_weight=weight))
    refit_s, _ = timed(lambda: refit.fit(x, y))
    theirs_s = theirs_s * len(ALPHAS) / n_timed + refit_s
    exact = grid(near, weight, select_by, refit=True).fit(x.astype(np.float64), y)
    same_alpha = exact.best_params_["ridgeclassifier__alpha"] == ours.alpha_
    equal = float((exact.predict(new.astype(np.float64)) == ours.predict(new)).mean())
    print(
        f"ridge n={n} C={n_classes} {weight or 'plain'} {select_by}: "
        f"scikit-learn {theirs_s:.1f} s (from {n_timed} of 26 strengths), ours {ours_s:.2f} s, "
        f"{theirs_s / ours_s:.1f} ×; alpha {ours.alpha_:g} "
        f"{'same' if same_alpha else 'DIFFERENT'} (of {len(near)}), "
        f"score off by {abs(exact.best_score_ - ours.cv_score_):.1e}, "
        f"predictions {equal:.2%} equal",
        flush=True,
    )
    return theirs_s / ours_s


def large(n: int, n_classes: int, n_full: int) -> str:
    """Statistics and all folds' eigendecompositions on a mapped file; scoring is not part of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        x, y = features(n, n_classes)
        np.save(path, x)
        del x
        mapped: Any = np.load(path, mmap_mode="r")
        y = np.unique(y, return_inverse=True)[1]
        tracemalloc.start()
        splits = stratified(5, y)
        sums_s, found = timed(lambda: ridge_path(mapped, y, False, splits))
        solve_s = sum(timed(lambda fold=fold: found.system(fold))[0] for fold in range(5))
        refit_s, _ = timed(lambda: found.model(1.0))
        peak_gb = tracemalloc.get_traced_memory()[1] / 1e9
        tracemalloc.stop()
    full_s = sums_s * n_full / n + solve_s + refit_s
    return (
        f"ridge at n={n_full}, d={WIDTH}, C={n_classes}: statistics {sums_s:.1f} s at n={n} "
        f"(linear in n: {sums_s * n_full / n:.1f} s), solves of 5 folds {solve_s:.1f} s, refit "
        f"{refit_s:.1f} s, together {full_s:.1f} s; {peak_gb:.2f} GB beyond the features"
    )


def main() -> None:
    if "--large" in sys.argv:
        print(large(100_000, 10_000, 500_000))
        return
    if "--quick" in sys.argv:
        cases = [
            (4000, 100, weight, by, 26)
            for weight, by in [(None, "accuracy"), (None, "macro_f1"), ("balanced", "macro_f1")]
        ]
    else:
        cases = [
            (n, c, weight, by, n_timed)
            for n, c, n_timed in [(20_000, 500, 3), (50_000, 1000, 2)]
            for weight, by in [(None, "accuracy"), ("balanced", "macro_f1")]
        ]
    ratios = [compare(*case) for case in cases]
    print(f"ridge: {min(ratios):.1f} × scikit-learn at the least (of {len(ratios)} cases)")


if __name__ == "__main__":
    main()
