"""How much sooner are bootstrap intervals there than from the loop of `bootstrap.py`?

    python benchmarks/probes_bootstrap.py [--quick]

The rows of the large table: mean, macro-F1 and macro accuracy. The rival picks prediction objects,
collects their labels and calls scikit-learn, once for each resample; it is given resamples that
`fieldmark.stats` drew, timed on some of them and scaled. Values must be equal resample by resample,
and so must be the interval that follows from them. CPU seconds of one thread; ours is the whole
call, drawing and limits included, the least of three (the first also imports).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from _features import timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np

from _rows import Row, note, peak_mb, run_alone
from bootstrap import Prediction, loop, resamples
from fieldmark.metrics import load_metric
from fieldmark.stats import Items, Resampling, bootstrap
from fieldmark.stats.bootstrap import replicate_classes, replicate_mean
from fieldmark.stats.interval import percentile_limits
from fieldmark.stats.items import estimate

BAR = 100
MOST_APART = 1e-12
TITLES = {"accuracy": "mean", "macro_f1": "macro-F1", "macro_accuracy": "macro accuracy"}


@dataclass(frozen=True, slots=True)
class Case:
    metric: str
    n: int
    n_classes: int
    draws: int


FULL = tuple(
    Case(metric, n, n_classes, draws)
    for n, n_classes, draws in ((10_000, 200, 2_000), (10_000, 200, 10_000), (50_000, 1_000, 500))
    for metric in TITLES
)
QUICK = FULL[:3]


def make_predictions(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Targets with a long tail; two of three are right, the rest confused with a few others."""
    random = np.random.default_rng(case.n)
    share = 1 / np.arange(1, case.n_classes + 1)
    target = random.choice(case.n_classes, case.n, p=share / share.sum())
    wrong = (target + random.integers(1, 6, case.n)) % case.n_classes
    return target, np.where(random.random(case.n) < 0.67, target, wrong)


def replicates(case: Case, target: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Our value of every resample."""
    settings = Resampling(draws=case.draws)
    if case.metric == "accuracy":
        return replicate_mean(Items(target), (target == answer).astype(float), settings)
    return replicate_classes(Items(target), answer, load_metric(case.metric), settings)


def measure(case: Case) -> Row:
    note(f"bootstrap {case.metric}, n={case.n}, {case.draws} draws")
    target, answer = make_predictions(case)
    items, metric, settings = Items(target), load_metric(case.metric), Resampling(case.draws)
    ours_s = min(timed(lambda: bootstrap(items, answer, metric, settings))[0] for _ in range(3))
    drawn = resamples(case.metric, target, answer, case.draws)
    made = [Prediction(*each) for each in zip(target.tolist(), answer.tolist(), strict=True)]
    loop_s, theirs_r = timed(lambda: loop(case.metric, made, drawn))
    ours_r = replicates(case, target, answer)
    mixed_r = np.concatenate([theirs_r, ours_r[len(theirs_r) :]])
    value = estimate(items, answer, metric)
    ours, theirs = (
        percentile_limits(value, each_r, items, settings, metric.bounds)
        for each_r in (ours_r, mixed_r)
    )
    apart = float(np.abs(ours_r[: len(theirs_r)] - theirs_r).max())
    shift = float(np.abs(np.subtract(ours, theirs)).max())
    return Row(
        f"bootstrap {TITLES[case.metric]}, n={case.n}, C={case.n_classes}, {case.draws} draws",
        rival="loop over objects",
        scaled=f"{len(drawn)} of {case.draws} draws",
        rival_s=loop_s * case.draws / len(drawn),
        ours_s=ours_s,
        bar=BAR,
        agreement=f"same draws: values within {apart:.0e}, limits within {shift:.0e}",
        is_equal=max(apart, shift) <= MOST_APART,
        memory_mb=peak_mb(lambda: bootstrap(items, answer, metric, settings)),
    )


def rows(is_quick: bool) -> Iterator[Row]:
    for case in QUICK if is_quick else FULL:
        yield measure(case)


if __name__ == "__main__":
    run_alone(rows)
