"""Pareto front: score against number of parameters, or images per second, and who leads in both.

A model is on the Pareto front when no other is at least as good and at most as dear, and better in
one of the two. `--by speed` draws images per second, on the machine that computed the features,
reading and decoding of images included. Vega-Lite moves no labels, so their places are chosen here:
the sides of a point are tried in turn against all points and the labels that stand already. A name
that fits nowhere is left out, and said so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fieldmark.charts import BLUE, INK, QUIET
from fieldmark.errors import DataError, UnknownName
from fieldmark.report.facts import images_per_s, parameters
from fieldmark.report.plots._panel import (
    Results,
    Spec,
    columns_in_words,
    datum,
    few_answers,
    figure,
    first_panels,
    heading,
    panels,
    points_note,
    rival_columns,
    score_title,
    short_names,
    undefined,
    without_family,
    without_interval,
)
from fieldmark.report.rows import Row, mark_notes
from fieldmark.words import first_few

SIZE = (350, 250)
Domains = tuple[tuple[float, float], tuple[float, float]]
"""of cost and score"""


@dataclass(frozen=True, slots=True)
class CostAxis:
    """What is on the horizontal axis."""

    title: str
    """of the axis"""
    words: str
    """in the figure's title: "size" """
    lacking: str
    """how models without it are spoken of"""
    is_better_small: bool
    values: Mapping[str, float]
    """by model, as the rows name it"""


def plot(results: Results) -> Spec:
    """Score against cost, a panel per task."""
    cost = _cost(results)
    columns = rival_columns(results)
    with_cost = {
        name: [row for row in rows if cost.values.get(row.model)] for name, rows in columns.items()
    }
    shown, more = first_panels([name for name, rows in with_cost.items() if rows])
    have = {row.model for rows in with_cost.values() for row in rows}
    lacking = sorted({row.label for row in results.rows if row.model not in have})
    if not shown:
        raise DataError(f"{cost.lacking} for all these models: there is nothing to draw.")
    drawn = [_panel(with_cost[name], cost, heading(with_cost[name][0])) for name in shown]
    rows = [row for name in shown for row in with_cost[name]]
    unnamed = sorted({model for _, names in drawn for model in names})
    notes = [
        f"{points_note(rows)} Blue, joined: no other model is both better and "
        f"{'smaller' if cost.is_better_small else 'faster'}. Intervals may still overlap.",
        few_answers(rows),
        f"{cost.lacking}: {first_few(lacking)}." if lacking else "",
        f"No room for the names of {first_few(unnamed)}." if unnamed else "",
        more,
        without_interval(rows),
        undefined(results.rows),
        *mark_notes(rows),
    ]
    where = columns_in_words([with_cost[name][0] for name in shown])
    parts = [spec for spec, _ in drawn]
    if len(parts) == 1:
        parts[0].pop("title")
    return figure(f"Score against {cost.words} on {where}", notes, panels(parts), len(parts))


def _cost(results: Results) -> CostAxis:
    by = results.by or "size"
    if by == "size":
        values = parameters(results.store, results.rows)
        title = "parameters of the image tower"
        return CostAxis(title, by, "Number of parameters unknown", True, values)
    if by == "speed":
        values = images_per_s(results.store, results.rows)
        title = "images per second, on the machine of the run"
        return CostAxis(title, by, "Speed not recorded", False, values)
    raise UnknownName("cost of a model", by, ["size", "speed"])


def front_of(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other beats; (cost, loss), both better when smaller.

    >>> front_of([(1, 5), (2, 3), (3, 4), (4, 1)])
    [0, 1, 3]
    """
    front: list[int] = []
    least = math.inf
    for index in sorted(range(len(points)), key=lambda index: points[index]):
        if points[index][1] < least:
            front.append(index)
            least = points[index][1]
    return front


def _panel(rows: Sequence[Row], cost: CostAxis, title: str) -> tuple[Spec, list[str]]:
    """The panel, and the front's models that got no name."""
    sign_cost = 1 if cost.is_better_small else -1
    sign_score = -1 if rows[0].score.higher_is_better else 1
    costs = [cost.values[row.model] for row in rows]
    real = [index for index, row in enumerate(rows) if not row.stand_in]
    points = [(sign_cost * costs[index], sign_score * rows[index].score.value) for index in real]
    front = [real[at] for at in front_of(points)]
    order = [*front, *(index for index in range(len(rows)) if index not in front)]
    names = short_names(row.name for row in rows)
    values = [
        datum(rows[index], names) | {"cost": costs[index], "front": index in front}
        for index in order
    ]
    domains = _domains(values)
    n_named = len(values) if len(values) <= 12 else len(front)
    unnamed = _name(values, n_named, domains, sign_cost)
    return _drawn(values, domains, cost, score_title(rows[0].score), title), unnamed


def _domains(values: Sequence[Spec]) -> Domains:
    """Of cost (log) and score, with some air."""
    costs = [math.log10(value["cost"]) for value in values]
    scores = [value[key] for value in values for key in ("score", "low", "high")
              if value[key] is not None]  # fmt: skip
    air_cost = max(0.15 * (max(costs) - min(costs)), 0.2)
    air_score = max(0.05 * (max(scores) - min(scores)), 1e-6 + abs(max(scores)) * 0.01)
    return (
        (10 ** (min(costs) - air_cost), 10 ** (max(costs) + air_cost)),
        (min(scores) - air_score, max(scores) + air_score),
    )


def _name(values: Sequence[Spec], n_named: int, domains: Domains, below: int) -> list[str]:
    """Gives the first models a place for their names; returns those of the front without one."""
    (left, right), (bottom, top) = domains
    span = math.log10(right) - math.log10(left)
    points = [
        (
            SIZE[0] * (math.log10(value["cost"]) - math.log10(left)) / span,
            SIZE[1] * (1 - (value["score"] - bottom) / (top - bottom)),
        )
        for value in values
    ]
    short = short_names((without_family(value["model"]) for value in values), 30)
    texts = [short[without_family(value["model"])] for value in values]
    positions = place_labels(texts[:n_named], points, SIZE, below)
    for value, text, position in zip(values, texts, positions, strict=False):
        if position is not None:
            value |= {"name": text, "align": position.align, "dx": position.dx, "dy": position.dy}
    return [value["model"] for value in values[:n_named] if "name" not in value and value["front"]]


def _drawn(
    values: Sequence[Spec], domains: Domains, cost: CostAxis, y_title: str, title: str
) -> Spec:
    x = {"field": "cost", "type": "quantitative", "title": cost.title,
         "scale": {"type": "log", "domain": list(domains[0]), "nice": False},
         "axis": {"format": "~s", "grid": False, "tickCount": 5,
                  "labelExpr": "replace(datum.label, 'G', 'B')"}}  # fmt: skip
    y = {"field": "score", "type": "quantitative", "title": y_title,
         "scale": {"domain": list(domains[1]), "nice": False, "zero": False},
         "axis": {"tickCount": 6}}  # fmt: skip
    colour = {"condition": {"test": "datum.front", "value": BLUE}, "value": QUIET}
    fill = {"condition": [{"test": "datum.low === null", "value": "white"},
                          {"test": "datum.front", "value": BLUE}], "value": QUIET}  # fmt: skip
    step = "step-after" if cost.is_better_small else "step-before"
    layers: list[Spec] = [
        {"transform": [{"filter": "datum.front"}],
         "mark": {"type": "line", "interpolate": step,
                  "color": BLUE, "opacity": 0.45,
                  "strokeWidth": 1.2},
         "encoding": {"x": x, "y": y}},
        {"mark": {"type": "rule", "strokeWidth": 1.3, "opacity": 0.6},
         "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"},
                      "color": colour}},
        {"mark": {"type": "point", "size": 34, "opacity": 1, "strokeWidth": 1.2},
         "encoding": {"x": x, "y": y, "color": colour, "fill": fill,
                      "tooltip": [{"field": "model", "type": "nominal"},
                                  *({"field": name, "type": "quantitative"}
                                    for name in ("score", "low", "high", "cost"))]}},
        *_names(values, x, y),
    ]  # fmt: skip
    width, height = SIZE
    return {"width": width, "height": height, "title": {"text": title, "fontSize": 10.5},
            "data": {"values": list(values)}, "layer": layers}  # fmt: skip


def _names(values: Sequence[Spec], x: Spec, y: Spec) -> list[Spec]:
    """A layer per way of standing: align and offset belong to the mark, not to the data."""
    ways = sorted(
        {(value["align"], value["dx"], value["dy"]) for value in values if "name" in value}
    )
    return [
        {
            "transform": [
                {
                    "filter": f"datum.name && datum.align === '{align}' && datum.dx === {dx:g} "
                    f"&& datum.dy === {dy:g}"
                }
            ],
            "mark": {"type": "text", "align": align, "dx": dx, "dy": dy, **look},
            "encoding": {"x": x, "y": y, "text": {"field": "name"}},
        }
        for look in ({"stroke": "white", "strokeWidth": 3, "color": "white"}, {"color": INK})
        for align, dx, dy in ways
    ]


# --- places of labels ---


CHARACTER, HEIGHT, GAP = 4.6, 11.0, 6.0
"""pixels of a letter at 9 points, of a line, and between a point and its name"""


@dataclass(frozen=True, slots=True)
class LabelPosition:
    """A label's anchor relative to its point."""

    align: str
    dx: float
    dy: float


def _places(below: int) -> tuple[LabelPosition, ...]:
    """In the order tried; `below` is 1 where the space below a point is freer, else -1."""
    near, far = 0.8 * HEIGHT, GAP + HEIGHT / 2
    return (
        LabelPosition("left", GAP, below * near),
        LabelPosition("right", -GAP, -below * near),
        LabelPosition("left", GAP, 0),
        LabelPosition("right", -GAP, 0),
        LabelPosition("center", 0, below * far),
        LabelPosition("center", 0, -below * far),
        LabelPosition("left", GAP, -below * near),
        LabelPosition("right", -GAP, below * near),
        LabelPosition("left", 0, below * 2 * near),
        LabelPosition("left", 0, -below * 2 * near),
    )


Box = tuple[float, float, float, float]


def place_labels(
    texts: Sequence[str],
    points: Sequence[tuple[float, float]],
    size: tuple[float, float],
    below: int = 1,
) -> list[LabelPosition | None]:
    """A place for each text beside its point, or None; earlier ones choose first.

    `points` holds all points, those of the texts first; pixels from the left and the top.
    """
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    positions: list[LabelPosition | None] = []
    for text, point in zip(texts, points, strict=False):
        position = next(_free(text, point, taken, size, below), None)
        if position is not None:
            taken.append(_box(text, point, position))
        positions.append(position)
    return positions


def _free(
    text: str,
    point: tuple[float, float],
    taken: Sequence[Box],
    size: tuple[float, float],
    below: int,
) -> Iterator[LabelPosition]:
    for position in _places(below):
        left, top, right, bottom = box = _box(text, point, position)
        is_inside = left >= -2 and top >= -8 and right <= size[0] + 12 and bottom <= size[1] + 2
        if is_inside and not any(_overlap(box, other) for other in taken):
            yield position


def _box(text: str, point: tuple[float, float], position: LabelPosition) -> Box:
    width = CHARACTER * len(text)
    start = {"left": 0.0, "right": -width, "center": -width / 2}[position.align]
    left, middle = point[0] + position.dx + start, point[1] + position.dy
    return left, middle - HEIGHT / 2, left + width, middle + HEIGHT / 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
