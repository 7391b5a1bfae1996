"""Folds against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from fieldmark.probes._select import stratified


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
