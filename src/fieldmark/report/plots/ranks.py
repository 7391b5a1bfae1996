"""Which model leads on which task: ranks of models × tasks.

A rank counts the models that are surely better, those whose interval lies wholly above; models
whose intervals meet can share a rank, and the cell says how far down they might be.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from statistics import fmean

from fieldmark.errors import DataError
from fieldmark.report.cells import Row
from fieldmark.report.plots._panel import (
    Spec,
    columns_in_words,
    figure,
    short_names,
    undefined,
)
from fieldmark.report.plots._render import FAINT
from fieldmark.report.plots._results import Results, defined_columns, limits
from fieldmark.report.table.ranking import agreement

_Ranks = Mapping[str, Mapping[str, tuple[int, int]]]
"""column → model → first and last rank"""
_ROOMY = 12
"""columns up to which a cell has room for its ranks"""


def plot(results: Results) -> Spec:
    columns = defined_columns(results)
    ranks = {name: _ranks(rows) for name, rows in columns.items() if len(rows) > 1}
    if not ranks:
        raise DataError("ranks need two models on one task: `fieldmark run` with another --model.")
    counted = {name: rows for name, rows in columns.items() if rows[0].is_counted}
    models = _order({name: mine for name, mine in ranks.items() if name in counted}, ranks)
    names = short_names(models)
    heads = _headings({name: columns[name][0] for name in ranks})
    values = [
        {
            "model": model,
            "label": names[model],
            "task": heads[name],
            "rank": best,
            "text": f"{best}" if best == worst else f"{best}–{worst}",
            "of": len(columns[name]),
            "share": round((best - 1) / max(len(columns[name]) - 1, 1), 4),
        }
        for name, mine in ranks.items()
        for model, (best, worst) in mine.items()
    ]
    alone = sorted({rows[0].heading for rows in columns.values() if len(rows) == 1})
    has_gaps = len(values) < len(models) * len(ranks)
    notes = [
        f"{'Number: first and last rank' if len(ranks) <= _ROOMY else 'Colour: the first rank'} "
        "the intervals allow; 1 = no model is surely better. Models that share a colour in a "
        f"column are in no order.{' Grey: not run.' * has_gaps}",
        "Rows by mean rank over the tasks that a model was run on.",
        agreement({(row.model, name): row for name, rows in counted.items() for row in rows}),
        f"One model only, so no rank: {', '.join(alone)}." if alone else "",
        undefined(results.rows),
    ]
    where = columns_in_words([columns[name][0] for name in ranks])
    title = f"Ranks of {len(models)} models on {where}"
    body = _drawn(values, [names[model] for model in models], list(heads.values()))
    return figure(title, notes, body, 1 if len(ranks) <= _ROOMY else 2)


def _ranks(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """First and last possible rank of each model, 1 = best."""
    sign = 1 if rows[0].score.higher_is_better else -1
    spans = {row.model: sorted(sign * limit for limit in limits(row)) for row in rows}
    lows = sorted(low for low, _ in spans.values())
    highs = sorted(high for _, high in spans.values())
    return {
        model: (1 + _above(lows, high), len(spans) - _below(highs, low))
        for model, (low, high) in spans.items()
    }


def _above(ordered: Sequence[float], value: float) -> int:
    return len(ordered) - bisect_right(ordered, value)


def _below(ordered: Sequence[float], value: float) -> int:
    return bisect_left(ordered, value)


def _order(counted: _Ranks, every: _Ranks) -> list[str]:
    """By the mean over the columns that count; models that stand in none of them come last."""
    ranks: dict[str, list[float]] = {model: [] for mine in every.values() for model in mine}
    for mine in counted.values():
        for model, (best, worst) in mine.items():
            ranks[model].append((best + worst) / 2 / len(mine))
    return sorted(ranks, key=lambda model: (fmean(ranks[model] or [math.inf]), model))


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
            "title": "rank",
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
