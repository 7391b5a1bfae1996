"""The gradient probes on a GPU: the same draws, the same answers but for rounding."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fieldmark.errors import DataError
from fieldmark.probes import load_probe
from fieldmark.probes._gradient.adamw import Training, batches, dropout_mask, halving
from kit.adam import PlainAdam, annealed, halved

torch = pytest.importorskip("torch")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

There = Callable[[np.ndarray], Any]

PROBES: dict[str, dict[str, Any]] = {
    "mlp": {"hidden": 48, "epochs": 9, "halve_every": 4, "learning_rate": [1e-5, 2e-3], "seeds": 2},
    "linear": {"steps": 150, "batch_size": 128, "learning_rates": [1e-5, 1e-2]},
    "logistic": {"C": [1e-4, 1.0]},
}


def birds(n: int = 700, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    code = random.integers(0, 6, n)
    centres = np.random.default_rng(8).normal(size=(6, 20))
    return centres[code] + 1.2 * random.normal(size=(n, 20)) + 1, code


@pytest.fixture(params=["tensors", pytest.param("cuda", marks=needs_cuda)])
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> There:
    """Puts an array where the accelerator is, or takes tensors in main memory for it."""
    if request.param == "cuda":
        return lambda x: torch.from_numpy(x).cuda()
    for module in ("_arrays", "_gradient.probe", "_gradient.lbfgs", "_gradient.adamw"):
        monkeypatch.setattr(f"fieldmark.probes.{module}.on_accelerator", torch.is_tensor)
    return lambda x: torch.from_numpy(x)


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize(
    ("dtype", "close"), [(np.float64, 1e-6), (np.float32, 5e-3)], ids=["double", "single"]
)
def test_gpu_agrees_with_cpu(there: There, name: str, dtype: type, close: float) -> None:
    x, code = birds()
    queries, _ = birds(seed=1)
    x, queries, labels = x.astype(dtype), queries.astype(dtype), np.array(list("fedcba"))[code]
    here = load_probe(name, PROBES[name]).fit(x, labels)
    away = load_probe(name, PROBES[name]).fit(there(x), labels)
    found, expected = away.predict_proba(there(queries)), here.predict_proba(queries)
    assert isinstance(found, np.ndarray) and found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=close)
    chosen = "C_" if name == "logistic" else "learning_rate_"
    assert getattr(here, chosen) == getattr(away, chosen)
    assert here.cv_score_ == pytest.approx(away.cv_score_, abs=0.02)
    answer = away.predict(there(queries))
    assert isinstance(answer, np.ndarray) and (answer == here.predict(queries)).mean() > 0.995
    score = away.predict_score(there(queries))
    np.testing.assert_allclose(score, here.predict_score(queries), atol=close)


def test_traits_with_gaps_agree(there: There) -> None:
    x, code = birds()
    random = np.random.default_rng(3)
    traits = (code[:, None] > np.arange(5)) * 1.0
    traits[random.random(traits.shape) < 0.2] = np.nan
    params = {"hidden": 32, "epochs": 6, "activation": "relu", "pos_weight": "balanced"}
    here, away = (load_probe("mlp", params) for _ in range(2))
    expected = here.fit(x, traits).predict_proba(x)
    np.testing.assert_allclose(
        away.fit(there(x), traits).predict_proba(there(x)), expected, atol=1e-8
    )
    assert away.predict(there(x)).shape == away.predict_score(there(x)).shape == (700, 5)


@pytest.mark.parametrize("name", PROBES)
def test_fitted_there_asked_here(there: There, name: str) -> None:
    x, code = birds()
    probe = load_probe(name, PROBES[name]).fit(there(x), code)
    loaded = pickle.loads(pickle.dumps(probe))
    np.testing.assert_allclose(loaded.predict_proba(x), probe.predict_proba(there(x)), atol=1e-9)
    assert probe.predict(there(x[:0])).shape == probe.predict_score(there(x[:0])).shape == (0,)


@pytest.mark.parametrize("name", PROBES)
def test_edges_on_the_gpu(there: There, name: str) -> None:
    x, code = birds(n=60)
    probe = load_probe(name, PROBES[name])
    assert probe.fit(there(x), np.zeros(60)).predict(there(x)).tolist() == [0] * 60
    assert probe.fit(there(x).bfloat16(), code).predict(there(x).half()).shape == (60,)
    assert np.isfinite(probe.fit(there(np.ones_like(x)), code).predict_score(there(x))).all()
    with pytest.raises(DataError, match="X has 3 features, but .* is expecting 20"):
        probe.predict(there(x[:, :3].copy()))
    with pytest.raises(DataError, match="the training set is empty"):
        probe.fit(there(x[:0]), code[:0])
    x[7, 2] = np.nan
    with pytest.raises(DataError, match=r"1 of 60 rows hold NaN or inf \(first: row 7\)"):
        probe.fit(there(x), code)


@needs_cuda
@pytest.mark.parametrize("name", ["mlp", "linear"])
def test_same_twice_on_the_gpu(name: str) -> None:
    x, code = birds()
    short = torch.from_numpy(x.astype(np.float32)).cuda()
    one, two = (load_probe(name, PROBES[name]).fit(short, code) for _ in range(2))
    assert (one.predict_proba(short) == two.predict_proba(short)).all()


@needs_cuda
def test_masks_and_batches_are_the_same_everywhere() -> None:
    training = Training("mlp", 64, 25, halving(1, 11), hidden=13, dropout=0.3)
    here, away = (batches(np.arange(5, 605), 3, training, device) for device in ("cpu", "cuda"))
    for (row_b, keep_bh), (away_b, away_bh) in zip(here, away, strict=True):
        assert (row_b == away_b.cpu()).all() and (keep_bh == away_bh.cpu()).all()
    for key in (0, 2**63, 2**64 - 1):
        mask = dropout_mask(key, range(3, 90), 7, 0.5, "cuda")
        assert (mask.cpu() == dropout_mask(key, range(3, 90), 7, 0.5, "cpu")).all()


@pytest.mark.parametrize("schedule", ["halved", "annealed"])
def test_the_oracle_itself_equals_torch_optim(schedule: str) -> None:
    first = torch.nn.Linear(5, 4).double()
    second = pickle.loads(pickle.dumps(first))
    if schedule == "halved":
        adam = torch.optim.Adam(first.parameters(), lr=0.1)
        falls = torch.optim.lr_scheduler.StepLR(adam, 3, 0.5)
    else:
        groups = [{"params": [first.weight]}, {"params": [first.bias], "weight_decay": 0.0}]
        adam = torch.optim.AdamW(groups, lr=0.1, weight_decay=0.2)
        falls = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 20, 0.001)
    plain = PlainAdam(list(second.parameters()), 0.0 if schedule == "halved" else 0.2)
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for step in range(20):
        adam.zero_grad()
        for layer in (first, second):
            layer(x).square().sin().mean().backward()
        adam.step()
        falls.step()
        plain.step(halved(0.1, step, 3) if schedule == "halved" else annealed(0.1, step, 20))
    torch.testing.assert_close(first.weight, second.weight, atol=1e-12, rtol=0)
    torch.testing.assert_close(first.bias, second.bias, atol=1e-12, rtol=0)
