"""Values kept as text come back as they were."""

from __future__ import annotations

import json
import math
from collections import Counter, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.errors import UsageError
from fieldmark.lmms.score.encoding import decode, encode, plain_json

KEYS = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.tuples(st.integers())
PLAIN = KEYS | st.floats(allow_nan=False) | st.binary(max_size=4)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=10,
)


def _typed(value):
    """With types, which == does not tell apart."""
    return repr(value)


@given(VALUES)
def test_values_come_back(value):
    back = decode(encode(value))
    assert back == value and _typed(back) == _typed(value)


@given(VALUES)
def test_encoded_is_json_in_utf_8(value):
    encode(value).encode()
    json.loads(encode(value))


def test_sets_come_back():
    assert decode(encode({"a": {1, "x", (2,)}, "b": set()})) == {"a": {1, "x", (2,)}, "b": set()}


def test_marks_of_a_users_own_keys_stay():
    value = {"~tuple": [1], "~": {"~dict": 2}}
    assert decode(encode(value)) == value


def test_nan_and_numbers_of_numpy():
    assert math.isnan(decode(encode(np.float32("nan"))))
    back = decode(encode({"a": np.float64(0.1), "b": np.int64(3), "c": np.bool_(True)}))
    assert back == {"a": 0.1, "b": 3, "c": True}
    assert [type(each) for each in back.values()] == [float, int, bool]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([True, False]),
        np.array(["fox", "ox"]),
        np.array([1.0, np.nan, np.inf]),
        np.zeros((0, 3)),
        np.array(7, np.int16),
        np.array([None, "x", 1.5], dtype=object),
    ],
)
def test_arrays_keep_type_and_shape(array):
    back = decode(encode(array))
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def test_kinds_of_mappings_and_tuples_become_plain():
    pair = namedtuple("pair", "a b")
    assert decode(encode(Counter("aab"))) == {"a": 2, "b": 1}
    assert decode(encode(pair(1, 2))) == (1, 2)


def test_what_cannot_be_kept_is_told_with_its_place():
    with pytest.raises(UsageError, match=r"^value\['doc'\]\[1\] is a builtins.object, which"):
        encode({"doc": [1, object()]})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(UsageError, match="nested deeper than"):
        encode(endless)
    with pytest.raises(UsageError, match="'~later'"):
        decode('{"~later": 1}')


def test_half_a_surrogate_pair_is_kept():
    assert decode(encode("a\ud800")) == "a\ud800"


def test_plain_json_is_what_anyone_reads():
    value = {1: (np.float32(0.5), math.nan), "a": {"x"}, "b": object, "c": np.array([1, 2])}
    assert json.loads(plain_json(value)) == {
        "1": [0.5, None],
        "a": ["x"],
        "b": "<class 'object'>",
        "c": [1, 2],
    }
