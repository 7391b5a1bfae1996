"""Rank intervals (mean score, Borda) over many tasks, and Kendall's tau between tasks.

Two ways to one order, always both: by the mean of the scores, and by Borda (the share of the other
models beaten, averaged over tasks), which no single task's scale can rule. Intervals draw the items
of each task anew *and* the tasks themselves: with other tasks the order could have been another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldmark.stats.bootstrap import DEFAULT, Resampling
from fieldmark.stats.interval import widened_tails


@dataclass(frozen=True, slots=True)
class Ordering:
    """Models in one order; every array has one entry per model."""

    value: np.ndarray
    """the mean score, or the share of other models beaten"""
    low: np.ndarray
    high: np.ndarray
    rank: np.ndarray
    """1 is the best; equal models share the mean of their places"""
    rank_low: np.ndarray
    """the best place it may well have"""
    rank_high: np.ndarray


@dataclass(frozen=True, slots=True)
class Ranks:
    """Places of the models over tasks that all of them did."""

    mean: Ordering
    borda: Ordering
    n_tasks: int
    has_items: bool
    """whether the items were drawn anew as well, not only the tasks"""


def rank_intervals(
    values_tm: ArrayLike,
    replicates: Sequence[np.ndarray] | None = None,
    *,
    is_up: Sequence[bool] | None = None,
    resampling: Resampling = DEFAULT,
) -> Ranks:
    """Places of models (columns) over tasks (rows).

    `replicates`: for each task resampled scores (draws × models) from draws that the models share
    (`replicate_scores`); without them only tasks are drawn. `is_up`: per task whether more is
    better. A task that lacks a model's score (NaN) is left out.
    """
    score_tm, kept = _read(values_tm)
    sign_t = np.where(np.ones(len(np.asarray(values_tm))) if is_up is None else is_up, 1.0, -1.0)
    sign_t = sign_t[kept]
    drawn_trm = score_tm[:, None]
    if replicates is not None:
        least = min(len(replicates[task]) for task in kept)
        drawn_trm = np.stack([np.asarray(replicates[task])[:least] for task in kept])
    borda_trm = np.stack(
        [_borda(s * score_rm) for s, score_rm in zip(sign_t, drawn_trm, strict=True)]
    )
    mean_rm, borda_rm = _over_tasks([drawn_trm, borda_trm], resampling)
    # A mean over tasks some of which want less has no better end; it is read as "up".
    sign = -1.0 if (sign_t < 0).all() else 1.0
    value_m = _borda(score_tm * sign_t[:, None]).mean(axis=0)
    tails = widened_tails(len(kept), len(kept) - 1, resampling.level)
    return Ranks(
        _place(score_tm.mean(axis=0), mean_rm, sign, tails),
        _place(value_m, borda_rm, 1.0, tails),
        len(kept),
        replicates is not None,
    )


def _over_tasks(values: Sequence[np.ndarray], resampling: Resampling) -> list[np.ndarray]:
    """Means over drawn tasks, in each one drawn replicate; the same draws for all `values`."""
    n_tasks, n_drawn, _ = values[0].shape
    random = resampling.generator("ranks")
    task_rt = random.integers(0, n_tasks, (resampling.draws, n_tasks))
    replicate_rt = random.integers(0, n_drawn, (resampling.draws, n_tasks))
    return [
        np.stack([value_trm[t, r].mean(axis=0) for t, r in zip(task_rt, replicate_rt, strict=True)])
        for value_trm in values
    ]


def kendall_tau(values_tm: ArrayLike) -> np.ndarray:
    """Kendall's tau-b between tasks (tasks × tasks): do they order the models alike?

    1 alike, -1 turned round, 0 unrelated; NaN where fewer than two models did both tasks or one of
    them ties all. Turn the sign of scores of which less is better first.
    """
    score_tm = np.asarray(values_tm, np.float64)
    if score_tm.ndim != 2:
        raise ValueError(f"values have the shape {score_tm.shape}: expected tasks × models.")
    first, second = np.triu_indices(score_tm.shape[1], 1)
    gap_tp = score_tm[:, first] - score_tm[:, second]
    is_known = (~np.isnan(gap_tp)).astype(np.float64)
    sign_tp = np.sign(np.nan_to_num(gap_tp))
    untied_tt = np.abs(sign_tp) @ is_known.T  # pairs untied in the row's task, known in both
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((sign_tp @ sign_tp.T) / np.sqrt(untied_tt * untied_tt.T))


def _read(values_tm: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    score_tm = np.asarray(values_tm, np.float64)
    if score_tm.ndim != 2 or not score_tm.shape[1]:
        raise ValueError(f"values have the shape {score_tm.shape}: expected tasks × models.")
    kept = np.flatnonzero(~np.isnan(score_tm).any(axis=1))
    if not len(kept):
        raise ValueError("no task has a score of every model: leave out the models with gaps.")
    return score_tm[kept], kept


def _borda(score_tm: np.ndarray) -> np.ndarray:
    """The share of the other models that each beats, ties half; 1/2 for a model alone."""
    n = score_tm.shape[1]
    if n == 1:
        return np.full(score_tm.shape, 0.5)
    return np.asarray((n - _ranked(score_tm)) / (n - 1))


def _ranked(score_rm: np.ndarray) -> np.ndarray:
    """Places within each row, 1 for the highest, the mean place for equals."""
    order = np.argsort(-score_rm, axis=1, kind="stable")
    sorted_rm = np.take_along_axis(score_rm, order, axis=1)
    place = np.broadcast_to(np.arange(1.0, score_rm.shape[1] + 1), score_rm.shape)
    is_new = np.concatenate(
        [np.ones((len(score_rm), 1), bool), np.diff(sorted_rm, axis=1) != 0], axis=1
    )
    run = np.cumsum(is_new.ravel()) - 1
    mean_place = np.bincount(run, place.ravel()) / np.bincount(run)
    ranked = np.empty(score_rm.shape)
    np.put_along_axis(ranked, order, mean_place[run].reshape(score_rm.shape), axis=1)
    return ranked


def _place(
    value_m: np.ndarray, drawn_rm: np.ndarray, sign: float, tails: tuple[float, float]
) -> Ordering:
    low, high = np.quantile(drawn_rm, tails, axis=0) + value_m - drawn_rm.mean(axis=0)
    rank = _ranked(sign * value_m[None])[0]
    rank_low, rank_high = np.quantile(_ranked(sign * drawn_rm), tails, axis=0)
    return Ordering(
        value_m,
        np.minimum(low, value_m),
        np.maximum(high, value_m),
        rank,
        np.minimum(np.floor(rank_low), rank),
        np.maximum(np.ceil(rank_high), rank),
    )
