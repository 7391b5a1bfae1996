"""How far every model is behind the best, compared on the same items.

The interval is that of the paired difference, so it is narrower than two scores' intervals suggest.
Only items that every model answered are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fieldmark.errors import DataError
from fieldmark.report.cells import BEST, Row
from fieldmark.report.plots._panel import (
    Spec,
    columns_in_words,
    figure,
    first_panels,
    heading,
    line_panel,
    panels,
    rounded,
    short_names,
    some,
    undefined,
)
from fieldmark.report.plots._results import Results, defined_columns, within
from fieldmark.report.providers import pairing_metric, why_not_paired

if TYPE_CHECKING:
    from fieldmark.metrics import Metric

MOST_MODELS, MOST_OF_MANY = 40, 20
"""compared with the best in a panel alone, and in each of several"""


def plot(results: Results) -> Spec:
    columns = {name: rows for name, rows in defined_columns(results).items() if len(rows) > 1}
    if not columns:
        raise DataError(
            "a difference needs two models on one task: `fieldmark run` with another --model."
        )
    able = {name: rows for name, rows in columns.items() if _metric_for(results, rows) is not None}
    if not able:
        row = next(iter(columns.values()))[0]
        why = why_not_paired(row.run, row.score.metric)
        raise DataError(f"{why}: models cannot be compared item by item.")
    readable, _ = first_panels(list(within(able)) or list(able)[:1])
    most = MOST_MODELS if len(readable) == 1 else MOST_OF_MANY
    drawn = {name: _panel(results, columns[name], most) for name in readable}
    parts = {name: part for name, part in drawn.items() if part is not None}
    if not parts:
        raise DataError("no two models answered the same items: there is nothing to compare.")
    unread = [heading(columns[name][0]) for name in columns if name not in parts]
    n_cut = max(len(columns[name]) - 1 - most for name in parts)
    notes = [
        "Point: difference to the best model on the items all of them answered; line: its 95 % "
        "interval. Blue: not distinguishable from the best when all models are tested at once, by "
        "name and in no order.",
        f"The {most} models behind the best shown, {n_cut} left out." if n_cut > 0 else "",
        f"Not compared here: {some(unread)}; --task chooses." if unread else "",
        undefined(results.rows),
    ]
    first = columns[next(iter(parts))]
    where = columns_in_words([columns[name][0] for name in parts])
    best = f"{first[0].model} on {where}" if len(parts) == 1 else f"the best on {where}"
    return figure(f"Difference to {best}", notes, panels(list(parts.values())), len(parts))


def _metric_for(results: Results, rows: Sequence[Row]) -> Metric | None:
    """What compares the rows of a column item by item; None where nothing does."""
    return pairing_metric(results.store, rows[0].run, rows[0].score.metric)


def _panel(results: Results, rows: Sequence[Row], most: int) -> Spec | None:
    from fieldmark.report.paired import read_paired
    from fieldmark.stats import compare, errors, tiers

    best, others = rows[0], rows[1 : most + 1]
    metric = _metric_for(results, rows)
    if metric is None:
        return None
    paired = read_paired(results.store, [row.runs for row in rows], metric)
    if not len(paired.items.target):
        return None
    letters = tiers(errors(paired.items, paired.answer_mn, paired.metric)).letters
    names = short_names(row.model for row in rows)
    scale = best.score.scale
    values = []
    for place, row in enumerate(others, 1):
        lead = compare(paired.items, paired.answer_mn[place], paired.answer_mn[0], paired.metric)
        values.append(
            {
                "model": row.model,
                "label": names[row.model],
                "score": rounded(scale * lead.difference),
                "low": rounded(scale * lead.low),
                "high": rounded(scale * lead.high),
                "text": _signed(scale * lead.difference),
                "tied": letters[place] == BEST,
                "shaded": letters[place] == BEST,
                "n": len(paired.items.target),
            }
        )
    values.sort(key=_standing)
    unit = " in points" if best.score.is_fraction else ""
    title = f"{best.score.metric}{unit}, minus that of {names[best.model]}"
    return line_panel(values, title, heading(best) if most == MOST_OF_MANY else "", zero=True)


def _standing(value: Spec) -> tuple[bool, float, str]:
    return not value["tied"], 0.0 if value["tied"] else abs(value["score"]), value["model"]


def _signed(value: float) -> str:
    """
    >>> _signed(-3.04), _signed(0.01)
    ('−3.0', '0.0')
    """
    return "0.0" if abs(value) < 0.05 else f"{value:+.1f}".replace("-", "−")
