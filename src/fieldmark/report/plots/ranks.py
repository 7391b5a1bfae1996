"""Which models lead: their ranks over all tasks, and their tier on each.

Ranks come in two forms, each a 95 % interval: on these tasks (other test items), and on tasks like
these (other tasks). Both, and the letters, are those of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fieldmark.charts import FAINT
from fieldmark.errors import DataError
from fieldmark.report.plots._panel import (
    Results,
    Spec,
    columns_in_words,
    defined_columns,
    few_answers,
    figure,
    models_in_words,
    short_names,
    undefined,
)
from fieldmark.report.rows import Row, mark_notes
from fieldmark.report.table.ranking import agreement, grid_of, rank_rows, rank_text
from fieldmark.report.tiers import RowStanding

_HERE, _ELSEWHERE = "rank on these tasks", "rank on tasks like these"
_ROOMY = 12
"""columns up to which a cell has room for its letter"""


def plot(results: Results) -> Spec:
    study = results.table.study
    columns = {
        name: rows
        for name, rows in defined_columns(results).items()
        if any(row.tier for row in rows)
    }
    if study is None or not columns:
        raise DataError(
            "ranks need two models that answered the same task: `fieldmark run` with another "
            "--model."
        )
    rows = [name for name in rank_rows(results.table).names if any(_of(name, columns))]
    names, heads = (
        short_names(rows),
        _headings({name: column_rows[0] for name, column_rows in columns.items()}),
    )
    standings = study.overall.standings if study.overall else ()
    cells = [*_rank_cells(standings), *_tier_cells(columns, heads)]
    values = [cell | {"label": names[cell["model"]]} for cell in cells]
    tasks = [*dict.fromkeys(cell["task"] for cell in values)]
    alone = sorted(
        {
            column_rows[0].heading
            for name, column_rows in defined_columns(results).items()
            if name not in columns
        }
    )
    letters = "Letter" if len(tasks) <= _ROOMY else "Colour"
    notes = [
        f"{letters}: tier on the task. A could be the best model; B is clearly worse than A and "
        "may be the best of the rest. Two models of one letter may still differ."
        f"{' Grey: not compared.' * (len(values) < len(rows) * len(tasks))}",
        few_answers([row for column_rows in columns.values() for row in column_rows]),
        _rank_note(standings),
        agreement(grid_of(results.table)),
        f"Not compared, so without a tier: {', '.join(alone)}." if alone else "",
        undefined(results.rows),
        *mark_notes([row for column_rows in columns.values() for row in column_rows if row.tier]),
    ]
    where = columns_in_words([column_rows[0] for column_rows in columns.values()])
    who = models_in_words(
        [row for column_rows in columns.values() for row in column_rows if row.tier]
    )
    title = f"Ranks and tiers of {who} on {where}"
    body = _drawn(values, [names[name] for name in rows], tasks)
    return figure(title, notes, body, 1 if len(tasks) <= _ROOMY else 2)


def _of(name: str, columns: Mapping[str, Sequence[Row]]) -> Iterator[Row]:
    """The cells of a row that were compared."""
    return (
        row
        for column_rows in columns.values()
        for row in column_rows
        if row.name == name and row.tier
    )


def _rank_note(standings: Sequence[RowStanding]) -> str:
    if not standings:
        return ""
    note = "Ranks by the mean over the tasks that count, with 95 % intervals"
    has_other = any(one.rank_elsewhere for one in standings)
    return f"{note}{': on these tasks, and on new tasks like these' if has_other else ''}."


def _rank_cells(standings: Sequence[RowStanding]) -> Iterator[Spec]:
    for heading in (_HERE, _ELSEWHERE):
        for one in standings:
            limits = one.rank if heading == _HERE else one.rank_elsewhere
            if limits is not None:
                yield {
                    "model": one.name,
                    "task": heading,
                    "text": rank_text(limits),
                    "of": len(standings),
                    "share": round((limits[0] - 1) / max(len(standings) - 1, 1), 4),
                }


def _tier_cells(columns: Mapping[str, Sequence[Row]], heads: Mapping[str, str]) -> Iterator[Spec]:
    for name, column_rows in columns.items():
        letters = sorted(
            {row.tier for row in column_rows if row.tier}, key=lambda letter: (len(letter), letter)
        )
        for row in column_rows:
            if row.tier:
                yield {
                    "model": row.name,
                    "task": heads[name],
                    "text": row.tier,
                    "of": len(column_rows),
                    "share": round(letters.index(row.tier) / max(len(letters) - 1, 1), 4),
                }


def _headings(firsts: Mapping[str, Row]) -> dict[str, str]:
    """One line per column; what is long is shortened, and no two are the same."""
    lines = {name: row.heading for name, row in firsts.items()}
    twice = {text for text in lines.values() if list(lines.values()).count(text) > 1}
    lines = {
        name: f"{text} {firsts[name].score.metric}" if text in twice else text
        for name, text in lines.items()
    }
    short = short_names(lines.values(), 28)
    return {name: short[text] for name, text in lines.items()}


def _drawn(values: Sequence[Spec], models: Sequence[str], tasks: Sequence[str]) -> Spec:
    is_roomy = len(tasks) <= _ROOMY
    step = (44 if is_roomy else 22, 15 if len(models) <= 40 else 11)
    axes = {
        "x": {"field": "task", "type": "nominal", "sort": list(tasks), "title": None,
              "axis": {"orient": "top", "labelAngle": -40, "domain": False, "ticks": False}},
        "y": {"field": "label", "type": "nominal", "sort": list(models), "title": None},
    }  # fmt: skip
    fill = {
        "field": "share",
        "type": "quantitative",
        "scale": {"range": ["#08519C", "#6BAED6", "#DCE9F4", "#FFFFFF"], "domain": [0, 1],
                  "interpolate": "lab"},
        "legend": {
            "type": "symbol",
            "symbolType": "square",
            "symbolSize": 110,
            "symbolStrokeColor": FAINT,
            "title": "rank, tier",
            "direction": "horizontal",
            "orient": "bottom",
            "values": [0, 0.25, 0.5, 0.75, 1],
            "labelExpr": "datum.value == 0 ? 'first' : datum.value == 1 ? 'last' : ''",
        },
    }  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "rect", "stroke": "#F4F4F4", "strokeWidth": 1},
         "encoding": {**axes, "color": fill,
                      "tooltip": [{"field": name, "type": "nominal"} for name in
                                  ("model", "task", "text", "of")]}},
    ]  # fmt: skip
    if is_roomy:
        ink = {"condition": {"test": "datum.share < 0.3", "value": "white"}, "value": "#222222"}
        layers.append({"mark": {"type": "text", "fontSize": 8.5 if step[1] > 11 else 8},
                       "encoding": {**axes, "text": {"field": "text"}, "color": ink}})  # fmt: skip
    return {"width": {"step": step[0]}, "height": {"step": step[1]},
            "data": {"values": list(values)}, "layer": layers,
            "view": {"fill": "#EFEFEF"}}  # fmt: skip
