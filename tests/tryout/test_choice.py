"""The chosen model's accuracy on new units lies in its interval; promises are kept."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from fieldmark.tryout.judge.choice import choose
from fieldmark.tryout.judge.confidence import (
    fit_temperature,
    fit_threshold,
    nearest_distance,
    p_value,
    softmax,
)
from fieldmark.tryout.judge.findings import HeldOut, plan_search
from fieldmark.tryout.judge.heads import KINDS, fit_head, out_of_unit
from fieldmark.tryout.judge.split import can_be_tested, make_folds


def hits(random: np.random.Generator, n_units: int, n_each: int, n_models: int) -> np.ndarray:
    """Equally good models: whichever scores highest was lucky."""
    hard_u = random.normal(size=(n_units, 1))
    value = 0.5 * hard_u[:, None] + random.normal(size=(n_units, n_each, n_models))
    return (value.reshape(-1, n_models) < 0.9).astype(float)


def test_choosing_among_equal_models_does_not_flatter() -> None:
    random = np.random.default_rng(0)
    unit_n = np.repeat(np.arange(30), 8)
    truth = float(hits(random, 20000, 1, 1).mean())
    naive, honest, covered = [], [], []
    for _ in range(60):
        hit_nm = hits(random, 30, 8, 12)
        choice = choose(hit_nm, unit_n)
        naive.append(hit_nm.mean(axis=0).max() - truth)
        honest.append(choice.accuracy - truth)
        covered.append(choice.low <= truth <= choice.high)
    assert np.mean(naive) > 0.02, "the winner's own score is too good"
    assert abs(np.mean(honest)) < 0.015
    assert np.mean(covered) > 0.85


def test_ties_go_to_the_model_that_is_tried_first() -> None:
    hit_nm = np.ones((20, 3))
    hit_nm[0, 0] = 0
    assert choose(hit_nm, np.arange(20)).best == 1


def test_too_few_units_give_no_interval() -> None:
    choice = choose(np.ones((8, 1)), np.repeat(np.arange(4), 2))
    assert not choice.has_interval and choice.n_units == 4
    one = choose(np.ones((8, 1)), np.zeros(8, int))
    assert one.accuracy == 1 and math.isnan(one.low)


def test_all_right_does_not_promise_everything() -> None:
    choice = choose(np.ones((40, 2)), np.arange(40))
    assert choice.high == pytest.approx(1.0) and 0.85 < choice.low < 0.95


def test_units_are_never_on_both_sides() -> None:
    random = np.random.default_rng(1)
    unit_n = random.integers(40, size=300)
    unit_n = np.unique(unit_n, return_inverse=True)[1]
    fold_n = make_folds(random.integers(4, size=300), unit_n)
    assert all(len(np.unique(fold_n[unit_n == unit])) == 1 for unit in range(unit_n.max() + 1))


def test_every_label_is_trained_in_every_fold_however_few_photos_it_has() -> None:
    code_n = np.repeat(np.arange(100), 2)
    for seed in "abcde":
        fold_n = make_folds(code_n, np.arange(200), seed)
        assert all(len(np.unique(fold_n[code_n == code])) == 2 for code in range(100))


def test_labels_that_happen_to_be_common_are_not_rewarded() -> None:
    """Always giving the most common label is right on a third of new photos of three labels."""
    random = np.random.default_rng(8)
    right = []
    for seed in range(300):
        code_n = random.integers(3, size=30)
        fold_n = make_folds(code_n, np.arange(30), str(seed))
        common = [np.bincount(code_n[fold_n != fold]).argmax() for fold in range(10)]
        right.append((np.array(common)[fold_n] == code_n).mean())
    assert np.mean(right) < 0.36, "folds by label show 0.41"


def test_a_label_of_one_unit_cannot_be_tested() -> None:
    code_n, unit_n = np.repeat([0, 1, 2], 6), np.array([0] * 6 + [1, 2] * 3 + [3, 4, 5, 6, 7, 8])
    assert can_be_tested(code_n, unit_n, 3).tolist() == [False, True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_linear_and_know_labels_they_never_saw(kind: str) -> None:
    random = np.random.default_rng(2)
    x_nd = random.normal(size=(60, 10)) + 3 * np.eye(10)[np.repeat([0, 1, 3], 20)]
    head = fit_head(kind, x_nd, np.repeat([0, 1, 3], 20), 4)
    score_nc = head.scores(x_nd)
    assert score_nc.shape == (60, 4) and np.isneginf(score_nc[:, 2]).all()
    assert (score_nc.argmax(axis=1) == np.repeat([0, 1, 3], 20)).mean() > 0.9


def test_probabilities_are_calibrated() -> None:
    """True log-odds times a wrong factor: the temperature finds the factor."""
    random = np.random.default_rng(3)
    logit_nc = 2 * random.normal(size=(5000, 4))
    prob_nc = softmax(logit_nc, 1.0)
    code_n = (prob_nc.cumsum(axis=1) > random.random((5000, 1))).argmax(axis=1)
    assert fit_temperature(7 * logit_nc, code_n, np.ones(5000)) == pytest.approx(7, rel=0.06)


@pytest.mark.parametrize(("n_units", "is_promise"), [(18, False), (19, True)])
def test_a_promise_takes_19_units(n_units: int, is_promise: bool) -> None:
    threshold = fit_threshold(
        np.linspace(0.5, 1, n_units), np.ones(n_units, bool), np.arange(n_units)
    )
    assert threshold.is_promise == is_promise and threshold.share_named == pytest.approx(1)


def test_the_promise_is_kept_on_new_units() -> None:
    random = np.random.default_rng(4)

    def draw(n_units: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        unit_n = np.repeat(np.arange(n_units), 4)
        prob_n = random.random(4 * n_units)
        hard_n = np.repeat(random.normal(size=n_units), 4)
        return prob_n, random.random(4 * n_units) < np.clip(prob_n + 0.15 * hard_n, 0, 1), unit_n

    wrong = []
    for _ in range(80):
        threshold = fit_threshold(*draw(60))
        prob_n, is_right_n, _ = draw(500)
        wrong.append(((prob_n >= threshold.at_least) & ~is_right_n).mean())
    assert 0.02 < np.mean(wrong) <= 0.053


def test_known_photos_are_rarely_called_new_and_others_are() -> None:
    random = np.random.default_rng(5)
    known, unit_k = random.normal(size=(400, 8)) + 4, np.repeat(np.arange(100), 4)
    distance_k = nearest_distance(known, known, 5, unit_k, unit_k)
    again = nearest_distance(random.normal(size=(2000, 8)) + 4, known, 5)
    p_n = p_value(again, distance_k, np.ones(400))
    assert 0.003 < (p_n < 0.02).mean() < 0.04
    outside = random.normal(size=(50, 8)) + 4 * np.array([1, -1] * 4)
    assert (p_value(nearest_distance(outside, known, 5), distance_k, np.ones(400)) < 0.02).all()


@pytest.mark.parametrize(("n_units", "at_least"), [(10, 0.741), (59, 0.95), (93, 0.95)])
def test_what_a_search_promises(n_units: int, at_least: float) -> None:
    random = np.random.default_rng(6)
    score_n = np.concatenate([random.uniform(0.5, 1, n_units), random.uniform(0, 0.6, 400)])
    code_n = np.repeat([0, 1], [n_units, 400])
    tested = HeldOut(
        code_n, np.stack([score_n, 1 - score_n], 1), np.arange(len(code_n)), ("a", "b")
    )
    search = plan_search(tested, 0)
    assert search.at_least == pytest.approx(at_least, abs=0.002)
    assert search.share < 0.6 and search.share_found >= 0.98


def test_at_a_camera_all_photos_are_searched_for_not_the_easiest_one() -> None:
    """Half of all photos show the label: less than half can never be enough."""
    score_n = np.tile(np.linspace(0.01, 0.99, 100), 2)
    code_n = np.tile([0, 1], 100)
    held_out = HeldOut(
        code_n, np.stack([score_n, 1 - score_n], 1), np.repeat([0, 1], 100), ("a", "b")
    )
    search = plan_search(held_out, 0, are_bursts=False)
    is_seen_n = score_n >= np.sort(score_n)[::-1][round(search.share * 200) - 1]
    assert is_seen_n[code_n == 0].mean() >= 0.95 and search.share_found == 1
    assert plan_search(held_out, 0).share < 0.1, "of a burst, any frame will do"


def test_out_of_unit_never_sees_the_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    original = fit_head

    def spy(kind: str, x_nd: np.ndarray, code_n: np.ndarray, n_labels: int) -> object:
        seen.append(set(x_nd[:][:, 0].astype(int).tolist()))
        return original(kind, x_nd, code_n, n_labels)

    monkeypatch.setattr("fieldmark.tryout.judge.heads.fit_head", spy)
    x_nd = np.stack([np.arange(30.0), np.ones(30)], axis=1)
    fold_n = np.arange(30) % 3
    out_of_unit("class means", x_nd, np.arange(30) % 2, fold_n, 2)
    assert seen == [{n for n in range(30) if n % 3 != fold} for fold in range(3)]


@pytest.mark.parametrize("kind", ["class means", "ridge"])
def test_folds_hold_no_copy_of_the_features(kind: str) -> None:
    """Of 40,000 × 256, three fourths are 31 MB in float32; of 20,000 half of that."""
    code_n, fold_n = np.arange(40_000) % 3, np.arange(40_000) % 4
    x_nd = np.random.default_rng(0).standard_normal((40_000, 256), np.float32)
    x_nd[:, :3] += np.eye(3, dtype=np.float32)[code_n]
    peaks = []
    for n in (100, 20_000, 40_000):  # the first imports what is needed
        tracemalloc.start()
        score_nc = out_of_unit(kind, x_nd[:n], code_n[:n], fold_n[:n], 3)
        peaks.append(tracemalloc.get_traced_memory()[1] - score_nc.nbytes)
        tracemalloc.stop()
    assert (score_nc.argmax(axis=1) == code_n).mean() > 0.5
    assert peaks[2] - peaks[1] < 6e6
