"""Features that are tensors, on a GPU or in main memory, for the probes that compute in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fieldmark.errors import DataError
from fieldmark.probes import PROBES, load_probe

torch = pytest.importorskip("torch")
Move = Callable[[np.ndarray], Any]


@pytest.fixture(params=["cuda", "cpu"])
def there(request: pytest.FixtureRequest) -> Move:
    """Makes a tensor of an array."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return lambda x: torch.as_tensor(x, device=request.param)


def rows(n: int, dim: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = random.integers(0, classes, n)
    x = random.normal(size=(classes, dim))[y] + random.normal(size=(n, dim)) + 3
    return x.astype(np.float32), y * 7 - 3


def test_only_gradient_probes_take_tensors() -> None:
    names = [name for name in PROBES.names() if name not in PROBES.added]
    takes = {name for name in names if getattr(load_probe(name), "takes_tensors", False)}
    assert takes == {"linear", "logistic", "mlp"}


@pytest.mark.parametrize("name", ["ridge", "simpleshot", "neighbours", "exemplar"])
class TestEachProbe:
    def test_features_of_both_kinds_may_meet(self, there: Move, name: str) -> None:
        x, y = rows(80, 12, 6)
        home = load_probe(name).fit(x, y)
        expected = home.predict(x[:40])
        assert (load_probe(name).fit(there(x), y).predict(x[:40]) == expected).all()
        assert (home.predict(there(x[:40])) == expected).all()

    def test_half_precision_features_are_taken(self, there: Move, name: str) -> None:
        x, y = rows(80, 12, 6)
        half = there(x).bfloat16()
        expected = load_probe(name).fit(half.float(), y).predict(half.float())
        assert (load_probe(name).fit(half, y).predict(half) == expected).all()

    def test_bad_features_are_named_by_row(self, there: Move, name: str) -> None:
        x, y = rows(60, 6, 3)
        x[7, 2] = np.nan
        with pytest.raises(DataError, match=r"1 of 60 rows hold NaN or inf \(first: row 7\)"):
            load_probe(name).fit(there(x), y)

    def test_one_class_is_that_class(self, there: Move, name: str) -> None:
        probe = load_probe(name).fit(there(np.eye(4, dtype=np.float32)), ["owl"] * 4)
        assert probe.predict(there(np.zeros((2, 4), np.float32))).tolist() == ["owl", "owl"]
