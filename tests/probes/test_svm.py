from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.model_selection import ParameterSampler, RandomizedSearchCV, cross_val_predict
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
    ours = SupportVectors(search=15, choose="best").fit(x, y)
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


def test_the_search_of_the_default_is_the_published_one() -> None:
    assert SupportVectors().get_params() == {
        "search": 100,
        "folds": 5,
        "least": 10,
        "choose": "plain_first",
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
    probe = load_probe("svm", {"choose": "best"}).fit(x, y)
    assert isinstance(probe.model_[0], StandardScaler)
    assert probe.fit_notes_ == [] and np.isfinite(probe.cv_score_)
    tried = ParameterSampler(recipe(100).param_distributions, 100, random_state=42)
    strengths = [each["svc__C"] for each in tried]
    assert probe.best_params_["C"] in strengths and len(strengths) == 100
    assert probe.tried_["C"] == pytest.approx(strengths, rel=1e-3)
    assert max(probe.tried_["score"]) == pytest.approx(probe.cv_score_, abs=1e-4)


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
    probe = SupportVectors(search=4, least=0, choose="best").fit(x, y)
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


def plain_or_search(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The rule in ten lines of scikit-learn: the plain machine, unless the search's winner has
    a lead of one standard error among the held-out images that only one of the two gets right.
    """
    plain, search = SVC(kernel="linear", C=1.0), recipe(40).fit(x, y)
    right = [cross_val_predict(each, x, y, cv=5) == y for each in (search.best_estimator_, plain)]
    gained, lost = (right[0] > right[1]).sum(), (right[1] > right[0]).sum()
    is_better = gained > lost and (gained - lost) ** 2 >= gained + lost
    return (search if is_better else plain.fit(x, y)).predict(queries)


@pytest.mark.slow
@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_default_is_plain_unless_the_search_wins(
    is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fieldmark.probes.svm.probe.has_numba", lambda: is_compiled)
    machines = []
    for seed in range(6):
        x, y = (each[::-1] for each in question(12, dim=30, seed=seed))
        x = x * np.logspace(-1.5, 1.5, 30) if seed % 2 else x  # where standardising helps
        queries = np.random.default_rng(seed).normal(size=(40, 30)) * x.std(axis=0)
        ours = SupportVectors(search=40).fit(x, y)
        assert (ours.predict(queries) == plain_or_search(x.astype(float), y, queries)).all()
        assert np.isfinite(ours.cv_score_)
        machines.append(ours.chosen_["machine"])
        assert any("plain SVM: the best of 40" in note for note in ours.fit_notes_) == (
            machines[-1] == "plain"
        )
    assert set(machines) == {"plain", "search"}


def test_nothing_is_searched_below_ten_images() -> None:
    """small-data-metrics' recipe: a plain linear SVC on the features as they come."""
    for n_each in (1, 2, 4):
        x, y = question(n_each)
        theirs = SVC(kernel="linear").fit(x.astype(float), y)
        for choose in ("plain_first", "best"):
            ours = SupportVectors(choose=choose).fit(x, y)
            assert ours.fit_notes_ == ["fewer than 10 images: no search, one plain SVM"]
            assert (ours.predict(x + 1) == theirs.predict(x.astype(float) + 1)).all()
    assert np.isfinite(SupportVectors(search=4).fit(*question(5)).cv_score_)
