"""The probes on tensors that live on a GPU, against the same probes in main memory.

Everything runs twice: on a GPU where there is one, and in main memory under the pretence that it is
one, with the half-precision product taken in float32 (so that the code is tested everywhere).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fieldmark.errors import DataError
from fieldmark.probes import PROBES, load_probe
from fieldmark.probes.exemplar import Exemplar
from fieldmark.probes.ridge import Ridge

torch = pytest.importorskip("torch")
Move = Callable[[np.ndarray], Any]


@pytest.fixture(params=["cuda", "pretended"])
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Move:
    """Moves an array onto the GPU."""
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no GPU")
        return lambda x: torch.as_tensor(x, device="cuda")
    from fieldmark.probes import _arrays
    from fieldmark.probes.ridge import gpu  # noqa: F401

    pretended = {
        "is_cuda": _arrays.is_tensor,
        "on_accelerator": _arrays.is_tensor,
        "scaled_product": lambda left, right: left.wide.float() @ right.wide.float(),
    }
    for name, module in list(sys.modules.items()):
        for function, stand_in in pretended.items():
            if name.startswith("fieldmark.probes.") and hasattr(module, function):
                monkeypatch.setattr(module, function, stand_in)
    return torch.as_tensor


def rows(
    n: int, dim: int, classes: int, seed: int = 0, spread: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    random, world = np.random.default_rng(seed), np.random.default_rng(99)
    centres = spread * world.normal(size=(classes, dim))
    y = random.integers(0, classes, n)
    x = (centres[y] + random.normal(size=(n, dim))) * np.arange(1, dim + 1) ** -0.4 + 3
    return x.astype(np.float32), y * 7 - 3


@pytest.mark.parametrize("weight", [None, "balanced"])
@pytest.mark.parametrize("select_by", ["accuracy", "macro_f1"])
def test_ridge_is_the_same(there: Move, weight: str | None, select_by: str) -> None:
    x, y = rows(700, 32, 12, spread=0.4)
    x[:, 5], x[:, 6] = 2.5, 0
    query, _ = rows(300, 32, 12, seed=1, spread=0.4)
    ours = Ridge(class_weight=weight, select_by=select_by).fit(there(x), y)
    home = Ridge(class_weight=weight, select_by=select_by).fit(x, y)
    assert ours.alpha_ == home.alpha_
    assert ours.cv_score_ == pytest.approx(home.cv_score_, abs=1e-12)
    assert (ours.predict(there(query)) == home.predict(query)).all()
    np.testing.assert_allclose(
        ours.predict_score(there(query)), home.predict_score(query), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(ours.model_.coef_dc, home.model_.coef_dc, rtol=1e-6, atol=1e-9)


def test_only_probes_that_gain_from_a_gpu_take_tensors() -> None:
    names = [name for name in PROBES.names() if name not in PROBES.added]
    takes = {name for name in names if getattr(load_probe(name), "takes_tensors", False)}
    assert takes == {"exemplar", "linear", "mlp", "ridge"}


def test_ridge_with_a_class_in_one_fold_only_two_classes_and_few_rows(there: Move) -> None:
    x, y = rows(400, 16, 8, spread=0.5)
    y[:2] = 999
    for some, label in ((slice(None), y), (slice(None), y > 10), (slice(0, 12), y > 10)):
        ours = Ridge(alphas=[0.1, 1, 10]).fit(there(x[some]), label[some])
        home = Ridge(alphas=[0.1, 1, 10]).fit(x[some], label[some])
        assert ours.alpha_ == home.alpha_
        assert (ours.predict(there(x)) == home.predict(x)).all()
        np.testing.assert_allclose(ours.predict_score(there(x)), home.predict_score(x), rtol=1e-5)


@pytest.mark.parametrize("is_unit", [False, True])
def test_exemplar_finds_the_same_image(
    there: Move, is_unit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fieldmark.probes.exemplar.probe.DOUBLE_ROWS", 100)
    x, y = rows(260, 32, 30, spread=1.5)
    x = 3 * x / np.linalg.norm(x, axis=1, keepdims=True) if is_unit else x
    ours, home = Exemplar().fit(there(x), y), Exemplar().fit(x, y)
    (best, score), (best_home, score_home) = (
        probe.retrieve_leave_one_out() for probe in (ours, home)
    )
    assert (best == best_home).mean() >= 0.995
    np.testing.assert_allclose(score, score_home, atol=5e-3)
    assert (ours.predict(there(x[:50])) == home.predict(x[:50])).mean() >= 0.98


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
