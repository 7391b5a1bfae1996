"""Scores with their intervals, one line per model.

Models that cannot be told apart stand together in a band, by name: inside it there is no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fieldmark.report.cells import BEST, Row
from fieldmark.report.plots._panel import (
    Spec,
    columns_in_words,
    datum,
    figure,
    first_panels,
    heading,
    level_of,
    line_panel,
    panels,
    score_title,
    short_names,
    undefined,
    without_interval,
)
from fieldmark.report.plots._results import (
    Results,
    defined_columns,
    tiers_of,
    within,
)
from fieldmark.report.table.layout import number

MOST_MODELS = 20
"""in each of several panels; a panel alone shows all"""


def plot(results: Results) -> Spec:
    columns = defined_columns(results)
    shown, more = first_panels(list(columns))
    tested = set(within({name: columns[name] for name in shown}))
    is_alone = len(shown) == 1
    parts, cut, hides_best = [], 0, False
    for name in shown:
        rows = columns[name]
        tiers = tiers_of(results, rows, name in tested)
        kept = rows if is_alone else rows[:MOST_MODELS]
        cut = max(cut, len(rows) - len(kept))
        hides_best |= any(tiers[row.run.id] == BEST for row in rows[len(kept) :])
        parts.append(_panel(kept, tiers, "" if is_alone else heading(rows[0])))
    rows = [row for name in shown for row in columns[name]]
    n_models = len({row.model for row in rows})
    notes = [
        f"Point: score; line: {level_of(rows)}.",
        _colours(len(tested), len(shown)) if n_models > 1 else "",
        _cut(cut, hides_best),
        more,
        without_interval(rows),
        undefined(results.rows),
    ]
    what = columns_in_words([columns[name][0] for name in shown])
    title = f"Scores of {n_models} model{'s' * (n_models > 1)} on {what}"
    return figure(title, notes, panels(parts), 1 if is_alone else 2)


def _cut(n: int, hides_best: bool) -> str:
    if not n:
        return ""
    best = ", some of the best tier among them" * hides_best
    return (
        f"The {MOST_MODELS} highest scores of each panel shown, up to {n} models left out{best}; "
        "one --task shows all."
    )


def _colours(n_tested: int, n_shown: int) -> str:
    legend = (
        "Bands: tiers of models that these items cannot tell apart, by name and in no order; blue: "
        "the best tier."
    )
    if n_tested == n_shown:
        return legend
    return f"{legend} Where there was too much to read, the best tier is where intervals meet."


def _panel(rows: Sequence[Row], tiers: Mapping[int, str], title: str) -> Spec:
    names = short_names(row.model for row in rows)
    order = {
        letter: place
        for place, letter in enumerate(dict.fromkeys(tiers[row.run.id] for row in rows))
    }
    ordered = sorted(rows, key=lambda row: (order[tiers[row.run.id]], row.model))
    values = [
        datum(row, names)
        | {
            "tier": tiers[row.run.id],
            "tied": tiers[row.run.id] == BEST,
            "shaded": order[tiers[row.run.id]] % 2 == 0,
            "text": number(row.score.value, row.score),
        }
        for row in ordered
    ]
    return line_panel(values, score_title(rows[0].score), title)
