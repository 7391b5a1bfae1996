from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fieldmark.probes.ridge import Ridge


def long_tail(
    n: int = 300, dim: int = 12, noise: float = 1.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, 9)
    code = random.choice(8, n, p=share / share.sum())
    centres = np.random.default_rng(99).normal(size=(8, dim))
    return centres[code] + noise * random.normal(size=(n, dim)), code * 5 + 100


@pytest.mark.parametrize(
    ("select_by", "scoring"),
    [
        ("accuracy", "accuracy"),
        (
            "macro_f1",
            make_scorer(lambda t, p: f1_score(t, p, labels=np.unique(t), average="macro")),
        ),
        ("macro_accuracy", "balanced_accuracy"),
    ],
)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.filterwarnings("ignore:y_pred contains classes")
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_equals_the_scikit_learn_grid(
    select_by: str, scoring: Any, class_weight: str | None
) -> None:
    x, y = long_tail()
    y[:2] = 999  # a class that most folds lack
    queries, _ = long_tail(seed=1)
    alphas = [2.0**power for power in range(-2, 9)]
    theirs = GridSearchCV(
        make_pipeline(StandardScaler(), RidgeClassifier(class_weight=class_weight)),
        {"ridgeclassifier__alpha": alphas},
        cv=5,
        scoring=scoring,
    ).fit(x, y)
    ours = Ridge(alphas=["2^-2 .. 2^8"], select_by=select_by, class_weight=class_weight).fit(x, y)
    assert ours.alpha_ == theirs.best_params_["ridgeclassifier__alpha"]
    assert ours.cv_score_ == pytest.approx(theirs.best_score_, abs=1e-12)
    assert (ours.predict(queries) == theirs.predict(queries)).all()
    np.testing.assert_allclose(ours.decision_function(queries), theirs.decision_function(queries))


def test_defect_plankton_alpha_chosen_by_accuracy() -> None:
    """What is weighted and reported by class must be chosen by class, where the task says so."""
    x, y = long_tail(n=200, dim=30, noise=2.5)
    chosen = {
        select_by: Ridge(alphas="2^0 .. 2^10", select_by=select_by).fit(x, y).alpha_
        for select_by in ("accuracy", "macro_f1")
    }
    assert chosen["macro_f1"] < chosen["accuracy"]


def test_a_rare_class_does_not_stop_the_search_nor_warn() -> None:
    x, y = long_tail()
    y[0] = 999
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for select_by in ("accuracy", "macro_accuracy", "macro_f1"):
            probe = Ridge(alphas="2^-2 .. 2^2", select_by=select_by).fit(x, y)
            assert np.isfinite(probe.cv_score_)
            assert (
                probe.fit_notes_[0] == "1 of 9 classes has fewer than 5 images: not in every fold"
            )


def test_nothing_to_hold_out() -> None:
    probe = Ridge(alphas=[2**-15, 0.5, 4, 1024]).fit([[0.0], [1.0], [3.0]], ["a", "b", "c"])
    assert probe.alpha_ == 0.5
    assert probe.fit_notes_[0].startswith("too few images")
    assert Ridge(alphas=[7]).fit([[0.0], [1.0]], [0, 1]).fit_notes_ == []


def test_features_without_spread_are_no_harm() -> None:
    x, y = long_tail()
    x[:, 3] = 0.1
    x[:, 4] = 0.0
    probe = Ridge(alphas=[1.0, 2.0]).fit(x, y)
    assert np.isfinite(probe.decision_function(x)).all()


def test_score_is_the_lead() -> None:
    x, y = long_tail()
    probe = Ridge(alphas=[1.0]).fit(x, y)
    value = np.sort(probe.decision_function(x), axis=1)
    np.testing.assert_allclose(probe.predict_score(x), value[:, -1] - value[:, -2])


def test_float32_features_are_solved_in_double() -> None:
    x, y = long_tail()
    single = x.astype(np.float32)
    x_double = single.astype(np.float64)
    ours, exact = (Ridge(alphas="2^-3 .. 2^3").fit(each, y) for each in (single, x_double))
    assert (ours.decision_function(x) == exact.decision_function(x)).all()
