"""Plots: results → pictures, and the same pictures in the page.

A file here without a leading underscore is a plot (`forest.py` is `fieldmark plot forest`): its
docstring says what it shows, its `plot(results)` returns a Vega-Lite specification. Specifications
are plain mappings: importing altair takes longer than a whole plot may, so it is left to `chart`,
for notebooks, and to the tests, which hold every plot against altair's schema.

    results = read_results(store)
    spec = draw("forest", results)          what the page embeds
    render(spec, "png")                     what goes into a paper
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fieldmark import exports
from fieldmark.charts import SUFFIXES, render, themed
from fieldmark.registry import Registry
from fieldmark.words import printable

if TYPE_CHECKING:
    import altair

    from fieldmark.report.plots._panel import Results, read_results

__all__ = [
    "PLOTS",
    "SUFFIXES",
    "Results",
    "chart",
    "draw",
    "read_results",
    "render",
    "what_it_shows",
]

PLOTS = Registry("plot", "fieldmark.report.plots", "fieldmark plot")

__getattr__ = exports(__name__)


def draw(kind: str, results: Results) -> dict[str, Any]:
    """The Vega-Lite specification of a plot, in fieldmark's theme, with its data inside.

    DataError where the results hold nothing of what the plot shows.
    """
    spec: dict[str, Any] = _without_controls(themed(PLOTS.get(kind).plot(results)))
    return spec


def _without_controls(value: Any) -> Any:
    """The same with control characters spelled out: the renderer aborts the process on them."""
    if isinstance(value, Mapping):
        return {name: _without_controls(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_controls(inner) for inner in value]
    return printable(value, "\n\t") if isinstance(value, str) else value


def chart(kind: str, results: Results) -> altair.TopLevelMixin:
    """The same as an altair chart, to be shown or changed in a notebook."""
    import altair

    return altair.Chart.from_dict(draw(kind, results))


def what_it_shows(kind: str) -> str:
    """The first line of the plot's docstring."""
    return (PLOTS.get(kind).__doc__ or "").partition("\n")[0]
