"""Line chart: scores over something that grows, with intervals, and names at the lines' ends.

Lines that meet are set a little apart so that their intervals can be seen; names are moved up or
down until none lies on another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fieldmark.charts import FAINT, QUIET, SERIES
from fieldmark.report.plots._chance import DASHED, ChanceLines
from fieldmark.report.plots._panel import (
    Results,
    Spec,
    defined_columns,
    figure,
    level_of,
    panels,
    rounded,
    score_title,
    short_names,
    without_family,
)
from fieldmark.report.rows import Row
from fieldmark.store import Score
from fieldmark.words import marked_task

SIZE = (330, 220)
_LINE = 11.5
"""pixels between two names"""
NO_LINES = ChanceLines()
DASHES = ([1, 0], [5, 3], [2, 2], [8, 3, 2, 3])


@dataclass(frozen=True, slots=True)
class Axis:
    """What grows."""

    title: str
    kind: str
    """"symlog", "log", "linear", or "ordinal" for words"""


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    name: str
    kind: str
    """told by the dash of the line, such as the protocol"""
    points: tuple[tuple[Any, Score], ...]
    """in the order of the axis"""


def series_panel(
    series: Sequence[Series], axis: Axis, title: str = "", chance: ChanceLines = NO_LINES
) -> Spec:
    """The panel; lines beyond the colours are drawn faintly and without names."""
    # The best final score first: those get the colours.
    sign = -1 if series[0].points[0][1].higher_is_better else 1
    ordered = sorted(series, key=lambda line: (sign * line.points[-1][1].value, line.name))
    kinds = _kinds(ordered)
    span = _span([x for line in ordered for x, _ in line.points], axis)
    values = [
        value
        for rank, line in reversed(list(enumerate(ordered)))  # the best are drawn last, on top
        for value in _values(line, rank, len(ordered), axis, span)
    ]
    extent = [
        value[key] for value in values for key in ("score", "low", "high") if value[key] is not None
    ]
    extent += [level for level, _ in chance.drawn]
    air = max(0.06 * (max(extent) - min(extent)), 1e-6 + 0.01 * abs(max(extent)))
    domain = (min(extent) - air, max(extent) + air)
    score = ordered[0].points[0][1]
    x, y = _x(axis, ordered), _y(score_title(score), domain)
    names = _names(ordered[: len(SERIES)], domain, chance)
    levels = [{"score": rounded(level)} for level, _ in chance.drawn]
    dashed: Spec = {"data": {"values": levels}, "mark": DASHED, "encoding": {"y": y}}
    layers = [*([dashed] if levels else []), *_lines(values, x, y, axis, kinds), _ends(names, y)]
    panel: Spec = {
        "width": SIZE[0],
        "height": SIZE[1],
        "layer": layers,
    }
    if title:
        panel["title"] = {"text": title, "fontSize": 10.5, "frame": "group"}
    return panel


def series_figure(
    title: str,
    lines: Mapping[str, Sequence[Series]],
    axis: Axis,
    notes: Sequence[str],
    chance: Mapping[str, ChanceLines] | None = None,
) -> Spec:
    """A panel per task; `lines` are by task and metric, `by_task`'s names."""
    tasks = [name.partition("\n")[0] for name in lines]
    parts = [
        series_panel(
            drawn, axis, task if len(lines) > 1 else "", (chance or {}).get(name, NO_LINES)
        )
        for (name, drawn), task in zip(lines.items(), tasks, strict=True)
    ]
    where = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
    return figure(f"{title} on {where}", notes, panels(parts), len(parts))


def _kinds(series: Sequence[Series]) -> list[str]:
    """In the order of dashes: that whose lines reach farthest is drawn solid."""
    reach: dict[str, Any] = {}
    for line in series:
        reach[line.kind] = max(reach.get(line.kind, line.points[-1][0]), line.points[-1][0])
    return sorted(reach, key=lambda kind: (-reach[kind], kind)) if len(reach) > 1 else [*reach]


def _values(series: Series, rank: int, n_series: int, axis: Axis, span: float) -> list[Spec]:
    is_faint = rank >= len(SERIES)
    shift = 0.0 if is_faint else rank - (min(n_series, len(SERIES)) - 1) / 2
    return [
        {
            "series": series.name,
            "kind": series.kind,
            "colour": FAINT if is_faint else SERIES[rank],
            "faint": is_faint,
            "x": x,
            "at": _apart(x, shift, axis, span),
            "score": rounded(score.scale * score.value),
            "low": None if score.low is None else rounded(score.scale * score.low),
            "high": None if score.high is None else rounded(score.scale * score.high),
        }
        for x, score in series.points
    ]


def _apart(x: Any, shift: float, axis: Axis, span: float) -> Any:
    """Four pixels beside its true place for every line between it and the middle one."""
    step = 4 * shift * span / SIZE[0]
    if axis.kind == "symlog":
        return rounded(math.expm1(math.log1p(x) + step))
    if axis.kind == "log":
        return rounded(math.exp(math.log(x) + step))
    return x if axis.kind == "ordinal" else rounded(x + step)


def _position(x: float, axis: Axis) -> float:
    return x if axis.kind == "linear" else math.log1p(x) if axis.kind == "symlog" else math.log(x)


def _span(seen: Sequence[Any], axis: Axis) -> float:
    if axis.kind == "ordinal":
        return 1.0
    positions = [_position(x, axis) for x in seen]
    return (max(positions) - min(positions)) or 1.0


def _x(axis: Axis, series: Sequence[Series]) -> Spec:
    seen = sorted({x for line in series for x, _ in line.points})
    base = {"field": "at", "title": axis.title}
    if axis.kind == "ordinal":
        return {**base, "type": "ordinal", "sort": seen, "axis": {"labelAngle": 0, "grid": False}}
    spread = _spread(seen, axis)
    # Points of several lines stand a little apart: what is labelled lies on the axis all the same.
    ends = {"unionWith": [seen[0], seen[-1]]}
    scale = {"type": axis.kind, "nice": False, "zero": False, "domain": ends}
    return {
        **base,
        "type": "quantitative",
        "scale": scale | ({"padding": 14} if axis.kind == "linear" else {}),
        "axis": {"values": spread, "grid": False, "labelExpr": "format(datum.value, ',')"},
    }


def _spread(seen: Sequence[float], axis: Axis) -> list[float]:
    """Where the axis is labelled: at what was run, as far as labels do not touch."""
    span, kept = _span(seen, axis), [seen[0]]
    for x in seen[1:]:
        if (_position(x, axis) - _position(kept[-1], axis)) / span >= 0.07:
            kept.append(x)
    return kept


def _y(title: str, domain: tuple[float, float]) -> Spec:
    return {
        "field": "score",
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [rounded(limit) for limit in domain], "nice": False, "zero": False},
        "axis": {"tickCount": 6},
    }


def _lines(
    values: Sequence[Spec], x: Spec, y: Spec, axis: Axis, kinds: Sequence[str]
) -> list[Spec]:
    colour = {"field": "colour", "type": "nominal", "scale": None}
    is_words = axis.kind == "ordinal"
    apart = {"xOffset": {"field": "series", "type": "nominal"}} if is_words else {}
    dash: Spec = {
        "field": "kind",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(kinds), "range": [DASHES[i % len(DASHES)] for i in
                                                   range(len(kinds))]},
        "legend": {"orient": "bottom", "symbolType": "stroke", "symbolSize": 300,
                   "symbolStrokeColor": "#555555"} if len(kinds) > 1 else None,
    }  # fmt: skip
    thin = {"condition": {"test": "datum.faint", "value": 0.7}, "value": 1.6}
    line: Spec = {
        "mark": {"type": "line"},
        "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash, "strokeWidth": thin,
                     "detail": {"field": "series", "type": "nominal"}},
    }  # fmt: skip
    marks: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 1.2, "opacity": 0.75},
         "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"},
                      "color": colour, **apart}},
        {"mark": {"type": "point", "filled": True, "size": 30, "opacity": 1},
         "encoding": {"x": x, "y": y, "color": colour, **apart,
                      "tooltip": [{"field": "series", "type": "nominal"},
                                  {"field": "kind", "type": "nominal"},
                                  *({"field": name, "type": "nominal" if is_words and name == "x"
                                     else "quantitative"}
                                    for name in ("x", "score", "low", "high"))]}},
    ]  # fmt: skip
    data = {"values": list(values)}
    return [{"data": data, **layer} for layer in ([] if is_words else [line]) + marks]


def _names(
    series: Sequence[Series], domain: tuple[float, float], chance: ChanceLines
) -> list[Spec]:
    """Each name at its line's end, pushed apart where ends are close."""
    bottom, top = domain
    per_pixel = (top - bottom) / SIZE[1]
    short = short_names((without_family(line.name) for line in series), 40)
    lasts = [line.points[-1][1] for line in series]
    ends = [
        (score.scale * score.value, -rank, short[without_family(line.name)], SERIES[rank])
        for rank, (line, score) in enumerate(zip(series, lasts, strict=True))
    ]
    ends = sorted([*ends, *((level, 1, label, QUIET) for level, label in chance.drawn)])
    heights: list[float] = []
    for value, *_ in ends:
        lowest = heights[-1] + _LINE * per_pixel if heights else -math.inf
        heights.append(max(value, lowest))
    too_high = max(heights[-1] - top, 0.0)
    return [
        {"text": text, "colour": colour, "score": rounded(height - too_high)}
        for (_, _, text, colour), height in zip(ends, heights, strict=True)
    ]


def _ends(names: Sequence[Spec], y: Spec) -> Spec:
    return {
        "data": {"values": list(names)},
        "mark": {"type": "text", "align": "left", "dx": 9},
        "encoding": {
            "x": {"value": "width"},
            "y": y,
            "text": {"field": "text"},
            "color": {"field": "colour", "type": "nominal", "scale": None},
        },
    }


def quiet_note(n_series: int) -> str:
    if n_series <= len(SERIES):
        return ""
    return f"The {len(SERIES)} best at the end are named, {n_series - len(SERIES)} more are faint."


def level_note(rows: Sequence[Row]) -> str:
    text = level_of(rows)
    return f"Bars: {text}." if text[0].isdigit() else f"{text.capitalize()}."


def by_task(results: Results) -> dict[str, list[Row]]:
    """The defined rows of each task and metric, however it was asked."""
    groups: dict[str, list[Row]] = {}
    for rows in defined_columns(results).values():
        for row in rows:
            task = marked_task(row.task_name, row.is_synthetic)
            groups.setdefault(f"{task}\n{row.score.metric}", []).append(row)
    return groups
