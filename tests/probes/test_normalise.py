from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler, normalize

from fieldmark.errors import DataError, UsageError
from fieldmark.probes import Normaliser


def data(seed: int = 0, n: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).normal(loc=2, size=(n, 5))


def test_newt_recipe() -> None:
    train, test = data(0), data(1)
    ours = Normaliser(["l2", "centre", "l2"]).fit(train).transform(test)
    unit_train, unit_test = normalize(train), normalize(test)
    expected = normalize(unit_test - unit_train.mean(axis=0))
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_rare_species_recipe() -> None:
    train, test = data(0), data(1)
    expected = normalize(test - train.mean(axis=0))
    np.testing.assert_allclose(
        Normaliser(["centre", "l2"]).fit(train).transform(test), expected, rtol=1e-12
    )


def test_standardise_equals_scikit_learn() -> None:
    train, test = data(0), data(1)
    train[:, 1], test[:, 1] = 0.1, 0.3
    expected = StandardScaler().fit(train).transform(test)
    ours = Normaliser(["standardise"]).fit(train).transform(test)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-14)


def test_no_steps_change_nothing() -> None:
    x = data()
    assert (Normaliser().fit(x).transform(x) == x).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_rows_and_constant_columns_survive(dtype: type) -> None:
    x = data().astype(dtype)
    x[:, 2] = 0.1
    x[3] = 0
    with np.errstate(all="raise"):
        for steps in (["l2"], ["centre", "l2"], ["standardise"], ["l2", "standardise", "l2"]):
            changed = Normaliser(steps).fit(x).transform(x)
            assert changed.dtype == dtype
            assert np.isfinite(changed).all()
    assert (Normaliser(["l2"]).fit(x).transform(x)[3] == 0).all()
    constant = Normaliser(["standardise"]).fit(x[4:])
    assert (constant.transform(x[4:])[:, 2] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_model_stays_constant(dtype: type) -> None:
    """Rounding left by centring must not be blown up to unit length."""
    x = np.full((37, 4), 0.1, dtype)
    assert (Normaliser(["l2", "centre", "l2"]).fit(x).transform(x) == 0).all()


def test_test_rows_never_enter_the_fit() -> None:
    fitted = Normaliser(["l2", "centre", "standardise"]).fit(data(0))
    alone = fitted.transform(data(1)[:1])
    among = fitted.transform(np.concatenate([data(1)[:1], 1e6 * data(2)]))
    assert (alone[0] == among[0]).all()


@given(st.lists(st.sampled_from(["l2", "centre", "standardise"]), max_size=4), st.integers(0, 99))
def test_row_by_row_is_the_same(steps: list[str], seed: int) -> None:
    fitted = Normaliser(steps).fit(data(seed))
    x = data(seed + 1)
    rows = np.concatenate([fitted.transform(each[None]) for each in x])
    np.testing.assert_allclose(rows, fitted.transform(x), rtol=1e-13)


def test_input_is_left_alone() -> None:
    x = data()
    before = x.copy()
    Normaliser(["l2", "centre", "standardise"]).fit(x).transform(x)
    assert (x == before).all()


def test_mistakes_get_one_line() -> None:
    with pytest.raises(UsageError, match=r"step 'center' is not known. Did you mean 'centre'\?"):
        Normaliser(["center"])
    with pytest.raises(UsageError, match=r"normalise is 'l2': expected a list such as \[l2\]"):
        Normaliser("l2")
    with pytest.raises(ValueError, match="not fitted yet"):
        Normaliser(["l2"]).transform(data())
    with pytest.raises(DataError, match="have 3 columns, the training features had 5"):
        Normaliser(["l2"]).fit(data()).transform(data()[:, :3])
    with pytest.raises(DataError, match="the training set is empty"):
        Normaliser(["l2"]).fit(data()[:0])
