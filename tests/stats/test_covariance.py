"""The covariance of scores' errors against formulas of textbooks, written out."""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, errors, join

accuracy, macro_accuracy = load_metric("accuracy"), load_metric("macro_accuracy")


def rights(m: int, n: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    easy = random.random(n)
    return (random.random((m, n)) * 0.6 + 0.4 * easy < 0.6).astype(int)


def test_independent_items_have_the_covariance_of_their_means():
    right_mn = rights(4, 150)
    ours = errors(Items(np.ones(150, int)), right_mn, accuracy)
    np.testing.assert_allclose(ours.cov_mm, np.cov(right_mn) / 150, rtol=1e-5)
    np.testing.assert_allclose(ours.value_m, right_mn.mean(axis=1))


def test_units_of_equal_size_have_the_covariance_of_their_means():
    right_mn = rights(3, 120)
    ours = errors(Items(np.ones(120, int), np.arange(120) // 6), right_mn, accuracy)
    of_units = right_mn.reshape(3, 20, 6).mean(axis=2)
    np.testing.assert_allclose(ours.cov_mm, np.cov(of_units) / 20, rtol=1e-5)
    assert (ours.n, ours.n_units) == (120, 20)


def test_parts_of_their_own_units_add_up():
    right_mn, part = rights(3, 100), np.repeat([0, 1], [40, 60])
    ours = errors(Items(np.ones(100, int), None, part, "mean"), right_mn, accuracy)
    expected = np.cov(right_mn[:, :40]) / 40 / 4 + np.cov(right_mn[:, 40:]) / 60 / 4
    np.testing.assert_allclose(ours.cov_mm, expected, rtol=1e-5)


def test_a_fish_is_one_unit_in_all_its_traits():
    """Traits that always fare alike say no more than one of them."""
    right_mn = rights(3, 80)
    unit, part = np.tile(np.arange(80), 9), np.repeat(np.arange(9), 80)
    ours = errors(Items(np.ones(720, int), unit, part, "mean"), np.tile(right_mn, 9), accuracy)
    np.testing.assert_allclose(ours.cov_mm, np.cov(right_mn) / 80, rtol=1e-5)
    assert ours.n_units == 80


def test_classes_with_many_photos_add_up_as_strata():
    random = np.random.default_rng(1)
    target = np.repeat(np.arange(3), [200, 300, 400])
    answer_mn = np.where(random.random((2, 900)) < 0.7, target, -1)
    ours = errors(Items(target), answer_mn, macro_accuracy)
    right_mn = answer_mn == target
    expected = sum(np.cov(right_mn[:, target == c]) / (target == c).sum() / 9 for c in range(3))
    np.testing.assert_allclose(ours.cov_mm, expected, rtol=0.02, atol=2e-7)


def test_a_class_with_one_unit_is_held_against_the_mean_of_all():
    """Individuals that are their own classes are a sample of individuals."""
    random = np.random.default_rng(2)
    unit = np.repeat(np.arange(50), 6)
    right = random.random(300) < random.beta(2, 1, 50)[unit]
    ours = errors(Items(unit, unit), np.where(right, unit, -1)[None], macro_accuracy)
    of_unit = np.bincount(unit, right) / 6
    assert ours.own_m[0] == pytest.approx(of_unit.var() / 50, rel=0.3)
    assert ours.own_m[0] >= 0.9 * of_unit.var() / 50


def test_training_draws_add_their_own_spread():
    """Five trainings that differ by nothing but a shift: the shift's variance is all there is."""
    right = rights(1, 5000)[0]
    shifted = [np.where(np.arange(5000) < 500 * draw, 1, right) for draw in range(5)]
    unit, repeat = np.tile(np.arange(5000), 5), np.repeat(np.arange(5), 5000)
    items = Items(np.ones(25_000, int), unit, repeat=repeat)
    ours = errors(items, np.concatenate(shifted)[None], accuracy)
    scores = [mine.mean() for mine in shifted]
    of_draws = next(source for source in ours.sources if source.is_of_draws)
    assert of_draws.cov_mm[0, 0] == pytest.approx(np.var(scores, ddof=1) / 5)
    assert of_draws.freedom == 4
    assert ours.own_freedom_m[0] < 4.5 and ours.n_repeats == 5 and ours.n == 5000


def test_shared_draws_cancel_in_differences():
    """Two models that gain from the same lucky draws differ by nothing of it."""
    right_mn = rights(2, 1000)
    lucky = [np.where(np.arange(1000) < 60 * draw, 1, right_mn) for draw in range(5)]
    unit, repeat = np.tile(np.arange(1000), 5), np.repeat(np.arange(5), 1000)
    ours = errors(
        Items(np.ones(5000, int), unit, repeat=repeat), np.concatenate(lucky, axis=1), accuracy
    )
    of_draws = next(source for source in ours.sources if source.is_of_draws)
    assert of_draws.pair_mm[0, 1] < 0.05 * of_draws.cov_mm[0, 0]


def test_any_metric_has_the_jackknifes_variance():
    def share(target, prediction, weight=None):
        return float(np.average(target == prediction, weights=weight))

    right_mn = rights(2, 60)
    ours = errors(Items(np.ones(60, int)), right_mn, share)
    np.testing.assert_allclose(ours.cov_mm, np.cov(right_mn) / 60, rtol=1e-4)


def test_the_mean_over_tasks_on_other_photos_adds_their_variances():
    tasks = [errors(Items(np.ones(80, int)), rights(3, 80, seed), accuracy) for seed in range(4)]
    ours = join(tasks, range(4))
    np.testing.assert_allclose(ours.cov_mm, sum(task.cov_mm for task in tasks) / 16, rtol=1e-5)
    np.testing.assert_allclose(ours.value_m, np.mean([task.value_m for task in tasks], axis=0))


def test_the_same_task_twice_on_the_same_photos_is_one_task():
    right_mn, unit = rights(3, 80), np.arange(80) + 500
    task = errors(Items(np.ones(80, int), unit), right_mn, accuracy)
    twice = join([task, task], ["photos", "photos"])
    np.testing.assert_allclose(twice.cov_mm, task.cov_mm, rtol=1e-5)
    apart = join([task, task], ["photos", "other photos"])
    np.testing.assert_allclose(apart.cov_mm, task.cov_mm / 2, rtol=1e-5)


def test_some_of_the_models_keep_their_numbers():
    whole = errors(Items(np.ones(90, int), np.arange(90) // 3), rights(5, 90), accuracy)
    some = whole.taken([3, 1])
    np.testing.assert_array_equal(some.value_m, whole.value_m[[3, 1]])
    np.testing.assert_allclose(some.pair_mm, whole.pair_mm[np.ix_([3, 1], [3, 1])])
    assert some.n_discordant(0, np.array([1])) == whole.n_discordant(3, np.array([1]))
