from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.model_selection import ParameterSampler, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from fieldmark.probes import load_probe
from fieldmark.probes.svm import SupportVectors


def question(n_each: int, dim: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.repeat(["neg", "pos"], n_each)
    shift = np.where(y == "pos", 0.7, 0.0)[:, None] * (np.arange(dim) < 4)
    x = (random.normal(size=(2 * n_each, dim)) + shift) * np.logspace(-1, 1, dim)
    return x.astype(np.float32), y


def recipe(n_iter: int, folds: int = 5) -> RandomizedSearchCV:
    """As facts/datasets-and-protocols.md states it for NeWT (b) and Ages."""
    return RandomizedSearchCV(
        make_pipeline(StandardScaler(), SVC()),
        {
            "svc__C": loguniform(a=1e-3, b=1e1),
            "svc__kernel": ["rbf", "linear", "sigmoid", "poly"],
            "svc__gamma": loguniform(a=1e-4, b=1e-3),
        },
        n_iter=n_iter,
        cv=folds,
        random_state=42,
    )


@pytest.mark.parametrize("labels", [2, 4])
def test_search_equals_the_recipe(labels: int) -> None:
    x, y = question(40)
    if labels == 4:
        y = np.array([f"{each}{i % 2}" for i, each in enumerate(y)])
    queries, _ = question(60, seed=1)
    ours = SupportVectors(search=15).fit(x, y)
    theirs = recipe(15).fit(x.astype(np.float64), y)
    assert ours.best_params_ == {
        name.removeprefix("svc__"): value for name, value in theirs.best_params_.items()
    }
    assert ours.cv_score_ == theirs.best_score_
    assert (ours.predict(queries) == theirs.predict(queries)).all()
    np.testing.assert_allclose(
        ours.decision_function(queries),
        theirs.decision_function(queries.astype(np.float64)),
    )
    assert ours.fit_notes_ == []


def test_the_default_is_the_published_search() -> None:
    assert SupportVectors().get_params() == {
        "search": 100,
        "folds": 5,
        "kernel": "linear",
        "C": 1.0,
        "solver": "libsvm",
        "seed": 42,
        "n_jobs": 1,
    }


@pytest.mark.slow
def test_defect_init_svc_minus_one_skips_scaling_and_search() -> None:
    """`n_train = -1` means all images: standardised, and searched 100 times over 5 folds."""
    x, y = question(20, dim=3)
    probe = load_probe("svm").fit(x, y)
    assert isinstance(probe.model_[0], StandardScaler)
    assert probe.fit_notes_ == [] and np.isfinite(probe.cv_score_)
    tried = ParameterSampler(recipe(100).param_distributions, 100, random_state=42)
    strengths = [each["svc__C"] for each in tried]
    assert probe.best_params_["C"] in strengths and len(strengths) == 100


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_plain_machine(kernel: str) -> None:
    x, y = question(30)
    ours = SupportVectors(search=0, kernel=kernel, C=2.0).fit(x, y)
    theirs = SVC(kernel=kernel, C=2.0).fit(x.astype(np.float64), y)
    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x))
    np.testing.assert_allclose(ours.predict_score(x), np.abs(theirs.decision_function(x)))
    assert np.isnan(ours.cv_score_) and ours.fit_notes_ == []


def test_visipedia_machine() -> None:
    x, y = question(30)
    ours = SupportVectors(search=0, solver="liblinear").fit(x, y)
    theirs = LinearSVC(C=1.0, tol=1e-5, dual=False).fit(x.astype(np.float64), y)
    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x))


@pytest.mark.parametrize(
    ("sizes", "note"),
    [
        ((9, 1), "too few images to hold any out: no search, the default setting"),
        ((1, 1), "too few images to hold any out: no search, the default setting"),
        ((9, 3), "3 folds instead of 5: too few images"),
        ((9, 5), ""),
        ((9, 8, 1), "1 of 3 classes has fewer than 5 images: not in every fold"),
        ((9, 8, 1, 4), "2 of 4 classes have fewer than 5 images: not in every fold"),
    ],
)
def test_few_images(sizes: tuple[int, ...], note: str) -> None:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(len(sizes)), sizes)
    x = random.normal(size=(len(y), 3)) + 5 * y[:, None]
    probe = SupportVectors(search=4).fit(x, y)
    assert [each for each in probe.fit_notes_ if "grid" not in each] == [note] * bool(note)
    assert np.isnan(probe.cv_score_) == note.startswith("too few")
    assert np.isfinite(probe.cv_score_) or probe.best_params_ == {}
    assert (probe.predict(x) == y).mean() > 0.8


def test_score_of_many_classes_is_the_lead() -> None:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    x = random.normal(size=(80, 3)) + 3 * np.eye(4, 3)[y]
    probe = SupportVectors(search=0).fit(x, y)
    value = np.sort(probe.decision_function(x), axis=1)
    lead, score = value[:, -1] - value[:, -2], probe.predict_score(x)
    assert (np.isclose(score, lead) | (score <= 0)).all()
    assert np.isclose(score, lead).mean() > 0.9
