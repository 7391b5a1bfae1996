"""Building blocks of plots: which pieces do several of them share?

Names short enough for an axis, scores in the unit they are shown in, panels side by side, and the
lines of words that say what is shown and what is not.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fieldmark.charts import BAND, BLUE, QUIET, SHADE, WIDTH
from fieldmark.errors import DataError
from fieldmark.report.rows import Row, Table, read_table, without_stand_ins
from fieldmark.store import RunFilter, Score, Store, nothing_stored
from fieldmark.words import first_few

# --- Results for a plot: which scores does it look at?
#
# Those of the table, with the table's intervals, tiers and ranks: a plot works out none of its
# own.

MOST_PANELS = 4
"""in one figure, as many as a page of a paper takes"""


@dataclass(frozen=True, slots=True)
class Results:
    """The table asked for, and the store it came from, still open."""

    store: Store
    table: Table
    by: str = ""
    """what the x axis is where a plot has several; "" = the plot chooses"""

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.table.rows

    def columns(self) -> dict[str, list[Row]]:
        """The rows by column, best first; the columns with most rows first."""
        columns: dict[str, list[Row]] = {}
        for row in self.rows:
            columns.setdefault(f"{row.column}\n{row.score.metric}", []).append(row)
        ordered = sorted(columns.items(), key=lambda column: -len(column[1]))
        return {name: sorted(column_rows, key=_from_best) for name, column_rows in ordered}


def read_results(
    store: Store, where: RunFilter | None = None, metric: str = "", by: str = ""
) -> Results:
    """The finished runs asked for, compared; DataError where there are none."""
    table = read_table(store, where, metric)
    if not table.rows:
        raise nothing_stored(store.path)
    return Results(store, table, by)


def defined_columns(results: Results) -> dict[str, list[Row]]:
    """The columns without scores that are not defined: NaN cannot be drawn."""
    columns = {
        name: [row for row in rows if not math.isnan(row.score.value)]
        for name, rows in results.columns().items()
    }
    defined = {name: rows for name, rows in columns.items() if rows}
    if not defined:
        raise DataError("none of these runs has a defined score: there is nothing to draw.")
    return defined


def rival_columns(results: Results) -> dict[str, list[Row]]:
    """The defined columns, of rows that compete."""
    columns = {
        name: [row for row in rows if row.competes]
        for name, rows in defined_columns(results).items()
    }
    return {name: rows for name, rows in columns.items() if rows}


def _from_best(row: Row) -> tuple[bool, float, str]:
    """Stand-ins come last, whatever they score."""
    value = row.score.value if row.score.higher_is_better else -row.score.value
    return bool(row.stand_in), math.inf if math.isnan(value) else -value, row.name


Spec = dict[str, Any]
LONGEST = 42
"""characters of a name on an axis"""


def short_names(names: Iterable[str], longest: int = LONGEST) -> dict[str, str]:
    """Each name, its middle left out where it is long; no two become the same.

    >>> list(short_names(["timm/vit_base_patch16_224.augreg"], longest=16).values())
    ['timm/vit…4.augreg']
    """
    short_of: dict[str, str] = {}
    for name in dict.fromkeys(names):
        room = longest
        while (short := _shortened(name, room)) in short_of.values() and room < len(name):
            room += 1
        short_of[name] = short
    return short_of


def _shortened(name: str, longest: int) -> str:
    if len(name) <= longest:
        return name
    tail = (longest - 1) // 2
    return f"{name[: longest - 1 - tail]}…{name[len(name) - tail :]}"


def without_family(model: str) -> str:
    """For names beside points and lines, where there is little room.

    >>> without_family("open-clip/hf-hub:imageomics/bioclip-2"), without_family("mine")
    ('imageomics/bioclip-2', 'mine')
    """
    return model.partition("/")[2].removeprefix("hf-hub:") or model


def datum(row: Row, names: Mapping[str, str]) -> Spec:
    """What is drawn of a row; tooltips in the page show all of it."""
    scale, score = row.score.scale, row.score
    return {
        "model": row.name,
        "label": names[row.name],
        "score": rounded(scale * score.value),
        "low": None if score.low is None else rounded(scale * score.low),
        "high": None if score.high is None else rounded(scale * score.high),
        "n": score.n,
    }


def rounded(value: float) -> float:
    """Six figures: what is drawn must not depend on the last bits of a processor."""
    return float(f"{value:.6g}")


def score_title(score: Score) -> str:
    unit = ", %" if score.is_fraction else ""
    direction = "higher" if score.higher_is_better else "lower"
    return f"{score.metric}{unit} ({direction} is better)"


def heading(row: Row) -> str:
    """A column in one line: `newt (n_train=10)`."""
    task, _, more = row.column.partition("\n")
    return f"{task} ({more.replace(chr(10), ', ')})" if more else task


def columns_in_words(firsts: Sequence[Row]) -> str:
    """What several columns are, given a row of each: `3 tasks`, `2 tasks in 4 columns`."""
    if len(firsts) == 1:
        return heading(firsts[0])
    n_tasks = len({(row.task_name, row.is_synthetic) for row in firsts})
    drawn = "synthetic " * all(row.is_synthetic for row in firsts)
    tasks = f"{n_tasks} {drawn}task{'s' * (n_tasks > 1)}"
    return tasks if n_tasks == len(firsts) else f"{tasks} in {len(firsts)} columns"


def models_in_words(rows: Sequence[Row]) -> str:
    """`1 model`, `3 models`, `3 models in 7 setups`."""
    rows = without_stand_ins(rows) or rows
    n_models, n_rows = len({row.model for row in rows}), len({row.name for row in rows})
    models = f"{n_models} model{'s' * (n_models > 1)}"
    return models if n_models == n_rows else f"{models} in {n_rows} setups"


def figure(title: str, notes: Sequence[str], body: Mapping[str, Any], n_panels: int = 1) -> Spec:
    """The body under a title and lines that say how to read it, as wide as one panel or two."""
    width = 92 if n_panels == 1 else 180
    lines = [line for note in notes if note for line in textwrap.wrap(note, width)]
    title_lines = textwrap.wrap(title, int(width * 0.75))
    return {"title": {"text": title_lines, "subtitle": lines}, **body}


def panels(parts: Sequence[Spec], per_row: int = 2) -> Spec:
    """One panel alone, several in rows."""
    if len(parts) == 1:
        return dict(parts[0])
    return {"concat": list(parts), "columns": per_row}


def first_panels(columns: Sequence[str], most: int = MOST_PANELS) -> tuple[list[str], str]:
    """As many columns as a figure takes, and what to say of the others."""
    note = f"Shown: {most} of {len(columns)} columns, those with the most models."
    return list(columns[:most]), note if len(columns) > most else ""


def level_of(rows: Sequence[Row]) -> str:
    """`95 % intervals`, or that there are none."""
    if all(row.score.low is None for row in rows):
        return "no intervals are known for these scores"
    return "95 % intervals"


def points_note(rows: Sequence[Row]) -> str:
    """How scores are drawn."""
    level = level_of(rows)
    return f"Points are scores{f', lines {level}' if level[0].isdigit() else f': {level}'}."


def without_interval(rows: Sequence[Row]) -> str:
    lacking = [row.name for row in rows if row.score.low is None]
    if not lacking or len(lacking) == len(rows):
        return ""
    return f"Hollow points have no interval: {first_few(sorted(set(lacking)))}."


def undefined(rows: Sequence[Row]) -> str:
    lost = sorted({row.name for row in rows if row.score.value != row.score.value})
    return f"Not drawn, because the score is not defined: {first_few(lost)}." if lost else ""


def few_answers(rows: Sequence[Row]) -> str:
    """Who left many questions without an answer, each of which counts as wrong."""
    few = {row.name: row for row in rows if row.caveat}
    named = [f"{name} {row.caveat}" for name, row in sorted(few.items())]
    return f"Missing answers count as wrong: {first_few(named)}." if named else ""


# --- one line per model: a point, its interval, the number at the edge ---


STEP = 14
"""pixels per line"""


def line_panel(
    values: Sequence[Spec],
    x_title: str,
    title: str = "",
    zero: bool = False,
    under: Callable[[Spec], list[Spec]] | None = None,
) -> Spec:
    """Lines from top to bottom in the order given.

    A value has label, score, low, high, text, `tied` (drawn in blue), `shaded` (on a band) and
    whatever else tooltips show. `zero` draws a line at nought, `under` gives further layers for
    the axis of scores.
    """
    y = {
        "field": "label",
        "type": "nominal",
        "sort": [value["label"] for value in values],
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
        *(under(x) if under else []),
        {"mark": {"type": "rule", "strokeWidth": 1.6},
         "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"},
                      "color": colour}},
        {"mark": {"type": "point", "size": 34, "opacity": 1, "strokeWidth": 1.2},
         "encoding": {"y": y, "x": x, "color": colour, "fill": fill, "tooltip": _TOOLTIP}},
        {"mark": {"type": "text", "align": "right", "dx": max(len(str(value["text"])) for value in
                                                              values) * 5 + 8},
         "encoding": {"y": y, "x": {"value": "width"}, "text": {"field": "text"},
                      "color": colour}},
    ]  # fmt: skip
    panel: Spec = {"width": WIDTH, "height": {"step": STEP}, "data": {"values": list(values)}}
    if title:
        panel["title"] = {"text": title, "fontSize": 10.5, "frame": "group"}
    return panel | {"layer": layers}


_NOUGHT: dict[str, Any] = {
    "mark": {"type": "rule", "strokeDash": [3, 3], "color": QUIET},
    "encoding": {"x": {"datum": 0}},
}
_TOOLTIP = [
    {"field": "model", "type": "nominal"},
    *({"field": name, "type": "quantitative"} for name in ("score", "low", "high", "n")),
]
