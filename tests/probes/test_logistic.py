from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fieldmark.errors import UsageError
from fieldmark.probes import _logistic_fit, load_probe
from fieldmark.probes._holdout import hold_out
from fieldmark.probes._lbfgs import minimise
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
    ours = Logistic(C=C, class_weight=class_weight, standardise=standardise).fit(x, labels)
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
    assert (ours.predict(queries) == pipeline.predict(queries)).all()
    np.testing.assert_allclose(ours.coef_ * scale, rival.coef_, atol=COEFFICIENT)
    lead = pipeline.decision_function(queries)
    np.testing.assert_allclose(ours.decision_function(queries), lead, atol=1e-4)


def test_kabr_recipe_by_the_usual_solver() -> None:
    """LogisticRegression's own solver, lbfgs, given time to arrive."""
    x, code = behaviour(n=400, classes=8)
    rival = LogisticRegression(class_weight="balanced", tol=1e-10, max_iter=100_000).fit(x, code)
    ours = Logistic().fit(x, code)
    np.testing.assert_allclose(ours.predict_proba(x), rival.predict_proba(x), atol=1e-4)
    assert (ours.predict(x) == rival.predict(x)).all()


def test_float32_features_are_fitted_in_float64() -> None:
    x, code = behaviour()
    short = x.astype(np.float32)
    ours = Logistic().fit(short, code)
    expected = theirs(1.0, "balanced").fit(short.astype(np.float64), code).predict_proba(x)
    np.testing.assert_allclose(ours.predict_proba(x), expected, atol=PROBABILITY)


def test_blocks_without_a_copy_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, code = behaviour()
    whole = Logistic().fit(x, code)
    monkeypatch.setattr(_logistic_fit, "_COPY_BYTES", 0)
    monkeypatch.setattr(_logistic_fit, "_BLOCK_VALUES", 7 * x.shape[1])
    np.testing.assert_allclose(Logistic().fit(x, code).coef_, whole.coef_, atol=COEFFICIENT)


def test_the_best_strength_is_chosen_and_fitted_to_all_rows() -> None:
    x, code = behaviour(n=400)
    strengths = [1e-6, 1e-2, 1.0, 100.0]
    probe = Logistic(C=strengths, select_by="accuracy", holdout=0.3).fit(x, code)
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
    probe = Logistic(C=1e6).fit(x, ["a", "b"])
    rival = theirs(1e6, "balanced").fit(x, ["a", "b"])
    np.testing.assert_allclose(probe.coef_, rival.coef_, rtol=1e-4)


def test_features_that_say_nothing_leave_the_prior() -> None:
    code = np.array([0] * 9 + [1] * 3)
    balanced, plain = (
        Logistic(class_weight=each).fit(np.ones((12, 3)), code) for each in ("balanced", None)
    )
    np.testing.assert_allclose(balanced.predict_proba(np.ones((1, 3))), [[0.5, 0.5]], atol=1e-7)
    np.testing.assert_allclose(plain.predict_proba(np.ones((1, 3))), [[0.75, 0.25]], atol=1e-7)


def test_too_few_iterations_are_told() -> None:
    x, code = behaviour()
    probe = Logistic(max_iter=2).fit(x, code)
    assert probe.n_iter_ == 2
    assert probe.fit_notes_ == ["stopped after 2 iterations, short of the minimum"]


class TestLbfgs:
    def test_runs_together_equal_runs_alone_and_scipy(self) -> None:
        random = np.random.default_rng(0)
        roots = random.normal(size=(3, 6, 6))
        hills = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(6)
        towards = random.normal(size=(3, 6)) * np.array([[1], [100], [1e-3]])

        def function(chosen: list[int]) -> Any:
            def value(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                bent = np.einsum("sij,sj->si", hills[chosen], point)
                quartic = point**3
                f = (point * bent).sum(axis=1) / 2 + (point**4).sum(axis=1) / 4
                f = f - (towards[chosen] * point).sum(axis=1)
                return f, bent + quartic - towards[chosen]

            return value

        start, ones = np.zeros((3, 6)), np.ones((3, 6))
        together = minimise(function([0, 1, 2]), start, ones, 1e-9, 500)
        assert together.is_converged
        for run in range(3):
            alone = minimise(function([run]), start[:1], ones[:1], 1e-9, 500)
            np.testing.assert_allclose(together.point_sp[run], alone.point_sp[0], atol=1e-8)
            scipy = minimize(
                lambda p, run=run: tuple(each[0] for each in function([run])(p[None])),
                np.zeros(6),
                jac=True,
                method="BFGS",
                options={"gtol": 1e-9},
            )
            np.testing.assert_allclose(together.point_sp[run], scipy.x, atol=1e-6)


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
