"""Training log (JSONL, one row a step) and the page that draws it.

`page.html` is one file without scripts or network: it opens from a USB stick, and while the run
goes on it loads itself anew. Its charts are those of `fieldmark plot`: Vega-Lite, drawn as SVG.
Trackers of other packages (entry points of `fieldmark.trackers`, callables `(rows, run_folder)`)
get the same rows; one that raises is reported once and dropped.
"""

from __future__ import annotations

import json
import math
import os
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark import journal
from fieldmark.charts import SERIES, render, themed
from fieldmark.errors import first_line
from fieldmark.files import write_file
from fieldmark.progress import duration
from fieldmark.registry import entry_points_of

if TYPE_CHECKING:
    from fieldmark.build.train.suite import SuiteScore

TRACKERS = "fieldmark.trackers"
PAGE_EVERY_S, PAGE_SHARE = 5.0, 0.01
"""a page at most so often, and at most this share of the run's time for all of them"""
MOST_POINTS = 400
"""of a curve on the page: from there on, each is the mean of neighbouring steps"""
MOST_LOSSES = 1000
"""of the last steps, that are kept in memory"""
STATE = "state.json"
FINISHED = "finished"
GOES_ON = "run the same command to continue"
"""of a run that was stopped on request: a job is put back into the queue where it reads this"""
Row = dict[str, Any]
_TEMPLATE = Path(__file__).with_name("page.html")


@dataclass(frozen=True, slots=True)
class RunState:
    """What stands at the top of the page."""

    name: str
    n_steps: int
    state: str = "running"
    """or finished, or why the run has stopped"""
    recipe: str = ""
    scores: tuple[tuple[int, SuiteScore], ...] = ()
    """of steps"""


class RunLog:
    """The rows of a run on disk, and their curves in memory; `log.jsonl` has every step once."""

    def __init__(self, folder: Path, step: int, say: Callable[[str], None]) -> None:
        """Rows after `step` are cut off: the run goes on from there."""
        self.folder, self.path, self._say = folder, folder / "log.jsonl", say
        self.curves = RunCurves(cut_rows(self.path, step))
        trackers = {}
        for name, point in entry_points_of(TRACKERS).items():
            try:
                trackers[name] = point.load()
            except Exception as error:  # noqa: BLE001  whatever another package does
                say(f"tracker {name!r} is left out: {first_line(error)}.")
        self._trackers = trackers
        self._next_page = -math.inf

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            journal.append_row(self.path, _plain(row))
        self.curves.add(rows)
        for name, tracker in list(self._trackers.items()):
            try:
                tracker([dict(row) for row in rows], self.folder)
            except Exception as error:  # noqa: BLE001  whatever another package does
                self._say(f"tracker {name!r} is dropped: {first_line(error)}.")
                del self._trackers[name]

    def sync(self) -> None:
        """What was written is on the disk: a checkpoint must not be newer than its log."""
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def draw(self, state: RunState, is_due: bool = False) -> None:
        """Writes the page and how the run stands, now and then unless it is due."""
        began = time.monotonic()
        if not is_due and began < self._next_page:
            return
        write_file(self.folder / "page.html", page(self.curves, state).encode())
        about = {"state": state.state, "n_steps": state.n_steps}
        write_file(self.folder / STATE, json.dumps(about).encode())
        now = time.monotonic()
        self._next_page = now + max(PAGE_EVERY_S, (now - began) / PAGE_SHARE)


class Curve:
    """Means of neighbouring steps: at most MOST_POINTS of them, however long the run is."""

    def __init__(self) -> None:
        self._size, self._parts = 1, list[tuple[float, float, int]]()
        """steps of a part; last step, sum and number of the values of each"""

    def add(self, step: int, value: float) -> None:
        _, total, n = self._parts[-1] if self._parts else (0, 0.0, self._size)
        if n < self._size:
            self._parts[-1] = (step, total + value, n + 1)
            return
        if len(self._parts) == MOST_POINTS:
            pairs = zip(self._parts[::2], self._parts[1::2], strict=True)
            self._parts = [(last, a + b, m + n) for (_, a, m), (last, b, n) in pairs]
            self._size *= 2
        self._parts.append((step, value, 1))

    @property
    def points(self) -> list[tuple[float, float]]:
        return [(step, total / n) for step, total, n in self._parts]


class RunCurves:
    """What the page shows of the rows so far; its size does not grow with them."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.last: Row | None = None
        self.losses = deque[float](maxlen=MOST_LOSSES)
        self.n_bad_images = 0
        self._curves: dict[tuple[str, str], Curve] = {}
        self.add(rows)

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.last = row
            self.n_bad_images += row.get("n_bad_images") or 0
            if row.get("loss") is not None:
                self.losses.append(row["loss"])
            for key in row.keys() & _DRAWN:
                values = row[key] if isinstance(row[key], Mapping) else {"": row[key]}
                for name, value in values.items():
                    if value is not None and math.isfinite(value):
                        self._curves.setdefault((key, name), Curve()).add(row["step"], value)

    def named(self, key: str) -> dict[str, list[tuple[float, float]]]:
        return {
            name: curve.points
            for (curve_key, name), curve in self._curves.items()
            if curve_key == key
        }


def read_rows(path: Path, step: float = math.inf) -> list[Row]:
    """The rows up to a step, as far as they are whole."""
    return list(takewhile(lambda row: row["step"] <= step, journal.read_rows(path)))


def cut_rows(path: Path, step: int) -> list[Row]:
    """The rows up to a step; the file has no others from now on."""
    rows = read_rows(path, step)
    write_file(path, b"".join(map(journal.seal, rows)))
    return rows


def _plain(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


# --- the page ---

_DRAWN = {
    "loss": "loss",
    "loss_by_type": "loss by text type",
    "scales": "logit scale",
    "grad_norm": "norm of the gradient",
    "lr": "learning rate",
    "pairs_per_s": "pairs per second, between checkpoints",
    "data_wait": "share of time spent waiting for data",
    "mfu": "model FLOPs utilisation (MFU)",
}
"""columns of the log that are drawn, with the titles of their charts"""


def page(curves: RunCurves, state: RunState) -> str:
    """The whole page."""
    parts = {
        "name": escape(state.name),
        "refresh": '<meta http-equiv="refresh" content="10">' if state.state == "running" else "",
        "state": escape(state.state),
        "facts": "".join(
            f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>"
            for key, value in _facts(curves, state).items()
        ),
        "charts": "".join(_charts(curves)) or "<p>no step yet</p>",
        "scores": _scores(state),
        "recipe": escape(state.recipe),
        "written": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    return _template().format(**parts)


@cache
def _template() -> str:
    return _TEMPLATE.read_text(encoding="utf-8")


def _facts(curves: RunCurves, state: RunState) -> dict[str, str]:
    last = curves.last
    if last is None:
        return {"step": f"0 of {state.n_steps:,}"}
    cells = {"step": f"{last['step']:,} of {state.n_steps:,}"}
    if last.get("loss") is not None:
        cells["loss"] = f"{last['loss']:.4f}"
    if speed := last.get("pairs_per_s"):
        cells["pairs/s"] = f"{speed:,.0f}"
        left_s = (state.n_steps - last["step"]) * last["n_pairs"] / speed
        cells |= (
            {"time left, without checkpoints": duration(left_s)} if state.state == "running" else {}
        )
    for key, label in (("data_wait", "data wait"), ("mfu", "MFU")):
        if last.get(key) is not None:
            cells[label] = f"{100 * last[key]:.1f} %"
    n_bad = curves.n_bad_images
    return cells | ({"unreadable photos": f"{n_bad:,}"} if n_bad else {})


def _charts(curves: RunCurves) -> list[str]:
    return [
        _figure(title, chart(points, has_zero=key not in ("loss", "loss_by_type", "scales")))
        for key, title in _DRAWN.items()
        if (points := curves.named(key))
    ]


def chart(curves: Mapping[str, Sequence[tuple[float, float]]], has_zero: bool) -> dict[str, Any]:
    """Curves over steps, as a Vega-Lite specification; `has_zero`: the axis begins there."""
    values = [
        {"step": step, "value": value, "curve": name}
        for name, points in curves.items()
        for step, value in points
    ]
    colour = {
        "field": "curve",
        "type": "nominal",
        "sort": list(curves),
        "scale": {"range": list(SERIES)},
        "legend": {"title": None, "orient": "bottom", "offset": 2} if len(curves) > 1 else None,
    }
    scale = {"zero": has_zero, "nice": True}
    across = {"title": None, "tickCount": 5, "grid": False}
    up = {"title": None, "tickCount": 5, "format": ".6~g"}
    return themed(
        {
            "width": 420,
            "height": 160,
            "data": {"values": values},
            # A line of one point has no length: a dot shows it.
            "mark": {"type": "line", "strokeWidth": 1.6, "point": len(values) == len(curves)},
            "encoding": {
                "x": {"field": "step", "type": "quantitative", "axis": across},
                "y": {"field": "value", "type": "quantitative", "scale": scale, "axis": up},
                "color": colour,
            },
        }
    )


def _figure(title: str, spec: Mapping[str, Any]) -> str:
    """A picture of its own, so that no name inside one meets that of another."""
    data, label = b64encode(render(spec, "svg")).decode(), escape(title)
    picture = f'<img alt="{label} by step" src="data:image/svg+xml;base64,{data}">'
    return f"<figure><figcaption>{label}</figcaption>{picture}</figure>"


def _scores(state: RunState) -> str:
    if not state.scores:
        return ""
    body = "".join(
        f"<tr><td>{step:,}</td><td>{escape(score.name)}</td>"
        f"<td>{score.figures(score.value)}</td><td>{score.interval}</td></tr>"
        for step, score in state.scores
    )
    head = "<tr><th>step</th><th>task@metric</th><th>score</th><th>95 % interval</th></tr>"
    return f"<h2>scores</h2><table><thead>{head}</thead><tbody>{body}</tbody></table>"
