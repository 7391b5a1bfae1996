"""Training log (JSONL, one row a step) and the page that draws it.

`page.html` is one file without scripts or network: it opens from a USB stick, and while the run
goes on it loads itself anew. Trackers of other packages (entry points of `fieldmark.trackers`,
callables `(rows, run_folder)`) get the same rows; one that raises is reported once and dropped.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from fieldmark.errors import DataError, first_line
from fieldmark.files import write_file
from fieldmark.progress import duration
from fieldmark.registry import entry_points_of

TRACKERS = "fieldmark.trackers"
PAGE_EVERY_S = 5.0
MOST_POINTS = 400
"""of a curve on the page: from there on, each is the mean of neighbouring steps"""
MOST_LOSSES = 1000
"""of the last steps, that are kept in memory"""
STATE = "state.json"
FINISHED = "finished"
GOES_ON = "the same command goes on"
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
    scores: tuple[tuple[int, str, float], ...] = ()
    """step, TASK@METRIC, score"""


class RunLog:
    """The rows of a run on disk, and their curves in memory; `log.jsonl` has every step once."""

    def __init__(self, folder: Path, step: int, say: Callable[[str], None]) -> None:
        """Rows after `step` are cut off: the run goes on from there."""
        self.folder, self.path, self._say = folder, folder / "log.jsonl", say
        self.curves = RunCurves(cut_rows(self.path, step))
        self._trackers = _load_trackers(say)
        self._drawn_at = -math.inf

    def write(self, rows: Sequence[Row]) -> None:
        lines = "".join(json.dumps(_plain(row)) + "\n" for row in rows)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:
            raise DataError(f"{self.path}  cannot be written: {error.strerror or error}.") from None
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
        """Writes the page and how the run stands, at most every few seconds unless it is due."""
        now = time.monotonic()
        if is_due or now - self._drawn_at >= PAGE_EVERY_S:
            self._drawn_at = now
            write_file(self.folder / "page.html", page(self.curves, state).encode())
            facts = {"state": state.state, "n_steps": state.n_steps}
            write_file(self.folder / STATE, json.dumps(facts).encode())


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
        return {name: curve.points for (own, name), curve in self._curves.items() if own == key}


def read_rows(path: Path, step: float = math.inf) -> list[Row]:
    """The rows up to a step, as far as the file is whole."""
    rows: list[Row] = []
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                row = _row(line)
                if row is None or row["step"] > step:
                    break
                rows.append(row)
    return rows


def cut_rows(path: Path, step: int) -> list[Row]:
    """The rows up to a step; the file is cut behind them."""
    rows = read_rows(path, step)
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(sum(len(file.readline()) for _ in rows))
    return rows


def _row(line: bytes) -> Row | None:
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None


def _plain(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


def _load_trackers(say: Callable[[str], None]) -> dict[str, Callable[[list[Row], Path], object]]:
    trackers = {}
    for name, point in entry_points_of(TRACKERS).items():
        try:
            trackers[name] = point.load()
        except Exception as error:  # noqa: BLE001  whatever another package does
            say(f"tracker {name!r} is left out: {first_line(error)}.")
    return trackers


# --- the page ---

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b", "#7a5fb5")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520, 220, 56, 24
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
    facts = {"step": f"{last['step']:,} of {state.n_steps:,}"}
    if last.get("loss") is not None:
        facts["loss"] = f"{last['loss']:.4f}"
    if speed := last.get("pairs_per_s"):
        facts["pairs/s"] = f"{speed:,.0f}"
        left_s = (state.n_steps - last["step"]) * last["n_pairs"] / speed
        facts |= (
            {"time left, without checkpoints": duration(left_s)} if state.state == "running" else {}
        )
    for key, label in (("data_wait", "data wait"), ("mfu", "MFU")):
        if last.get(key) is not None:
            facts[label] = f"{100 * last[key]:.1f} %"
    n_bad = curves.n_bad_images
    return facts | ({"unreadable photos": f"{n_bad:,}"} if n_bad else {})


def _charts(curves: RunCurves) -> list[str]:
    charts = [
        chart(title, curves.named(key), key not in ("loss", "loss_by_type", "scales"))
        for key, title in _DRAWN.items()
    ]
    return [text for text in charts if text]


def chart(
    title: str, curves: Mapping[str, Sequence[tuple[float, float]]], from_zero: bool = False
) -> str:
    """Curves over steps, as SVG; "" where there is nothing to draw."""
    if not any(curves.values()):
        return ""
    xs = [x for points in curves.values() for x, _ in points]
    ys = [y for points in curves.values() for _, y in points]
    x_range, y_range = (min(xs), max(xs)), (0.0 if from_zero else min(ys), max(ys))
    if y_range[1] - y_range[0] <= 1e-3 * abs(y_range[1]):
        around = abs(y_range[1]) / 2 or 1.0
        y_range = (0.0 if from_zero else y_range[0] - around, y_range[1] + around)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_range[0]) / ((x_range[1] - x_range[0]) or 1)
        up = (y - y_range[0]) / ((y_range[1] - y_range[0]) or 1)
        return _LEFT + across * (_WIDTH - _LEFT - 8), 8 + (1 - up) * (_HEIGHT - _BOTTOM - 8)

    parts = [_grid_line(place(x_range[0], tick)[1], tick) for tick in _ticks(*y_range)]
    for step, anchor in dict(zip(x_range, ("start", "end"), strict=True)).items():
        x = place(step, y_range[0])[0]
        parts.append(
            f'<text x="{x:.0f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{step:,.0f}</text>'
        )
    legend = []
    for number, (name, points) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        places += f" {places}" if len(points) == 1 else ""  # a line of no length is a dot
        parts.append(f'<polyline points="{places}" stroke="{colour}"/>')
        legend.append(f'<span style="--c:{colour}">{escape(name)}</span>')
    shown = f"<p class=legend>{''.join(legend)}</p>" if len(curves) > 1 else ""
    label = escape(title)
    return (
        f"<figure><figcaption>{label}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label} by step">'
        f"{''.join(parts)}</svg>{shown}</figure>"
    )


def _grid_line(y: float, tick: float) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.4g}</text>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """About four round numbers between the two."""
    span = high - low
    size = 10 ** math.floor(math.log10(span / 4))
    step = next(size * factor for factor in (1, 2, 5, 10) if span / (size * factor) <= 5)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _scores(state: RunState) -> str:
    if not state.scores:
        return ""
    body = "".join(
        f"<tr><td>{step:,}</td><td>{escape(name)}</td><td>{score:.3f}</td></tr>"
        for step, name, score in state.scores
    )
    head = "<tr><th>step</th><th>task@metric</th><th>score</th></tr>"
    return f"<h2>scores</h2><table><thead>{head}</thead><tbody>{body}</tbody></table>"
