"""By which score is a setting chosen, and what is told of the choice?"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score

from fieldmark.metrics import load_metric
from fieldmark.probes import load_probe
from fieldmark.probes._select import SELECT_BY, edge_notes, load_scorer

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=40)


@given(PAIRS)
@pytest.mark.filterwarnings("ignore:y_pred contains classes")
@pytest.mark.filterwarnings("ignore:A single label")
def test_defect_one_name_is_one_formula(pairs: list[tuple[int, int]]) -> None:
    """`select_by: macro_f1` averaged over predicted classes too, `metric: macro_f1` did not."""
    true, said = np.array(pairs).T
    for name in SELECT_BY:
        assert load_scorer(name)(true, said) == load_metric(name)(true, said)
    f1 = f1_score(true, said, labels=np.unique(true), average="macro", zero_division=0)
    assert load_scorer("macro_f1")(true, said) == f1, "to the last bit, so that ties fall alike"
    assert load_scorer("accuracy")(true, said) == np.mean(true == said)
    balanced = balanced_accuracy_score(true, said)
    assert load_scorer("macro_accuracy")(true, said) == pytest.approx(balanced, abs=1e-15)


@pytest.mark.parametrize(
    ("grid", "score", "note"),
    [
        ([1, 4, 16], [0.1, 0.2, 0.3], "x = 16 is the largest of its grid: a larger one"),
        ([16, 4, 1], [0.1, 0.2, 0.3], "x = 1 is the smallest of its grid: a smaller one"),
        ([1, 4, 16], [0.3, 0.4, 0.3], ""),
        ([1, 4, 16], [0.4, 0.4, 0.3], ""),  # a plateau that reaches the edge
        ([1, 4], [0.1, 0.2], ""),  # either is at an edge
        ([4, 4, 4], [0.1, 0.2, 0.2], ""),
    ],
)
def test_a_choice_at_the_edge_of_its_grid(grid: list[float], score: list[float], note: str) -> None:
    told = edge_notes("x", grid, np.array(score))
    assert told == ([f"{note} may be better"] if note else [])


def noisy(n_each: int = 12, classes: int = 4, dim: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """So few images of so many features that the strongest penalty is best."""
    random = np.random.default_rng(3)
    code = np.repeat(np.arange(classes), n_each)
    return random.normal(size=(classes, dim))[code] * 0.4 + random.normal(
        size=(len(code), dim)
    ), code


@pytest.mark.parametrize(
    ("name", "settings", "chosen"),
    [
        ("ridge", {"alphas": "2^-15 .. 2^4"}, {"alpha", "cv_score"}),
        ("svm", {"search": 5}, {"machine", "kernel", "C", "gamma", "cv_score"}),
        ("logistic", {"C": [1e-6, 1e-2, 1, 100]}, {"C", "cv_score"}),
        ("linear", {"steps": 30}, {"learning_rate", "weight_decay", "cv_score"}),
        ("mlp", {"learning_rate": [1e-4, 1e-3], "epochs": 3}, {"learning_rate", "cv_score"}),
    ],
)
def test_what_a_search_chose_is_kept_as_plain_values(
    name: str, settings: dict[str, Any], chosen: set[str]
) -> None:
    x, y = noisy()
    probe = load_probe(name, settings).fit(x, y)
    assert chosen - {"gamma"} <= set(probe.chosen_) <= chosen
    assert json.loads(json.dumps(probe.chosen_)) == probe.chosen_
    assert probe.chosen_["cv_score"] == probe.cv_score_
    assert all(isinstance(note, str) for note in probe.fit_notes_)


def test_alpha_at_the_end_of_its_grid_is_told() -> None:
    x, y = noisy()
    probe = load_probe("ridge", {"alphas": "2^-15 .. 2^4"}).fit(x, y)
    assert probe.chosen_["alpha"] == 16
    assert probe.fit_notes_ == ["alpha = 16 is the largest of its grid: a larger one may be better"]
    wider = load_probe("ridge", {"alphas": "2^-15 .. 2^20"}).fit(x, y)
    assert 16 < wider.chosen_["alpha"] < 2**20 and wider.fit_notes_ == []


@pytest.mark.parametrize("name", ["ridge", "svm", "logistic", "linear", "mlp"])
def test_what_was_given_was_not_chosen(name: str) -> None:
    given: dict[str, Any] = {
        "ridge": {"alphas": 1},
        "svm": {"search": 0},
        "linear": {"learning_rates": 1e-3, "weight_decays": 0, "steps": 5},
        "mlp": {"epochs": 2},
    }.get(name, {})
    x, y = noisy()
    probe = load_probe(name, given).fit(x, y)
    assert (probe.chosen_, probe.fit_notes_) == ({}, [])
    alone = load_probe(name, given).fit(x, np.zeros(len(y)))
    assert alone.fit_notes_ == ["one class only: nothing to learn, so every answer is this class"]


def test_classes_that_a_search_cannot_judge_are_told() -> None:
    x, y = noisy()
    y[0] = 9
    probe = load_probe("logistic", {"C": [0.1, 1]}).fit(x, y)
    assert probe.fit_notes_ == ["1 of 5 classes has one image: none of them held out"]
    trait = np.stack([y % 2 == 0, np.arange(len(y)) == 0], axis=1).astype(float)
    probe = load_probe("mlp", {"learning_rate": [1e-3, 1e-2], "epochs": 2}).fit(x, trait)
    assert probe.fit_notes_ == ["1 of 2 traits have only one answer in the held-out images"]
    assert load_probe("neighbours", {"k": 99}).fit(x, y).fit_notes_ == [
        "k = 99 with 48 training images: all of them vote"
    ]
    assert load_probe("neighbours", {"k": 48}).fit(x, y).fit_notes_ == []
