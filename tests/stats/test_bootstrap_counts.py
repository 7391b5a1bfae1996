from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, Resampling
from fieldmark.stats.bootstrap import cell_kinds, draw_counts, replicate_classes


@pytest.mark.parametrize("kinds", [50, 900])
def test_counts_are_multinomial(kinds: int) -> None:
    random = np.random.default_rng(0)
    count = random.choice([1, 2, 3, 7, 30, 150], kinds, p=[0.5, 0.2, 0.1, 0.1, 0.08, 0.02])
    total = count.sum()
    drawn = draw_counts(random, count, 4000)
    assert drawn.shape == (4000, kinds) and (drawn.sum(axis=1) == total).all()
    error = np.sqrt(count / 4000)
    assert (np.abs(drawn.mean(axis=0) - count) < 5 * error).all()
    expected = count * (1 - count / total)
    assert drawn.var(axis=0) / expected == pytest.approx(np.ones(kinds), abs=0.2)
    ones = drawn[:, count == 1]
    seen = np.bincount(ones.ravel(), minlength=12)[:7] / ones.size
    theirs = scipy.stats.binom(total, 1 / total).pmf(np.arange(7))
    assert seen == pytest.approx(theirs, abs=0.005 if kinds == 50 else 0.002)


def test_sums_of_kinds_vary_as_they_should() -> None:
    """Counts of kinds are not independent: half of the kinds together vary as a binomial."""
    random = np.random.default_rng(1)
    drawn = draw_counts(random, np.full(1000, 2), 4000)
    assert drawn[:, :500].sum(axis=1).var() == pytest.approx(2000 * 0.25, rel=0.1)


@pytest.mark.parametrize("score", ["pooled", "mean"])
@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("name", ["macro_accuracy", "macro_f1"])
def test_replicates_equal_the_metric_on_the_same_resamples(
    name: str, burst: int, score: str
) -> None:
    random = np.random.default_rng(0)
    target, part = random.integers(0, 9, 240), np.repeat([0, 1, 2], 80)
    prediction = np.where(random.random(240) < 0.6, target, random.integers(-1, 11, 240))
    items = Items(target, np.arange(240) // burst, part, score)  # type: ignore[arg-type]
    metric, settings = load_metric(name), Resampling(draws=20)
    ours = replicate_classes(items, prediction, metric, settings)
    kept = prediction
    if name == "macro_accuracy":
        kept = np.where(prediction == target, prediction, -1)
    cells = cell_kinds(items, kept)
    weight = np.concatenate(
        [cells.weights(block) for block in cells.kinds.resampled(settings, "interval")]
    )
    truth, answer = cells.columns.T
    groups = (
        [np.ones(len(truth), bool)] if score == "pooled" else [cells.part == p for p in (0, 1, 2)]
    )
    by_metric = np.mean(
        [[metric(truth[g], answer[g], each[g]) for each in weight] for g in groups], axis=0
    )
    assert ours == pytest.approx(by_metric, abs=1e-12)
