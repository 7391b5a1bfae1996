"""How much faster is a whole sweep in one batched pass than one run after the other?

    python benchmarks/probes_gradient.py           FishNet's size on a GPU, small on a CPU
    python benchmarks/probes_gradient.py --quick   fewer epochs and steps

Two sweeps on float32 features: the trait network of FishNet (75,631 images, nine traits; learning
rates × seeds) and the linear probe (1,000 classes; learning rates × weight decays). The rivals are
the same code, one run at a time, and on a GPU what earlier suites do: torch.nn with torch.optim and
a DataLoader over the features, one run at a time (timed on some steps of one run, and scaled). GPU
rows are wall seconds. Agreement: predictions of each run in the sweep with the same run alone.
Balanced logistic regression of KABR's size has scikit-learn as its rival, on the CPU, stopped where
both are as near to the minimum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from _features import WIDTH, features, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
from sklearn.linear_model import LogisticRegression

from _rows import Row, note, peak_mb, run_alone
from fieldmark.probes._losses import ClassLoss, Loss, TraitLoss
from fieldmark.probes._network import Pass, Shape
from fieldmark.probes._scaling import Scaling
from fieldmark.probes._sweep import Recipe, Run, cosine, halving, train
from fieldmark.probes._tensor import as_numpy
from fieldmark.probes.logistic import Logistic

TRAITS = 9
N_USUAL = 150
"""steps of the DataLoader loop that are timed, if an epoch has as many"""


@dataclass(frozen=True, slots=True)
class Sweep:
    name: str
    x: Any
    target: np.ndarray
    loss: Loss
    runs: list[Run]
    recipe: Recipe

    def train(self, runs: list[Run]) -> Any:
        return train(self.x, np.arange(len(self.x)), self.loss, runs, self.recipe)

    def answers(self, flat_sp: Any) -> np.ndarray:
        """What one run says of the first rows."""
        scaled = self.recipe.scaling.placed(self.x).apply(self.x[:4096])
        logit_bt = as_numpy(Pass(self.recipe.shape, flat_sp, scaled[None]).logit_sbt)[0]
        return logit_bt > 0 if self.target.ndim == 2 else logit_bt.argmax(axis=1)


def find_gpu() -> Any:
    """torch where it has a GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def clock(torch: Any, work: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds on a GPU, CPU seconds without one."""
    if not torch:
        return timed(work)
    torch.cuda.synchronize()
    began = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return time.perf_counter() - began, result


def traits(torch: Any, is_quick: bool) -> Sweep:
    n, epochs = (75_631, 3 if is_quick else 20) if torch else (2000, 2)
    x, y = features(n, 200, apart=0.4)
    target = np.random.default_rng(3).integers(0, 2, (200, TRAITS))[y].astype(np.float64)
    x = torch.from_numpy(x).cuda() if torch else x
    rates, seeds = ((1e-4, 2e-4, 5e-4, 1e-3), range(4)) if torch else ((1e-4, 5e-4), range(2))
    n_batches = -(-n // 256)
    shape = Shape(WIDTH, TRAITS, 512, "none", 0.5)
    recipe = Recipe("mlp", shape, 256, epochs * n_batches, halving(20, n_batches), Scaling())
    loss = TraitLoss.read(target, np.arange(n), False, x)
    return Sweep("MLP traits", x, target, loss, [Run(r, s) for r in rates for s in seeds], recipe)


def classes(torch: Any, is_quick: bool) -> Sweep:
    n, n_classes, steps = (100_000, 1000, 200 if is_quick else 1000) if torch else (4000, 50, 60)
    x, y = features(n, n_classes, apart=0.4)
    x = torch.from_numpy(x).cuda() if torch else x
    rates, decays = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2), (1e-4, 1e-2)
    scaling = Scaling.fit("standardise", x, np.arange(n))
    shape, batch = Shape(WIDTH, n_classes), 2048 if torch else 512
    recipe = Recipe("linear", shape, batch, steps, cosine(steps), scaling)
    loss = ClassLoss.read(y, np.arange(n), False, x)
    return Sweep("linear", x, y, loss, [Run(r, 0, d) for r in rates for d in decays], recipe)


def measure(torch: Any, sweep: Sweep) -> Iterator[Row]:
    recipe, runs = sweep.recipe, sweep.runs
    where = "GPU" if torch else "CPU"
    what = f"{sweep.name} n={len(sweep.x)}, {len(runs)} runs × {recipe.n_steps} steps, {where}"
    note(what)
    short = replace(sweep, recipe=replace(recipe, n_steps=5))
    for some in (runs, runs[:1]):  # libraries and their workspaces
        short.train(some)
    ours_s, ours = clock(torch, lambda: sweep.train(runs))
    alone_s, alone = clock(torch, lambda: [sweep.train([run]) for run in runs])
    pairs = zip(ours, alone, strict=True)
    same = [(sweep.answers(one[None]) == sweep.answers(two)).mean() for one, two in pairs]
    row = Row(
        what,
        rival="the same, one run at a time",
        rival_s=alone_s,
        ours_s=ours_s,
        agreement=f"{np.mean(same):.3%} equal to each run alone (least {np.min(same):.3%})",
        is_equal=bool(np.mean(same) > 0.999),
        memory_mb=None if torch else peak_mb(lambda: short.train(runs)),
    )
    yield row
    if torch:
        usual_s, n_timed = time_usual(torch, sweep)
        yield replace(
            row,
            rival="torch.nn, DataLoader, one run at a time",
            rival_s=usual_s,
            scaled=f"{n_timed} steps of one run",
            agreement="same recipe, other draws",
        )


def time_usual(torch: Any, sweep: Sweep) -> tuple[float, int]:
    """Seconds for all runs, and from how many steps of one they are reckoned."""
    shape, is_traits = sweep.recipe.shape, sweep.target.ndim == 2
    layers = [torch.nn.Linear(*pair) for pair in shape.matrices]
    between = [torch.nn.Dropout(shape.dropout)] if is_traits else []
    net = torch.nn.Sequential(layers[0], *between, *layers[1:]).cuda()
    adam = torch.optim.AdamW(net.parameters(), lr=3e-4)
    target = torch.from_numpy(sweep.target.astype(np.float32) if is_traits else sweep.target)
    cost = torch.nn.BCEWithLogitsLoss() if is_traits else torch.nn.CrossEntropyLoss()
    data = torch.utils.data.TensorDataset(sweep.x.cpu(), target)
    loader = torch.utils.data.DataLoader(data, sweep.recipe.batch_size, shuffle=True)

    def steps(batches: Iterator[Any], n: int) -> None:
        for _, (x, y) in zip(range(n), batches, strict=False):
            adam.zero_grad()
            cost(net(x.cuda()), y.cuda()).backward()
            adam.step()

    steps(iter(loader), 5)
    n_timed = min(N_USUAL, len(loader))
    one_s, _ = clock(torch, lambda: steps(iter(loader), n_timed))
    return one_s / n_timed * sweep.recipe.n_steps * len(sweep.runs), n_timed


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
    torch = find_gpu()
    yield logistic(*((1000, 4) if is_quick else (5000, 8)))
    yield from measure(torch, traits(torch, is_quick))
    yield from measure(torch, classes(torch, is_quick))


if __name__ == "__main__":
    run_alone(rows)
