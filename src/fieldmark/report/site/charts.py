"""Which charts does the page draw? The same as `fieldmark plot`, as Vega-Lite specifications."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fieldmark.errors import DataError
from fieldmark.report.plots import PLOTS, draw, what_it_shows
from fieldmark.report.plots._results import Results
from fieldmark.report.plots._theme import VERSION
from fieldmark.report.rows import Table
from fieldmark.report.site.scripts import without_folders
from fieldmark.report.site.summary import shown_models
from fieldmark.store import Store

_NOTICE = (
    "/* Vega, Vega-Lite and Vega-Embed: copyright University of Washington Interactive Data Lab "
    "and contributors, BSD-3-Clause licence; bundled by vl-convert. */\n"
)
_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def chart_specs(store: Store, table: Table) -> dict[str, dict[str, Any]]:
    """Name → what it shows and its specification, for every plot these results can fill."""
    names = shown_models(table)
    rows = tuple(replace(row, model=names[row.model]) for row in table.rows)
    results = Results(store, rows)
    found = {}
    for name in sorted(PLOTS.names()):
        try:
            spec = draw(name, results)
        except DataError:  # nothing of what this plot shows
            continue
        found[name] = {"about": what_it_shows(name), "spec": _without_folders(spec)}
    return found


def vega_script() -> bytes:
    """The libraries that draw specifications, as one classic script."""
    import vl_convert

    bundle = vl_convert.javascript_bundle(_SNIPPET, VERSION)
    return f"{_NOTICE}(() => {{\n{bundle}\n}})();\n".encode()


def _without_folders(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.startswith(("http://", "https://")) else without_folders(value)
    if isinstance(value, dict):
        return {key: _without_folders(each) for key, each in value.items()}
    return [_without_folders(each) for each in value] if isinstance(value, list) else value
