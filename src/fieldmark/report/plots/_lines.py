"""How is one line per model drawn: a point, its interval, and the number at the edge?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fieldmark.report.plots._panel import Spec
from fieldmark.report.plots._theme import BAND, BLUE, QUIET, SHADE, WIDTH

STEP = 14
"""pixels per line"""


def line_panel(values: Sequence[Spec], x_title: str, title: str = "", zero: bool = False) -> Spec:
    """Lines from top to bottom in the order given.

    A value has label, score, low, high, text, `tied` (drawn in blue), `shaded` (on a band) and
    whatever else tooltips show. `zero` draws a line at nought.
    """
    y = {
        "field": "label",
        "type": "nominal",
        "sort": [each["label"] for each in values],
        "title": None,
    }
    x = {
        "field": "score",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"tickCount": 6},
        "title": x_title,
    }
    colour = {"condition": {"test": "datum.tied", "value": BLUE}, "value": QUIET}
    fill = {"condition": [{"test": "datum.low === null", "value": "white"},
                          {"test": "datum.tied", "value": BLUE}], "value": QUIET}  # fmt: skip
    layers: list[Spec] = [
        {"transform": [{"filter": "datum.shaded"}], "mark": {"type": "rect"},
         "encoding": {"y": y, "color": {"condition": {"test": "datum.tied", "value": BAND},
                                        "value": SHADE}}},
        *([_NOUGHT] if zero else []),
        {"mark": {"type": "rule", "strokeWidth": 1.6},
         "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"},
                      "color": colour}},
        {"mark": {"type": "point", "size": 34, "opacity": 1, "strokeWidth": 1.2},
         "encoding": {"y": y, "x": x, "color": colour, "fill": fill, "tooltip": _TOOLTIP}},
        {"mark": {"type": "text", "align": "right", "dx": max(len(str(each["text"])) for each in
                                                              values) * 5 + 8},
         "encoding": {"y": y, "x": {"value": "width"}, "text": {"field": "text"},
                      "color": colour}},
    ]  # fmt: skip
    panel: Spec = {"width": WIDTH, "height": {"step": STEP}, "data": {"values": list(values)}}
    if title:
        panel["title"] = {"text": title, "fontSize": 10.5}
    return panel | {"layer": layers}


_NOUGHT: dict[str, Any] = {
    "mark": {"type": "rule", "strokeDash": [3, 3], "color": QUIET},
    "encoding": {"x": {"datum": 0}},
}
_TOOLTIP = [
    {"field": "model", "type": "nominal"},
    *({"field": each, "type": "quantitative"} for each in ("score", "low", "high", "n")),
]
