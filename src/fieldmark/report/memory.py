"""Memory (cache) of what a report worked out: which of it need not be worked out again?

Scores of cells, tiers and verdicts rest on all predictions of some runs, and on nothing else: as
long as the runs are the same, so are they. A file in the cache remembers them, so that a table of
thousands of runs prints at once. It may be deleted at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.store import Run

NAME = "report.json"
RULES = "2"
"""raised whenever the same runs give other results"""
MOST = 5_000
"""results remembered; the oldest go first"""


class Memory:
    """JSON values by what they rest on; without a folder it remembers nothing."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = None if folder is None else folder / NAME
        self.known = _read(self.path)
        self.is_new = False

    def key(
        self, what: str, metric: str, cells: Sequence[Sequence[Run]], values: Sequence[float]
    ) -> str:
        """Changes when a run is done again, even within a second, or scored again with other
        values (its answers may be others then), when fieldmark's own version does, or a metric's
        name.
        """
        runs = [
            "/".join(f"{run.key} {run.finished} {run.seconds} {run.n_ok}" for run in cell)
            for cell in cells
        ]
        app = f"{version('fieldmark')} {RULES}"
        return draws.digest(app, what, metric, *runs, *map(repr, values)).hex()

    def get(self, key: str) -> Any:
        """None where nothing is known."""
        return self.known.get(key)

    def add(self, key: str, value: Any) -> None:
        self.known[key] = value
        self.is_new = True

    def save(self) -> None:
        """Writes what is new; a folder that cannot be written is no fault of a reader's."""
        if self.path is None or not self.is_new:
            return
        latest = dict(list(self.known.items())[-MOST:])
        beside = self.path.with_name(f"{NAME}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(latest))
            beside.replace(self.path)
        except OSError:
            return


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    is_sound = isinstance(content, dict) and all(
        isinstance(value, dict) for value in content.values()
    )
    return content if is_sound else {}
