"""The compiled search against scikit-learn's, cell by cell."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fieldmark.probes._select import stratified
from fieldmark.probes.svm import SupportVectors
from fieldmark.probes.svm import probe as svm
from fieldmark.probes.svm.search import (
    KERNELS,
    LEAST_FITS,
    candidates,
    distributions,
    fold_scores,
    judge_candidates,
)

N_TRIED = 40
pytest.importorskip("numba", reason="the extra `fast` is not installed")


def task(classes: int, n: int = 70, dim: int = 200) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(classes)
    y = random.integers(0, classes, n)
    x = random.normal(size=(n, dim)) + 0.25 * random.normal(size=(classes, dim))[y]
    x[:, 3] = 7.0
    return (x * np.logspace(-2, 2, dim)).astype(np.float32), y


def rival(y: np.ndarray) -> RandomizedSearchCV:
    return RandomizedSearchCV(
        make_pipeline(StandardScaler(), SVC()),
        {f"svc__{name}": values for name, values in distributions().items()},
        n_iter=N_TRIED,
        cv=stratified(5, y),
        random_state=42,
    )


@pytest.mark.parametrize("classes", [2, 5])
def test_every_cell_equals_scikit_learn(classes: int) -> None:
    x, y = task(classes)
    x = x.astype(np.float64)
    theirs = rival(y).fit(x, y).cv_results_
    cell = np.stack([theirs[f"split{k}_test_score"] for k in range(5)], axis=1)
    tried = candidates(N_TRIED, 42)
    assert [each["C"] for each in tried] == list(theirs["param_svc__C"])
    right = judge_candidates(x, y, stratified(5, y), tried)
    assert (fold_scores(right, stratified(5, y)) == cell).all()
    assert len(np.unique(cell)) > 5


@pytest.mark.parametrize("classes", [2, 5])
def test_same_winner_and_same_answers(classes: int) -> None:
    x, y = task(classes, n=90)
    x, y, queries = x[:60], y[:60], x[60:]
    assert N_TRIED * 5 >= LEAST_FITS
    ours = SupportVectors(search=N_TRIED, choose="best").fit(x, y)
    theirs = rival(y).fit(x.astype(np.float64), y)
    assert {f"svc__{k}": v for k, v in ours.best_params_.items()} == theirs.best_params_
    assert ours.cv_score_ == theirs.best_score_
    assert (ours.predict(queries) == theirs.predict(queries.astype(np.float64))).all()
    assert ours.fit_notes_ == []


def test_a_class_missing_from_a_training_fold() -> None:
    x, y = task(3, n=60)
    y[y == 2] = 1
    y[11] = 2
    ours = SupportVectors(search=N_TRIED, choose="best").fit(x, y)
    theirs = rival(y).fit(x.astype(np.float64), y)
    assert ours.cv_score_ == theirs.best_score_
    assert ours.best_params_["C"] == theirs.best_params_["svc__C"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cost", [0.01, 10.0])
def test_multipliers_are_those_of_libsvm(kernel: str, cost: float) -> None:
    from fieldmark.probes.svm.smo import solve

    x, y = task(2)
    x = StandardScaler().fit_transform(x[np.argsort(y, kind="stable")].astype(np.float64))
    y = np.sort(y)
    theirs = SVC(kernel=kernel, C=cost, gamma=1e-3).fit(x, y)
    inner = x @ x.T
    length = inner.diagonal()
    matrix = {
        "linear": inner,
        "rbf": np.exp(-1e-3 * (length[:, None] + length - 2 * inner)),
        "poly": (1e-3 * inner) ** 3,
        "sigmoid": np.tanh(1e-3 * inner),
    }[kernel]
    coef, offset, _ = solve(
        matrix.astype(np.float32), matrix.diagonal().copy(), int((y == 0).sum()), cost
    )
    # scikit-learn turns libsvm's signs so that the second class is the positive one.
    assert (np.flatnonzero(coef) == np.sort(theirs.support_)).all()
    np.testing.assert_allclose(coef[theirs.support_], -theirs.dual_coef_[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(offset, theirs.intercept_[0], rtol=1e-6, atol=1e-9)


def test_copies_of_a_row_in_both_classes_end() -> None:
    x, y = task(2, n=40)
    x, y = np.concatenate([x, x]), np.concatenate([y, 1 - y])
    ours = SupportVectors(search=N_TRIED, choose="best").fit(x, y)
    assert ours.cv_score_ == rival(y).fit(x.astype(np.float64), y).best_score_


def test_without_numba_scikit_learn_searches(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    x, y = task(2, n=40, dim=20)
    fast = SupportVectors(search=N_TRIED, choose="best").fit(x, y)
    monkeypatch.setattr(svm, "has_numba", lambda: False)
    with caplog.at_level(logging.INFO):
        slow = SupportVectors(search=N_TRIED, choose="best").fit(x, y)
    assert "numba is not installed" in caplog.text
    assert slow.best_params_ == fast.best_params_ and slow.cv_score_ == fast.cv_score_
    assert (slow.decision_function(x) == fast.decision_function(x)).all()
    assert slow.fit_notes_ == []


@pytest.mark.slow
def test_importing_the_probe_imports_no_numba() -> None:
    code = "import sys, fieldmark.probes.svm; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
