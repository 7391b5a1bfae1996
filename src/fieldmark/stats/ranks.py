"""Ranks over tasks: where would models stand on other tasks like these, and do tasks agree?

Tasks are drawn anew, not their items: what the scores of tasks differ by already holds the luck of
their items, which must not be counted twice. Kendall's tau says whether two tasks order the models
alike.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fieldmark import draws
from fieldmark.stats.interval import LEVEL, student

N_DRAWS = 2000
FEWEST_TASKS = 3


def rank_limits_elsewhere(height_tm: ArrayLike, level: float = LEVEL) -> np.ndarray:
    """The best and the worst rank (models × 2) by the mean over tasks like these, drawn anew.

    `height_tm`: scores (tasks × models), turned so that more is better. Tasks on the same photos
    should come as one row, their mean. NaN for fewer than three rows.
    """
    height_tm = np.asarray(height_tm, np.float64)
    if height_tm.ndim != 2 or not height_tm.shape[1]:
        raise ValueError(f"values have the shape {height_tm.shape}: expected tasks × models.")
    n_tasks, n_models = height_tm.shape
    if n_tasks < FEWEST_TASKS:
        return np.full((n_models, 2), math.nan)
    random = draws.generator(0, "", "", "tasks")
    count_rt = random.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), size=N_DRAWS)
    mean_m = height_tm.mean(axis=0)
    drawn_rm = count_rt @ height_tm / n_tasks
    # Few tasks: a resample varies less than a new draw would, and Student's t is wider yet.
    widen = math.sqrt(n_tasks / (n_tasks - 1)) * student(n_tasks - 1, level) / student(1e9, level)
    rank_rm = ranked(mean_m + widen * (drawn_rm - mean_m))
    tail = (1 - level) / 2
    low_m, high_m = np.quantile(rank_rm, (tail, 1 - tail), axis=0)
    own_m = ranked(mean_m[None])[0]
    return np.stack(
        [np.minimum(np.floor(low_m), own_m), np.maximum(np.ceil(high_m), own_m)], axis=1
    )


def ranked(height_rm: np.ndarray) -> np.ndarray:
    """Ranks in each row, 1 for the highest; equals share the mean of their ranks."""
    height_rm = np.asarray(height_rm, np.float64)
    n_rows, n = height_rm.shape
    order = np.argsort(-height_rm, axis=1, kind="stable")
    falling = np.take_along_axis(height_rm, order, axis=1)
    is_new = np.ones((n_rows, n), bool)
    is_new[:, 1:] = falling[:, 1:] != falling[:, :-1]
    run = np.cumsum(is_new.ravel()) - 1
    position = np.tile(np.arange(1.0, n + 1), n_rows)
    mean_place = np.bincount(run, position) / np.bincount(run)
    rank_rm = np.empty((n_rows, n))
    np.put_along_axis(rank_rm, order, mean_place[run].reshape(n_rows, n), axis=1)
    return rank_rm


def kendall_tau(values_tm: ArrayLike) -> np.ndarray:
    """Kendall's tau-b between tasks (tasks × tasks): do they order the models alike?

    1 alike, -1 turned round, 0 unrelated; NaN where fewer than two models did both tasks or one of
    them ties all. Turn the sign of scores of which less is better first.
    """
    score_tm = np.asarray(values_tm, np.float64)
    if score_tm.ndim != 2:
        raise ValueError(f"values have the shape {score_tm.shape}: expected tasks × models.")
    model_i, model_j = np.triu_indices(score_tm.shape[1], 1)
    gap_tp = score_tm[:, model_i] - score_tm[:, model_j]
    is_known = (~np.isnan(gap_tp)).astype(np.float64)
    sign_tp = np.sign(np.nan_to_num(gap_tp))
    untied_tt = np.abs(sign_tp) @ is_known.T  # pairs untied in the row's task, known in both
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((sign_tp @ sign_tp.T) / np.sqrt(untied_tt * untied_tt.T))
