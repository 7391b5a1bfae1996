"""Scores with their intervals, one line per row of the table.

Bands are the table's tiers, best first: A may be the best, B the best of the rest, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldmark.report.plots._chance import ChanceLines, chance_lines, chance_words, upright
from fieldmark.report.plots._panel import (
    Results,
    Spec,
    columns_in_words,
    datum,
    defined_columns,
    few_answers,
    figure,
    first_panels,
    heading,
    line_panel,
    models_in_words,
    panels,
    points_note,
    score_title,
    short_names,
    undefined,
    without_interval,
)
from fieldmark.report.rows import BEST, Row, mark_notes
from fieldmark.report.table.layout import number

MOST_MODELS = 20
"""in each of several panels; a panel alone shows all"""


def plot(results: Results) -> Spec:
    columns = defined_columns(results)
    shown, more = first_panels(list(columns))
    is_alone = len(shown) == 1
    parts, cut, hides_best, chance = [], 0, False, []
    for name in shown:
        rows = columns[name]
        kept = rows if is_alone else rows[:MOST_MODELS]
        cut = max(cut, len(rows) - len(kept))
        hides_best |= any(row.tier == BEST for row in rows[len(kept) :])
        chance.append(chance_lines(results, kept))
        parts.append(_panel(kept, "" if is_alone else heading(rows[0]), chance[-1]))
    rows = [row for name in shown for row in columns[name]]
    notes = [
        points_note(rows),
        *chance_words(chance),
        few_answers(rows),
        _BANDS if any(row.tier for row in rows) else "",
        _cut(cut, hides_best),
        more,
        without_interval(rows),
        undefined(results.rows),
        *mark_notes(rows),
    ]
    what = columns_in_words([columns[name][0] for name in shown])
    return figure(
        f"Scores of {models_in_words(rows)} on {what}", notes, panels(parts), 1 if is_alone else 2
    )


_BANDS = (
    "Blue (A): could be the best model for this task. Next band (B): clearly behind A, could "
    "be the best of the others. Two models in one band may still differ."
)


def _cut(n: int, hides_best: bool) -> str:
    if not n:
        return ""
    best = ", some of them in tier A" * hides_best
    return f"Each panel shows its {MOST_MODELS} highest scores and leaves out up to {n}{best}."


def _panel(rows: Sequence[Row], title: str, chance: ChanceLines) -> Spec:
    """By tier, in a tier by score; rows that were not compared come last."""
    names = short_names(row.name for row in rows)
    tiers = sorted({row.tier or "" for row in rows}, key=lambda tier: (not tier, len(tier), tier))
    values = [
        datum(row, names)
        | {
            "tier": row.tier,
            "tied": row.tier == BEST,
            "shaded": position % 2 == 0,
            "text": f"{number(row.score.value, row.score)} {row.tier or ''}".rstrip(),
        }
        for position, tier in enumerate(tiers)
        for row in rows
        if (row.tier or "") == tier
    ]
    return line_panel(values, score_title(rows[0].score), title, under=lambda x: upright(chance, x))
