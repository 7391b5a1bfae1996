"""How much sooner does a gradient probe train on features that stay where they are?

Two trainings on float32 features, smaller ones where there is no GPU: the trait network of FishNet
(75,631 images, nine traits) and the linear probe (1,000 classes). The rival is what earlier suites
do: torch.nn with torch.optim and a DataLoader over the features (timed on some steps, and scaled).
GPU rows are wall seconds. Balanced logistic regression of KABR's size has scikit-learn's default
solver as its rival, on the CPU, stopped where both are as near to the minimum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from _features import WIDTH, features, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from _rows import Row, note, peak_mb
from fieldmark.probes.linear import Linear
from fieldmark.probes.logistic import Logistic
from fieldmark.probes.mlp import MLP

TRAITS = 9
N_TIMED = 150
"""steps of the DataLoader loop that are timed, if an epoch has as many"""
HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    probe: Any
    x: np.ndarray
    target: np.ndarray
    sizes: tuple[int, ...]
    batch_size: int
    n_steps: int


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds on a GPU, CPU seconds without one."""
    if not HAS_GPU:
        return timed(work)
    torch.cuda.synchronize()
    began = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return time.perf_counter() - began, result


def traits(is_quick: bool) -> Case:
    n, epochs = (512, 2) if is_quick else (75_631, 20) if HAS_GPU else (2000, 2)
    x, y = features(n, 200, apart=0.4)
    target = np.random.default_rng(3).integers(0, 2, (200, TRAITS))[y].astype(np.float64)
    n_steps = epochs * -(-n // 256)
    return Case("MLP traits", MLP(epochs=epochs), x, target, (WIDTH, 512, TRAITS), 256, n_steps)


def classes(is_quick: bool) -> Case:
    n, n_classes, steps, batch_size = (
        (512, 10, 20, 128)
        if is_quick
        else (100_000, 1000, 1000, 2048)
        if HAS_GPU
        else (4000, 50, 60, 512)
    )
    x, y = features(n, n_classes, apart=0.4)
    probe = Linear(learning_rates=3e-4, weight_decays=1e-2, steps=steps, batch_size=batch_size)
    return Case("linear", probe, x, y, (WIDTH, n_classes), batch_size, steps)


def measure(case: Case) -> Row:
    what = f"{case.name} n={len(case.x)}, {case.n_steps} steps, {DEVICE}"
    note(what)
    x = torch.from_numpy(case.x).cuda() if HAS_GPU else case.x
    case.probe.fit(x[:512], case.target[:512])  # libraries and their workspaces
    ours_s, probe = clock(lambda: case.probe.fit(x, case.target))
    usual_s, n_timed = time_usual(case)
    share = float((probe.predict(x[:4096]) == case.target[:4096]).mean())
    chance = 0.5 if case.target.ndim == 2 else 1 / case.sizes[-1]
    return Row(
        what,
        rival="torch.nn, DataLoader",
        rival_s=usual_s,
        ours_s=ours_s,
        scaled=f"{n_timed} steps",
        agreement=f"same recipe, other draws; {share:.1%} of rows right (chance {chance:.1%})",
        is_equal=share > chance,
    )


def time_usual(case: Case) -> tuple[float, int]:
    """Seconds for all steps, and from how many of them they are reckoned."""
    is_traits = case.target.ndim == 2
    layers = [torch.nn.Linear(*pair) for pair in zip(case.sizes, case.sizes[1:], strict=False)]
    between = [torch.nn.Dropout(0.5)] if is_traits else []
    net = torch.nn.Sequential(layers[0], *between, *layers[1:]).to(DEVICE)
    adam = torch.optim.AdamW(net.parameters(), lr=3e-4)
    target = torch.from_numpy(case.target.astype(np.float32) if is_traits else case.target)
    cost = torch.nn.BCEWithLogitsLoss() if is_traits else torch.nn.CrossEntropyLoss()
    data = torch.utils.data.TensorDataset(torch.from_numpy(case.x), target)
    loader = torch.utils.data.DataLoader(data, case.batch_size, shuffle=True)

    def steps(rows: Iterator[Any], n: int) -> None:
        for _, (x, y) in zip(range(n), rows, strict=False):
            adam.zero_grad()
            cost(net(x.to(DEVICE)), y.to(DEVICE)).backward()
            adam.step()

    steps(iter(loader), 5)
    n_timed = min(N_TIMED, len(loader))
    timed_s, _ = clock(lambda: steps(iter(loader), n_timed))
    return timed_s / n_timed * case.n_steps, n_timed


def logistic(n: int, n_classes: int) -> Row:
    note(f"logistic n={n} C={n_classes}")
    x, y = features(n, n_classes, apart=0.4)
    test, _ = features(2000, n_classes, apart=0.4, seed=1)
    ours_s, ours = timed(lambda: Logistic().fit(x, y))
    exact = x.astype(np.float64)
    usual = LogisticRegression(class_weight="balanced", tol=1e-8, max_iter=20_000)
    theirs_s, theirs = timed(lambda: usual.fit(exact, y))
    prob, expected = ours.predict_proba(test), theirs.predict_proba(test)
    equal = float((prob.argmax(axis=1) == expected.argmax(axis=1)).mean())
    apart = float(np.abs(prob - expected).max())
    return Row(
        f"balanced logistic n={n} C={n_classes}",
        rival="LogisticRegression(tol=1e-8)",
        rival_s=theirs_s,
        ours_s=ours_s,
        agreement=f"{equal:.2%} equal, probabilities within {apart:.0e}",
        is_equal=equal > 0.999 and apart < 1e-4,
        memory_mb=peak_mb(lambda: Logistic(max_iter=5).fit(x, y)),
    )


def rows(is_quick: bool) -> Iterator[Row]:
    yield logistic(*((300, 3) if is_quick else (5000, 8)))
    yield measure(traits(is_quick))
    yield measure(classes(is_quick))
