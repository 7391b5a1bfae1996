"""Notes under a table: what fits chose, which images were left out, how lucky the training was.

Read from what the parts of a run noted, and from its repeats on common items; a run of another kind
noted nothing, and nothing is said of it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fieldmark.report.paired import read_paired
from fieldmark.report.providers import is_valued
from fieldmark.report.rows import Row
from fieldmark.stats import VarianceParts, variance_parts
from fieldmark.store import Answers, PartRecord, Store, bad_images, fit_summary

MOST_NAMED = 3
"""images named in a line; programs get them all"""


def fit_lines(store: Store, rows: Sequence[Row], width: int = 80) -> list[str]:
    """For a table: what each run chose, a line each, and which images were left out."""
    fits, lost = [], dict[str, None]()
    for run, row in {row.run.id: row for row in rows}.items():
        lines, images = run_lines(store.finished_parts(run))
        if lines:
            fits.append(f"{row.model}, {row.heading}: {'; '.join(lines)}")
        if images:  # the same for every model, as a rule
            lost[f"{row.heading}: {images}"] = None
    return [
        *_block("notes of the runs:", fits, width),
        *_block("left out, because they cannot be read (--json names them all):", lost, width),
    ]


def run_lines(parts: Sequence[PartRecord]) -> tuple[list[str], str]:
    """What the fits chose and what is to know of it, a line each; and what was left out, or ""."""
    fit, bad = fit_summary(parts), bad_images(parts)
    named = "; ".join(f"{image} ({why})" for image, why in list(bad.items())[:MOST_NAMED])
    more = "; ..." if len(bad) > MOST_NAMED else ""
    images = "image" if len(bad) == 1 else "images"
    lost = f"{len(bad):,} {images}: {named}{more}" if bad else ""
    return [line for line in (fit.line, *fit.note_lines) if line], lost


def plain_fits(store: Store, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For programs, of each row: `fit` (of its part, if it has one) and all of `bad_images`."""
    parts = {row.run.id: store.finished_parts(row.run.id) for row in rows}
    return [_plain(parts[row.run.id], row.score.part) for row in rows]


def _plain(parts: Sequence[PartRecord], part: str) -> dict[str, Any]:
    mine = [record for record in parts if part in ("", record.part)]
    return {"fit": fit_summary(mine).plain(), "bad_images": bad_images(mine)}


def _block(heading: str, lines: Iterable[str], width: int) -> list[str]:
    wrapped = [
        text
        for line in lines
        for text in textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")
    ]
    return [heading, *wrapped] if wrapped else []


# --- spread of repeats: the training's luck and the test items' ---


METRIC = "accuracy"
LEAST_COMMON = 0.5
"""share of the items that all repeats must have asked: few-shot draws take some out of the test"""
MOST_ITEMS = 1_000_000
"""answers read for a table's notes; beyond, `fieldmark compare` tells of two models"""


def training_notes(store: Store, rows: Sequence[Row]) -> list[str]:
    """One line per run with repeats, as long as reading them takes no time to speak of."""
    mine = [row for row in rows if _has_spread(row)]
    if sum(row.run.n_items or 0 for row in mine) > MOST_ITEMS:
        return []
    spreads = [(row, run_spread(store, row)) for row in mine]
    lines = [f"  {row.model}, {row.heading}: {parts.words}" for row, parts in spreads if parts]
    return ["spread of accuracy, as a share, by what it comes from:", *lines] if lines else []


def run_spread(store: Store, row: Row) -> VarianceParts | None:
    """None where the run has one repeat, another metric, or too few items in common."""
    if not _has_spread(row):
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


def _has_spread(row: Row) -> bool:
    is_accuracy = row.score.metric == METRIC and not is_valued(row.run)
    return row.run.spec.repeats > 1 and is_accuracy and not row.score.part
