"""How is a whole sweep of networks trained in one pass over the features?

All runs (learning rates × weight decays × seeds) are one batched model: a leading axis on the
weights, Adam's moments and the logits. Features stay where they are and are read by index. Batches,
first weights and dropped values depend on a run's seed alone, never on the device or on which other
runs are beside it.

Memory beyond the features: five arrays of `runs × weights`, and for a batch `runs × batch × (width
+ 3 × hidden + 3 × outputs)` values (width once only when all runs share one seed; on a GPU twice
all this, for the recorded step). Features that are scaled are copied if they take less than 512 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fieldmark import draws
from fieldmark.probes._adam import Adam, step_factors
from fieldmark.probes._arrays import Array, beside, namespace, real
from fieldmark.probes._losses import Loss
from fieldmark.probes._masks import kept
from fieldmark.probes._network import Pass, Shape
from fieldmark.probes._replay import Step, replayed
from fieldmark.probes._scaling import Scaling

_MASK_VALUES = 1 << 23
_COPY_BYTES = 512 << 20
"""features up to this size are scaled once; larger ones batch by batch"""


@dataclass(frozen=True, slots=True)
class Run:
    """One setting of the sweep."""

    learning_rate: float
    seed: int
    weight_decay: float = 0.0
    """AdamW's: each step takes `learning_rate × weight_decay` of every weight, not of offsets"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What all runs of a sweep share."""

    probe: str
    shape: Shape
    batch_size: int
    n_steps: int
    rate: Callable[[int], float]
    """the share of the learning rate at a step (from 0)"""
    scaling: Scaling


def halving(every_epochs: int, n_batches: int) -> Callable[[int], float]:
    """Half after each `every_epochs` epochs (of `n_batches` steps): never by steps."""
    return lambda step: 0.5 ** (step // n_batches // every_epochs)


def cosine(n_steps: int, last: float = 0.01) -> Callable[[int], float]:
    """From 1 to `last` along half a cosine."""
    return lambda step: last + (1 - last) * (1 + math.cos(math.pi * step / n_steps)) / 2


def train(x_nd: Array, rows: np.ndarray, loss: Loss, runs: list[Run], recipe: Recipe) -> Array:
    """Flat weights (runs × values) after `n_steps` batches of the given rows."""
    seeds = sorted({run.seed for run in runs})
    rate_t = np.array([recipe.rate(step) for step in range(recipe.n_steps)])
    factor_t3 = real(step_factors(rate_t), x_nd)
    # A run whose learning rate is too high ends in infinities: whoever asked looks for them.
    with np.errstate(over="ignore", invalid="ignore"):
        adam = _start(x_nd, seeds, runs, recipe)
        step = replayed(_step(x_nd, loss, adam, _places(x_nd, seeds, runs), recipe), x_nd)
        for number, batch in enumerate(_batches(x_nd, rows, seeds, recipe)):
            step(factor_t3[number], *(each for each in batch if each is not None))
    return adam.flat_sp


def _start(x_nd: Array, seeds: list[int], runs: list[Run], recipe: Recipe) -> Adam:
    start = {seed: recipe.shape.start(seed, recipe.probe) for seed in seeds}
    flat_sp = real(np.stack([start[run.seed] for run in runs]), x_nd)
    rate_s = np.array([run.learning_rate for run in runs])
    decay_s = np.array([run.weight_decay for run in runs])
    return Adam(flat_sp, rate_s, decay_s, recipe.shape.n_weights)


def _places(x_nd: Array, seeds: list[int], runs: list[Run]) -> Array:
    """Whose batches each run learns from; one place where all share a seed."""
    if len(seeds) == 1:
        return beside(np.zeros(1, np.int64), x_nd)
    return beside(np.array([seeds.index(run.seed) for run in runs], np.int64), x_nd)


def _step(x_nd: Array, loss: Loss, adam: Adam, place_u: Array, recipe: Recipe) -> Step:
    shape, scaling = recipe.shape, recipe.scaling.placed(x_nd)
    if scaling.kind != "none" and x_nd.nbytes <= _COPY_BYTES:
        x_nd, scaling = scaling.apply(x_nd), Scaling()

    def step(factor_3: Array, row_kb: Array, keep_kbh: Array | None = None) -> None:
        row_ub = row_kb[place_u]
        keep_ubh = None if keep_kbh is None else keep_kbh[place_u]
        forward = Pass(shape, adam.flat_sp, scaling.apply(x_nd[row_ub]), keep_ubh)
        forward.gradient_sp(loss.slope(forward.logit_sbt, row_ub), adam.gradient_sp)
        adam.step(factor_3)

    return step


def _batches(
    x_nd: Array, rows: np.ndarray, seeds: list[int], recipe: Recipe
) -> Iterator[tuple[Array, Array | None]]:
    """For each step: row numbers (seeds × batch) and which hidden values stay."""
    n_batches = -(-len(rows) // recipe.batch_size)
    for epoch in range(-(-recipe.n_steps // n_batches)):
        order_kn = beside(_orders(rows, seeds, epoch, recipe), x_nd)
        keeps = _keeps(x_nd, len(rows), epoch, seeds, recipe)
        for batch in range(min(n_batches, recipe.n_steps - epoch * n_batches)):
            start = batch * recipe.batch_size
            yield order_kn[:, start : start + recipe.batch_size], next(keeps)


def _order(rows: np.ndarray, seed: int, epoch: int, probe: str) -> np.ndarray:
    order = draws.generator(seed, probe, "order", epoch).permutation(len(rows))
    return np.asarray(rows[order], np.int64)


def _orders(rows: np.ndarray, seeds: list[int], epoch: int, recipe: Recipe) -> np.ndarray:
    """Rows in the order of an epoch, for each seed; one batch needs none."""
    if len(rows) <= recipe.batch_size:
        return np.tile(np.asarray(rows, np.int64), (len(seeds), 1))
    return np.stack([_order(rows, seed, epoch, recipe.probe) for seed in seeds])


def _keeps(
    x_nd: Array, n: int, epoch: int, seeds: list[int], recipe: Recipe
) -> Iterator[Array | None]:
    """The masks of an epoch's batches, made for several batches at a time."""
    hidden, dropout, size = recipe.shape.hidden, recipe.shape.dropout, recipe.batch_size
    if not (hidden and dropout):
        while True:
            yield None
    keys = [draws.number(seed, recipe.probe, "dropout", epoch) for seed in seeds]
    n_block = size * max(1, _MASK_VALUES // (size * hidden * len(seeds)))
    for first in range(0, n, n_block):
        block = range(first, min(first + n_block, n))
        keep_kbh = namespace(x_nd).stack([kept(key, block, hidden, dropout, x_nd) for key in keys])
        for start in range(0, len(block), size):
            yield keep_kbh[:, start : start + size]
