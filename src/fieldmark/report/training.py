"""How much of a score's spread is the training's luck, and how much the test items'?

Known only of runs with several repeats on common items, and told of their share of right answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fieldmark.report.paired import read_paired
from fieldmark.report.providers import is_valued
from fieldmark.report.rows import Row
from fieldmark.stats import VarianceParts, variance_parts
from fieldmark.store import Answers, Store

METRIC = "accuracy"
LEAST_COMMON = 0.5
"""share of the items that all repeats must have asked: few-shot draws take some out of the test"""
MOST_ITEMS = 1_000_000
"""answers read for a table's notes; beyond, `fieldmark compare` tells of two models"""


def training_notes(store: Store, rows: Sequence[Row]) -> list[str]:
    """One line per run with repeats, as long as reading them takes no time to speak of."""
    mine = [row for row in rows if _is_told(row)]
    if sum(row.run.n_items or 0 for row in mine) > MOST_ITEMS:
        return []
    found = [(row, run_spread(store, row)) for row in mine]
    lines = [f"  {row.model}, {_where(row)}: {each.words}" for row, each in found if each]
    return ["spread of accuracy, as a share, by what it comes from:", *lines] if lines else []


def run_spread(store: Store, row: Row) -> VarianceParts | None:
    """None where the run has one repeat, another metric, or too few items in common."""
    if not _is_told(row):
        return None
    from fieldmark.metrics import load_metric

    return spread(read_paired(store, [row.run], load_metric(METRIC)).asked, 0)


def spread(asked: Answers, model: int) -> VarianceParts | None:
    """Of one of the models that answered, over the items that every repeat asked.

    None for one repeat, or where most items were not asked in all of them.
    """
    unit = np.where(asked.unit > 0, asked.unit, -1 - asked.item)
    cells, cell = np.unique(np.stack([asked.item, asked.part]), axis=1, return_inverse=True)
    repeats, repeat = np.unique(asked.repeat, return_inverse=True)
    right_ri = np.full((len(repeats), cells.shape[1]), np.nan)
    right_ri[repeat, cell.ravel()] = asked.prediction_mn[model] == asked.target
    unit_i = np.zeros(cells.shape[1], np.int64)
    unit_i[cell.ravel()] = unit
    is_common = ~np.isnan(right_ri).any(axis=0)
    if len(repeats) < 2 or not is_common.any() or is_common.mean() < LEAST_COMMON:
        return None
    return variance_parts(right_ri[:, is_common], unit_i[is_common])


def _is_told(row: Row) -> bool:
    is_accuracy = row.score.metric == METRIC and not is_valued(row.run)
    return row.run.spec.repeats > 1 and is_accuracy and not row.score.part


def _where(row: Row) -> str:
    return row.column.replace("\n", " ")
