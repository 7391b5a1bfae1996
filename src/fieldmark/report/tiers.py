"""Tiers from stored predictions: which models cannot be told apart on a task?

Tiers rest on all predictions of a column, and on nothing else: as long as the runs are the same,
so are their tiers. A file in the cache remembers them, so that a table of thousands of runs prints
at once. It may be deleted at any time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from fieldmark import draws
from fieldmark.errors import FieldmarkError
from fieldmark.store import Run, Store

BEST = "A"


def tier_runs(store: Store, runs: Sequence[Run], metric: str) -> dict[int, str] | None:
    """The letter of each run, best tier first; None where they cannot be compared."""
    from fieldmark.report.paired import read_paired
    from fieldmark.report.providers import pairing_metric
    from fieldmark.stats import errors, tiers

    if len(runs) < 2:
        return None
    try:
        function = pairing_metric(store, runs[0], metric)
    except FieldmarkError:  # a user's own metric whose file is not here
        return None
    if function is None:
        return None
    paired = read_paired(store, runs, function)
    if not len(paired.items.target):
        return None
    shared = tiers(errors(paired.items, paired.answer_mn, paired.metric))
    return {run.id: letter for run, letter in zip(runs, shared.letters, strict=True)}


NAME = "tiers.json"
MOST = 5_000
"""columns remembered; the oldest go first"""


class TierCache:
    """Tiers by what they rest on; without a file it remembers nothing."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = None if folder is None else folder / NAME
        self.known = _read(self.path)
        self.is_new = False

    def tiers(self, runs: Sequence[Run], metric: str) -> dict[int, str] | None:
        letters = self.known.get(_key(runs, metric))
        return (
            None if letters is None else dict(zip([run.id for run in runs], letters, strict=True))
        )

    def add(self, runs: Sequence[Run], metric: str, letters: dict[int, str]) -> None:
        self.known[_key(runs, metric)] = [letters[run.id] for run in runs]
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


def _key(runs: Sequence[Run], metric: str) -> str:
    """Changes when a run is done again, when fieldmark's own version does, or a metric's name."""
    what = [f"{run.key} {run.finished} {run.n_ok}" for run in runs]
    return draws.digest(version("fieldmark"), metric, *what).hex()


def _read(path: Path | None) -> dict[str, list[str]]:
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    is_sound = isinstance(content, dict) and all(
        isinstance(letters, list) for letters in content.values()
    )
    return content if is_sound else {}
