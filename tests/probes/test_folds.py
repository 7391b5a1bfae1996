"""Folds against scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from fieldmark.probes import load_probe
from fieldmark.probes._select import hold_out, stratified


@given(
    st.lists(st.integers(0, 7), min_size=10, max_size=80),
    st.integers(2, 6),
)
@pytest.mark.filterwarnings("ignore")
def test_splits_are_those_of_scikit_learn(labels: list[int], folds: int) -> None:
    code = np.array([0] * folds + labels)
    ours = stratified(folds, code)
    theirs = list(StratifiedKFold(folds).split(code[:, None], code))
    assert len(ours) == len(theirs)
    for (train, held), (their_train, their_held) in zip(ours, theirs, strict=True):
        assert (train == their_train).all()
        assert (held == their_held).all()


def bursts(n_units: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bursts of four frames that are all but copies, of classes that hardly differ."""
    random = np.random.default_rng(5)
    unit_n = random.permutation(np.repeat(np.arange(n_units), 4))
    code_u = np.arange(n_units) % 2
    x_ud = 0.3 * code_u[:, None] + random.normal(size=(n_units, 80))
    return x_ud[unit_n] + 0.01 * random.normal(size=(len(unit_n), 80)), code_u[unit_n], unit_n


def test_units_stay_whole_in_folds_and_in_what_is_held_out() -> None:
    _, code_n, unit_n = bursts()
    for rows, held in [*stratified(5, code_n, unit_n), hold_out(code_n, 0.2, 0, unit_n)]:
        assert not set(unit_n[rows]) & set(unit_n[held])
        assert sorted([*rows, *held]) == list(range(len(code_n)))
        assert set(code_n[rows]) == set(code_n[held]) == {0, 1}
    tested = np.concatenate([held for _, held in stratified(5, code_n, unit_n)])
    assert sorted(tested) == list(range(len(code_n)))


def test_a_class_that_lives_in_units_of_others_is_never_held_out_whole() -> None:
    unit_n = np.repeat(np.arange(10), 3)
    code_n = np.where(np.arange(30) % 3 == 0, 2 + unit_n % 2, unit_n % 2)
    for seed in range(20):
        rows, _ = hold_out(code_n, 0.9, seed, unit_n)
        assert set(code_n[rows]) == set(code_n)


@pytest.mark.parametrize("name", ["ridge", "svm", "logistic", "linear", "mlp"])
def test_frames_of_a_burst_do_not_vouch_for_each_other(name: str) -> None:
    """By rows the held-out frames have copies in training, and every setting looks perfect."""
    x, code_n, unit_n = bursts()
    settings: dict[str, Any] = {
        "svm": {"search": 4, "choose": "best"},
        "logistic": {"C": [0.01, 1], "select_by": "accuracy", "holdout": 0.3},
        "linear": {"steps": 200, "holdout": 0.3},
        "mlp": {"learning_rate": [1e-3, 3e-3], "epochs": 60, "holdout": 0.3},
    }.get(name, {})
    by_row = load_probe(name, settings).fit(x, code_n)
    by_unit = load_probe(name, settings).fit(x, code_n, groups=[f"burst {u}" for u in unit_n])
    assert by_row.cv_score_ > 0.95 and by_unit.cv_score_ < 0.9
    alone = load_probe(name, settings).fit(x, code_n, groups=np.arange(len(x)))
    assert alone.cv_score_ == by_row.cv_score_
