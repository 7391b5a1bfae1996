"""Chart theme and renderer (Vega-Lite): how does a plot look, and how does it become a file?

One theme: readable when printed as wide as a journal's column, colours of Okabe and Ito, which stay
apart for colour-blind readers and in grey. Files are made by vl-convert, which carries Vega and a
JavaScript engine: no browser, no network. The same specification gives the same bytes; of a PDF the
same objects, whose order vl-convert leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fieldmark.errors import UnknownName

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
VERSION = "6.4"
"""of Vega-Lite, for the renderer"""

BLUE, ORANGE, GREEN, PINK, SKY, RED = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00",
)  # fmt: skip
INK, QUIET, FAINT, BAND, SHADE = "#222222", "#767676", "#D9D9D9", "#E3EEF6", "#F5F5F5"
SERIES = (BLUE, RED, GREEN, PINK, ORANGE, SKY, INK)
"""in the order they are given out; more series than these are drawn quietly"""

WIDTH = 300
"""of a single panel in pixels; with its labels it fills a column of 90 mm at 8 points"""

_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_CONFIG: dict[str, Any] = {
    "background": "white",
    "font": _FONT,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "frame": "bounds",
        "color": INK,
        "fontSize": 12,
        "fontWeight": 600,
        "subtitleColor": "#555555",
        "subtitleFontSize": 9.5,
        "subtitlePadding": 4,
        "offset": 8,
    },
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 9.5,
        "titleFontSize": 10,
        "titleFontWeight": "normal",
        "gridColor": "#EBEBEB",
        "domainColor": "#9A9A9A",
        "tickColor": "#9A9A9A",
        "tickSize": 4,
        "labelLimit": 0,
    },
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 9.5,
        "titleFontSize": 9.5,
        "titleFontWeight": "normal",
        "labelLimit": 0,
        "symbolSize": 60,
    },
    "text": {"fontSize": 9, "color": INK, "font": _FONT},
    "header": {"labelFontSize": 10.5, "labelColor": INK, "labelFontWeight": 600, "title": None},
    "concat": {"spacing": 26},
}


def themed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The plot with schema and theme; its data are inside already."""
    return {"$schema": SCHEMA, "config": _CONFIG, **spec}


# --- files ---


SUFFIXES = ("png", "svg", "pdf")
_SCALE = 2
"""PNG pixels per unit: a panel with its names gets 300 dots per inch in a column of 90 mm"""


def render(spec: Mapping[str, Any], suffix: str) -> bytes:
    """The picture in the format of that suffix."""
    import vl_convert as vl

    if suffix not in SUFFIXES:
        raise UnknownName("picture format", suffix, SUFFIXES)
    make: Callable[..., bytes | str] = getattr(vl, f"vegalite_to_{suffix}")
    options = {"scale": _SCALE} if suffix == "png" else {}
    made = make(dict(spec), VERSION, allowed_base_urls=[], **options)
    return made.encode() if isinstance(made, str) else bytes(made)
