"""The ridge grid against scikit-learn's, cell by cell."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fieldmark.metrics import load_metric
from fieldmark.probes import ProbeDataError, SomeRows
from fieldmark.probes._select import stratified
from fieldmark.probes.ridge import Ridge
from fieldmark.probes.ridge import path as ridge_path_module
from fieldmark.probes.ridge.path import predict_path, ridge_path
from fieldmark.probes.ridge.system import measure

accuracy = load_metric("accuracy")
ALPHAS = [2.0**-15, 2.0**-4, 1.0, 30.0, 2.0**10]


def problem(
    seed: int, n: int, dim: int, n_classes: int, offset: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_classes + 1)
    code = random.choice(n_classes, n, p=share / share.sum())
    code[: 2 * n_classes] = np.tile(np.arange(n_classes), 2)
    centres = random.normal(size=(n_classes, dim))
    spread = np.arange(1, dim + 1) ** -0.5
    return (centres[code] + 2 * random.normal(size=(n, dim))) * spread + offset, code


def reference(x: np.ndarray, y: np.ndarray, splits: Any, weight: str | None) -> np.ndarray:
    """Accuracy by strength and fold."""
    found = GridSearchCV(
        make_pipeline(StandardScaler(), RidgeClassifier(class_weight=weight)),
        {"ridgeclassifier__alpha": ALPHAS},
        cv=splits,
        scoring="accuracy",
        refit=False,
    ).fit(x.astype(np.float64), y)
    return np.stack(
        [found.cv_results_[f"split{fold}_test_score"] for fold in range(len(splits))], axis=1
    )


@pytest.mark.slow
@settings(max_examples=25)  # each is a grid search: a quarter of a second
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(30, 90),
    dim=st.sampled_from([2, 9, 40, 120]),
    n_classes=st.integers(2, 9),
    weight=st.sampled_from([None, "balanced"]),
    by_nodes=st.booleans(),
    offset=st.sampled_from([0.0, 100.0]),
)
def test_every_cell_equals_scikit_learn(
    seed: int,
    n: int,
    dim: int,
    n_classes: int,
    weight: str | None,
    by_nodes: bool,
    offset: float,
) -> None:
    x, y = problem(seed, n, dim, n_classes, offset)
    x[:, 1] = 0.1
    splits = stratified(4, y)
    with pytest.MonkeyPatch.context() as patch:
        if by_nodes:
            patch.setattr(ridge_path_module, "_SMALL", -1)
        ours = ridge_path(x, y, weight == "balanced", splits).scores(ALPHAS, accuracy)
    np.testing.assert_allclose(ours, reference(x, y, splits, weight), atol=1e-12)


@pytest.mark.parametrize("is_balanced", [False, True])
@pytest.mark.parametrize("decay", [0.0, 1.5])
def test_nodes_answer_as_every_strength_scored(is_balanced: bool, decay: float) -> None:
    x, y = problem(3, 1500, 48, 40)
    x = (x * np.arange(1, 49) ** -decay).astype(np.float32)
    splits = stratified(5, y)
    system = ridge_path(x, y, is_balanced, splits).system(2)
    held, alphas = splits[2][1], [2.0**power for power in range(-15, 11)]
    plain = system.present_c[ridge_path_module._plain(x[held], system, np.array(alphas))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ridge_path_module, "_SMALL", -1)
        assert (predict_path(x, held, system, alphas) == plain).all()
    assert len(np.unique(plain, axis=0)) > 1


def test_ties_of_all_classes_go_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge_path_module, "_SMALL", -1)
    x, y = np.full((50, 4), 0.1), np.arange(50) % 5
    splits = stratified(5, y)
    predicted = predict_path(x, splits[0][1], ridge_path(x, y, False, splits).system(0), ALPHAS)
    assert (predicted == 0).all()


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_a_class_missing_from_a_training_fold(weight: str | None) -> None:
    x, y = problem(5, 80, 6, 4)
    y[y == 3] = 2
    y[11] = 7
    y = np.unique(y, return_inverse=True)[1]
    splits = stratified(4, y)
    assert any(3 not in y[train] for train, _ in splits)
    ours = ridge_path(x, y, weight == "balanced", splits).scores(ALPHAS, accuracy)
    np.testing.assert_allclose(ours, reference(x, y, splits, weight), atol=1e-12)


def test_a_feature_that_is_constant_only_in_training() -> None:
    """A dead unit that fires once: its spread without that row is 0, not a rest of rounding."""
    x, y = problem(6, 100, 5, 3)
    x[:, 4] = 0.0
    x[7, 4] = 1e6
    splits = stratified(5, y)
    ours = ridge_path(x, y, False, splits).scores(ALPHAS, accuracy)
    np.testing.assert_allclose(ours, reference(x, y, splits, None), atol=1e-12)


@pytest.mark.parametrize("is_balanced", [False, True])
def test_moments_of_a_training_set(is_balanced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fieldmark.probes.ridge.system.BLOCK_ROWS", 37)
    x, y = problem(8, 200, 7, 5, offset=50.0)
    fold_n = np.arange(200) % 3
    moments = measure(x, y, fold_n, is_balanced)
    for fold in (0, 2, -1):
        kept = fold_n != fold
        ours, moved = moments.without(fold), x[kept] - moments.offset_d
        weight = ours.weight_c[y[kept]][:, None]
        np.testing.assert_allclose(ours.second_dd, (weight * moved).T @ moved, rtol=1e-6, atol=1e-4)
        np.testing.assert_allclose(ours.sum_cd[2], moved[y[kept] == 2].sum(axis=0), rtol=1e-9)
        assert ours.count_c.tolist() == np.bincount(y[kept]).tolist()
        np.testing.assert_allclose(weight.sum(), kept.sum())


def test_two_jobs_answer_as_one() -> None:
    x, y = problem(9, 120, 6, 4)
    one, two = (Ridge(n_jobs=n_jobs).fit(x, y) for n_jobs in (1, 2))
    assert (one.alpha_, one.cv_score_) == (two.alpha_, two.cv_score_)
    assert (one.decision_function(x) == two.decision_function(x)).all()


def test_a_mapped_file_is_not_copied(tmp_path: Path) -> None:
    """40,000 × 64 is 10 MB in float32; a one-hot target of 500 classes would be 160 MB."""
    x, y = problem(10, 40_000, 64, 500)
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    del x
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    splits = stratified(3, y)
    tracemalloc.start()
    path = ridge_path(mapped, y, False, splits)
    path.system(0)
    path.model(1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 15e6


@pytest.mark.parametrize("dim", [6, 150])
def test_some_rows_teach_as_a_copy_of_them_does(dim: int) -> None:
    x, y = problem(11, 120, dim, 4)
    rows = np.random.default_rng(0).permutation(120)[:90]
    view, copy = Ridge().fit(SomeRows(x, rows), y[rows]), Ridge().fit(x[rows], y[rows])
    assert (view.alpha_, view.cv_score_) == (copy.alpha_, copy.cv_score_)
    assert (view.decision_function(x) == copy.decision_function(x)).all()


def test_some_rows_that_are_not_finite_are_refused() -> None:
    x, y = problem(12, 30, 3, 2)
    x[5, 1] = np.inf
    with pytest.raises(ProbeDataError, match="features of 1 of 30 rows hold NaN or inf"):
        Ridge().fit(SomeRows(x, np.arange(20)), y[:20])


def test_predicting_makes_no_rows_by_classes_array() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(4000, 8)).astype(np.float32), np.arange(4000) // 2
    probe = Ridge(alphas=[1.0]).fit(x, y)
    queries = np.repeat(x, 10, axis=0)
    tracemalloc.start()
    probe.predict(queries), probe.predict_score(queries)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6
