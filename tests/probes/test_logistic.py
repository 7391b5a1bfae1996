from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fieldmark.errors import UsageError
from fieldmark.probes import load_probe
from fieldmark.probes._gradient.lbfgs import fit_strengths
from fieldmark.probes._select import hold_out
from fieldmark.probes.logistic import Logistic

PROBABILITY = 1e-6
COEFFICIENT = 1e-5
"""absolute, of coefficients whose largest is near 1"""


def behaviour(
    n: int = 240, dim: int = 12, classes: int = 4, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Unbalanced classes, columns of very different size, far from zero."""
    random = np.random.default_rng(seed)
    code = random.choice(
        classes, n, p=np.arange(1, classes + 1) ** 2 / np.sum(np.arange(1, classes + 1) ** 2)
    )
    centres = np.random.default_rng(7).normal(size=(classes, dim))
    return (centres[code] + random.normal(size=(n, dim))) * np.logspace(-1, 1, dim) + 3, code


def theirs(C: float, class_weight: str | None) -> LogisticRegression:
    return LogisticRegression(
        C=C, class_weight=class_weight, solver="newton-cholesky", tol=1e-12, max_iter=1000
    )


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("class_weight", ["balanced", None])
@pytest.mark.parametrize("standardise", [False, True])
def test_equals_scikit_learn(
    classes: int, C: float, class_weight: str | None, standardise: bool
) -> None:
    x, code = behaviour(classes=classes)
    labels = np.array(["walk", "graze", "run", "trot"])[code]
    queries, _ = behaviour(classes=classes, seed=1)
    settings = {"class_weight": class_weight, "standardise": standardise}
    ours = Logistic(C=C, tol=1e-9, **settings).fit(x, labels)
    told = Logistic(C=C, **settings).fit(x, labels)
    rival = theirs(C, class_weight)
    if standardise:
        pipeline = make_pipeline(StandardScaler(), rival).fit(x, labels)
        scale = pipeline[0].scale_
    else:
        pipeline, scale = rival.fit(x, labels), np.ones(x.shape[1])
    assert ours.fit_notes_ == []
    np.testing.assert_allclose(
        ours.predict_proba(queries), pipeline.predict_proba(queries), atol=PROBABILITY
    )
    assert (told.predict(queries) == pipeline.predict(queries)).all()
    np.testing.assert_allclose(told.predict_proba(x), pipeline.predict_proba(x), atol=told.tol)
    np.testing.assert_allclose(ours.coef_ * scale, rival.coef_, atol=COEFFICIENT)
    lead = pipeline.decision_function(queries)
    np.testing.assert_allclose(ours.decision_function(queries), lead, atol=1e-4)


def test_kabr_recipe_by_the_usual_solver() -> None:
    """LogisticRegression's own solver, lbfgs, given time to arrive."""
    x, code = behaviour(n=400, classes=8)
    rival = LogisticRegression(class_weight="balanced", tol=1e-10, max_iter=100_000).fit(x, code)
    ours = Logistic(tol=1e-9).fit(x, code)
    np.testing.assert_allclose(ours.predict_proba(x), rival.predict_proba(x), atol=1e-4)
    assert (ours.predict(x) == rival.predict(x)).all()


def test_float32_features_are_fitted_in_float64() -> None:
    x, code = behaviour()
    short = x.astype(np.float32)
    ours = Logistic(tol=1e-9).fit(short, code)
    expected = theirs(1.0, "balanced").fit(short.astype(np.float64), code).predict_proba(x)
    np.testing.assert_allclose(ours.predict_proba(x), expected, atol=PROBABILITY)


def test_features_far_from_zero_and_constant_ones() -> None:
    x, code = behaviour()
    plain = Logistic(tol=1e-9).fit(x, code).predict_proba(x)
    far = np.concatenate([x + 1e6, np.full((len(x), 1), 7.0)], axis=1)
    np.testing.assert_allclose(
        Logistic(tol=1e-9).fit(far, code).predict_proba(far), plain, atol=1e-5
    )


@pytest.mark.slow
def test_it_needs_no_torch() -> None:
    code = (
        "import sys; from fieldmark.probes import load_probe; "
        "p = load_probe('logistic', {'C': [1.0, 10.0]}).fit([[0.0], [1], [2], [3]], [0, 0, 1, 1]); "
        "assert p.predict([[0.0], [3.0]]).tolist() == [0, 1]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_best_strength_is_chosen_and_fitted_to_all_rows() -> None:
    x, code = behaviour(n=400)
    strengths = [1e-6, 1e-2, 1.0, 100.0]
    probe = Logistic(C=strengths, tol=1e-9, select_by="accuracy", holdout=0.3).fit(x, code)
    rows, held = hold_out(code, 0.3, 42)
    scores = [
        theirs(C, "balanced").fit(x[rows], code[rows]).score(x[held], code[held]) for C in strengths
    ]
    assert probe.cv_score_ == max(scores)
    assert strengths[int(np.argmax(scores))] == probe.C_
    alone = theirs(probe.C_, "balanced").fit(x, code)
    np.testing.assert_allclose(probe.predict_proba(x), alone.predict_proba(x), atol=PROBABILITY)


def test_separable_classes_have_an_answer() -> None:
    x = np.array([[-1.0], [1.0]])
    probe = Logistic(C=1e6, tol=1e-9).fit(x, ["a", "b"])
    rival = theirs(1e6, "balanced").fit(x, ["a", "b"])
    np.testing.assert_allclose(probe.coef_, rival.coef_, rtol=1e-4)


def test_features_that_say_nothing_leave_the_prior() -> None:
    code = np.array([0] * 9 + [1] * 3)
    balanced, plain = (
        Logistic(class_weight=weight, tol=1e-9).fit(np.ones((12, 3)), code)
        for weight in ("balanced", None)
    )
    np.testing.assert_allclose(balanced.predict_proba(np.ones((1, 3))), [[0.5, 0.5]], atol=1e-7)
    np.testing.assert_allclose(plain.predict_proba(np.ones((1, 3))), [[0.75, 0.25]], atol=1e-7)


def test_fewer_rows_than_columns() -> None:
    """Solved in the span of the rows, where it is the same problem."""
    x, code = behaviour(n=60, dim=200, classes=3)
    rival = theirs(0.1, "balanced").fit(x, code)
    ours = Logistic(C=0.1, tol=1e-9).fit(x, code)
    np.testing.assert_allclose(ours.coef_, rival.coef_, atol=COEFFICIENT)


@pytest.mark.parametrize("kind", ["relu", "heavy", "massive"])
def test_features_not_made_to_suit(kind: str) -> None:
    """With the default tolerance: the same labels, and log-odds within what it promises."""
    random = np.random.default_rng(3)
    code = random.integers(0, 5, 600)
    x = 0.5 * random.normal(size=(5, 40))[code] + random.normal(size=(600, 40))
    x = x @ random.normal(size=(40, 40)) * np.arange(1, 41) ** -0.5
    if kind == "relu":
        x = np.maximum(x, 0)
    if kind == "heavy":
        x *= np.exp(random.normal(size=(600, 1)))
    if kind == "massive":
        x[:, 3] = 1e4 * (1 + 0.05 * random.normal(size=600))
    for C in (1e-3, 1.0, 1e3):
        ours, exact = (Logistic(C=C, tol=tol).fit(x[:400], code[:400]) for tol in (1e-4, 1e-10))
        assert ours.fit_notes_ == []
        logit, expected = (probe.decision_function(x[:400]) for probe in (ours, exact))
        assert np.abs(logit - expected).max() < 5e-4 * max(1, np.abs(expected).max())
        assert (ours.predict(x[400:]) == exact.predict(x[400:])).mean() >= 0.995
    if kind != "massive":  # scikit-learn itself stops short there
        rival = theirs(1.0, "balanced").fit(x[:400], code[:400])
        exact = Logistic(tol=1e-10).fit(x[:400], code[:400])
        expected = rival.decision_function(x)
        np.testing.assert_allclose(exact.decision_function(x), expected, atol=1e-5)


def test_strengths_of_a_path_are_those_of_fits_from_scratch() -> None:
    x, code = behaviour(n=300)
    weight = np.ones(len(code))
    strengths = [10.0, 1e-4, 1.0]
    for C, fit in zip(strengths, fit_strengths(x, code, weight, strengths, 1e-9, 500), strict=True):
        rival = theirs(C, None).fit(x, code)
        np.testing.assert_allclose(fit.weight_dk.T, rival.coef_, atol=COEFFICIENT)


def test_too_few_iterations_are_told() -> None:
    x, code = behaviour()
    probe = Logistic(max_iter=2).fit(x, code)
    assert probe.n_iter_ == 2
    assert probe.fit_notes_ == ["stopped after 2 iterations, short of the minimum"]


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"C": 0}, "C is 0, expected a number above 0 or a list of them."),
        ({"class_weight": "even"}, "class_weight is 'even', expected one of None, 'balanced'."),
        ({"tol": -1}, "tol is -1, expected a number above 0."),
    ],
)
def test_mistakes_get_one_line(params: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_probe("logistic", params)
    assert str(caught.value) == f"probe 'logistic': {line}"
