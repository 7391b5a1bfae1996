"""Labels and scores out of one pass over the rows: the same as from two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from fieldmark.probes import exemplar, load_probe, neighbours, simpleshot
from fieldmark.probes._gradient.probe import Networks
from fieldmark.probes.ridge import Ridge
from fieldmark.probes.ridge.system import LinearModel
from fieldmark.probes.svm import SupportVectors


def rows(classes: int, kind: str = "plain", n: int = 90) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(classes)
    code = np.arange(n) % classes
    x = random.normal(size=(classes, 6))[code] + random.normal(size=(n, 6))
    query = 1.5 * random.normal(size=(70, 6))
    if kind == "constant":
        x, query = np.ones_like(x), np.ones_like(query)
    if kind == "rounded":
        x, query = np.round(x), np.concatenate([np.round(query), np.round(x)])
    return x, np.array([f"c{each}" for each in code]), query


@pytest.mark.parametrize("kind", ["plain", "constant", "rounded"])
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "liblinear"])
def test_svm_labels_and_leads_are_scikit_learns(kernel: str, classes: int, kind: str) -> None:
    """libsvm counts votes, its first class wins a tie, and a value of 0 is the second class's."""
    x, y, query = rows(classes, kind)
    if kernel == "liblinear":
        ours = SupportVectors(search=0, solver="liblinear").fit(x, y)
        theirs: Any = LinearSVC(tol=1e-5, dual=False).fit(x, y)
    else:
        ours = SupportVectors(search=0, kernel=kernel).fit(x, y)
        theirs = SVC(kernel=kernel).fit(x, y)
    label, score = ours.predict_with_score(query)
    value = theirs.decision_function(query)
    assert (label == theirs.predict(query)).all()
    assert (ours.decision_function(query) == value).all()
    if classes == 2:
        assert (score == np.abs(value)).all()
        return
    own = np.searchsorted(theirs.classes_, label)[:, None]
    others = np.where(np.arange(classes) == own, -np.inf, value).max(axis=1)
    assert (score == np.take_along_axis(value, own, 1)[:, 0] - others).all()


@pytest.mark.slow
@pytest.mark.parametrize("search", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_a_searched_svm_predicts_as_scikit_learns(search: int) -> None:
    x, y, query = rows(4)
    ours = SupportVectors(search=search).fit(x, y)
    theirs = make_pipeline(StandardScaler(), SVC(**ours.best_params_)).fit(x, y)
    assert (ours.predict(query) == theirs.predict(query)).all()
    assert (ours.decision_function(query) == theirs.decision_function(query)).all()


@pytest.mark.parametrize("kind", ["plain", "constant", "rounded"])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_ridge_leads_are_those_of_its_values(classes: int, kind: str) -> None:
    x, y, query = rows(classes, kind)
    probe = Ridge(alphas=1).fit(x, y)
    label, score = probe.predict_with_score(query)
    value = probe.decision_function(query)
    if classes == 2:
        assert (label[value != 0] == np.where(value > 0, "c1", "c0")[value != 0]).all()
        assert (score == np.abs(value)).all()
        return
    assert (label == probe.classes_[value.argmax(axis=1)]).all()
    best = np.sort(value, axis=1)
    assert (score == best[:, -1] - best[:, -2]).all()


@pytest.mark.parametrize("classes", [1, 2, 7])
def test_simpleshot_by_brute_force(classes: int) -> None:
    x, y, query = rows(classes)
    probe = load_probe("simpleshot").fit(x, y)
    label, score = probe.predict_with_score(query)
    square = ((query[:, None] - probe.means_) ** 2).sum(axis=2)
    assert (label == probe.classes_[square.argmin(axis=1)]).all()
    near = np.sort(square, axis=1)
    lead = (near[:, 1] - near[:, 0]) / 2 if classes > 1 else np.zeros(len(query))
    np.testing.assert_allclose(score, lead, rtol=1e-12)


WORK: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "neighbours": (neighbours, "nearest", {"k": 3}),
    "simpleshot": (simpleshot, "nearest", {}),
    "exemplar": (exemplar, "retrieve", {}),
    "ridge": (LinearModel, "_blocks", {"alphas": 1}),
    "logistic": (Networks, "logits", {}),
    "linear": (Networks, "logits", {"learning_rates": 1e-3, "weight_decays": 0, "steps": 9}),
    "mlp": (Networks, "logits", {"epochs": 2}),
}


@pytest.mark.parametrize("name", sorted(WORK))
def test_defect_labels_and_scores_are_one_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run asked `predict`, then `predict_score`, and both did the whole work."""
    owner, attribute, settings = WORK[name]
    x, y, query = rows(3)
    probe = load_probe(name, settings).fit(x, y)
    expected = probe.predict(query), probe.predict_score(query)
    calls, inner = [], getattr(owner, attribute)

    def counted(*args: Any, **more: Any) -> Any:
        calls.append(1)
        return inner(*args, **more)

    monkeypatch.setattr(owner, attribute, counted)
    label, score = probe.predict_with_score(query)
    assert len(calls) == 1
    assert (label == expected[0]).all() and (score == expected[1]).all()


def test_traits_come_in_one_pass_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, query = rows(3)
    trait = np.stack([y == "c0", y == "c1"], axis=1).astype(float)
    probe = load_probe("mlp", {"epochs": 2, "threshold": 0.4}).fit(x, trait)
    prob = probe.predict_proba(query)
    answer, score = probe.predict_with_score(query)
    assert (answer == (prob > 0.4)).all() and answer.dtype == np.int64
    assert (score == np.where(prob > 0.4, prob, 1 - prob)).all()
