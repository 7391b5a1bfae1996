"""How far every model is behind the best, compared on the same photos.

The numbers are those of `fieldmark compare`: the interval is that of the paired difference, so it
is narrower than two scores' intervals suggest.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldmark.errors import DataError
from fieldmark.report.compare.pairs import AllPairs
from fieldmark.report.plots._panel import (
    Results,
    Spec,
    columns_in_words,
    few_answers,
    figure,
    first_panels,
    heading,
    line_panel,
    panels,
    rival_columns,
    rounded,
    short_names,
    undefined,
)
from fieldmark.report.providers import pairing_metric, why_not_paired
from fieldmark.report.rows import BEST, Row, mark_notes
from fieldmark.words import first_few

MOST_MODELS, MOST_OF_MANY = 40, 20
"""compared with the best in a panel alone, and in each of several"""


def plot(results: Results) -> Spec:
    rivals = rival_columns(results)
    columns = {name: rows for name, rows in rivals.items() if len(rows) > 1}
    if not columns:
        raise DataError(
            "a difference needs two models on one task: `fieldmark run` with another --model."
        )
    able = [
        name
        for name, (row, *_) in columns.items()
        if pairing_metric(results.store, row.run, row.score.metric) is not None
    ]
    if not able:
        row = next(iter(columns.values()))[0]
        why = why_not_paired(row.run, row.score.metric)
        raise DataError(f"{why}: models cannot be compared photo by photo.")
    readable, _ = first_panels(able)
    most = MOST_MODELS if len(readable) == 1 else MOST_OF_MANY
    drawn = {name: _panel(results, columns[name], most) for name in readable}
    parts = {name: part for name, part in drawn.items() if part is not None}
    if not parts:
        raise DataError("no two models answered the same photos: there is nothing to compare.")
    unread = [heading(columns[name][0]) for name in columns if name not in parts]
    n_cut = max(len(columns[name]) - 1 - most for name in parts)
    notes = [
        "Points: difference to the highest score, on the photos that both answered; lines: 95 % "
        "intervals. Blue: tier A, could be the best model for this task.",
        few_answers([row for name in parts for row in columns[name]]),
        f"Shown: the {most} models behind the best; {n_cut} are left out." if n_cut > 0 else "",
        f"Not shown: {first_few(unread)}." if unread else "",
        undefined(results.rows),
        *mark_notes([row for name in parts for row in columns[name]]),
    ]
    best_column = columns[next(iter(parts))]
    where = columns_in_words([columns[name][0] for name in parts])
    best = f"{best_column[0].name} on {where}" if len(parts) == 1 else f"the best on {where}"
    return figure(f"Difference to {best}", notes, panels(list(parts.values())), len(parts))


def _panel(results: Results, rows: Sequence[Row], most: int) -> Spec | None:
    best, others = rows[0], rows[1 : most + 1]
    pairs = AllPairs(results.store, [best, *others])
    names = short_names(row.name for row in rows)
    scale = best.score.scale
    values = []
    for row in others:
        compared = pairs.compare(row.name, best.name)
        if compared is None:
            continue
        lead = compared.tasks[0].comparison
        values.append(
            {
                "model": row.name,
                "label": names[row.name],
                "score": rounded(scale * lead.difference),
                "low": rounded(scale * lead.low),
                "high": rounded(scale * lead.high),
                "text": _signed(scale * lead.difference),
                "tied": row.tier == BEST,
                "shaded": row.tier == BEST,
                "n": lead.n,
            }
        )
    if not values:
        return None
    values.sort(key=_standing)
    unit = " in points" if best.score.is_fraction else ""
    title = f"{best.score.metric}{unit}, minus that of {names[best.name]}"
    return line_panel(values, title, heading(best) if most == MOST_OF_MANY else "", zero=True)


def _standing(value: Spec) -> tuple[bool, float, str]:
    return not value["tied"], abs(value["score"]), value["model"]


def _signed(value: float) -> str:
    """
    >>> _signed(-3.04), _signed(0.01)
    ('−3.0', '0.0')
    """
    return "0.0" if abs(value) < 0.05 else f"{value:+.1f}".replace("-", "−")
