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
MOST_TASKS = 12


def plot(results: Results) -> Spec:
    columns = defined_columns(results)
    shown, more = first_panels(list(columns), MOST_TASKS)
    is_alone = len(shown) == 1
    kept = [columns[name] if is_alone else columns[name][:MOST_MODELS] for name in shown]
    beyond = [columns[name][len(rows) :] for name, rows in zip(shown, kept, strict=True)]
    hides_best = any(row.tier == BEST for rows in beyond for row in rows)
    chance = [chance_lines(results, rows) for rows in kept]
    most = max(len(lines.drawn) for lines in chance)
    parts = [
        _panel(rows, "" if is_alone else heading(rows[0]), lines, most)
        for rows, lines in zip(kept, chance, strict=True)
    ]
    rows = [row for name in shown for row in columns[name]]
    notes = [
        points_note(rows),
        *chance_words(chance),
        few_answers(rows),
        _BANDS if any(row.tier for row in rows) else "",
        _cut(max(map(len, beyond)), hides_best),
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
    "Blue (A): could be the best model for this task. Next band (B): clearly worse than A; "
    "may be the best of the rest. Two models in one band may still differ."
)


def _cut(n: int, hides_best: bool) -> str:
    if not n:
        return ""
    best = ", some of them in tier A" * hides_best
    return f"Each panel shows its {MOST_MODELS} highest scores and leaves out up to {n}{best}."


def _panel(rows: Sequence[Row], title: str, chance: ChanceLines, most: int) -> Spec:
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
    title_x = score_title(rows[0].score)
    return line_panel(values, title_x, title, under=lambda x: upright(chance, x, most))
