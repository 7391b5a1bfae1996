"""Records: what goes into the store and comes out of it?

Plain frozen records, the canonical JSON that their hashes stand on, and the checksums that say
whether they are as they were written. No database here.
"""

from __future__ import annotations

import math
import os
import platform
import re
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.files import canonical_json
from fieldmark.processes import host, output_of
from fieldmark.registry import installed_version

OK = "ok"
"""the outcome of an item that was answered; any other word is the reason why not"""
UNANSWERED = {"failed": "failed", "refused": "refused", "length": "cut off", "unparsed": "not read"}
"""the other outcomes that chat models' items may have, and what they are called in a sentence"""
NOT_SENT = "not sent"
"""how the reason begins of a question that failed without being sent: asking again cannot help"""
AMONG_ANSWERED, ANSWERED_RATE = "among_answered", "answered_rate"
"""names of two scores of a run: its own metric among the photos answered, and their share;
the run's other scores count what was not answered as wrong"""


RunName = tuple[str, str]
"""what a stored run is found by: its key, and its content digest"""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """All that defines a run: two runs are the same exactly when these fields are."""

    model: str
    task: str
    protocol: str
    """how the model is asked, with its method: "probe/neighbours" """
    settings: Mapping[str, Any] = field(default_factory=dict)
    """whatever else changes the answers; JSON values only"""
    n_train: int | None = None
    """asked for, not what a small class could give; None: all"""
    n_test: int | None = None
    seed: int = 0
    repeats: int = 1
    task_variant: str = ""
    task_version: str = ""
    data: str = ""
    """the content digest, ROWS-IMAGES: of items, labels and units, and of what their images hold;
    ROWS+EXAMPLES where documents are shown with examples"""
    model_version: str = ""
    """what the model is: its name without paths, `#`, and a hash of its code, weights and
    arithmetic"""

    @property
    def task_name(self) -> str:
        """As it is typed: `newt`, `newt@simpleshot`."""
        return f"{self.task}@{self.task_variant}" if self.task_variant else self.task

    @property
    def rows(self) -> str:
        """What stands for the rows in `data`: the same with other images, or other examples."""
        return re.split("[-+]", self.data)[0]

    @property
    def key(self) -> str:
        """Thirty-two hex digits that stand for all fields but the content; a model counts as what
        it is, not as where its file was found."""
        values = {fact.name: getattr(self, fact.name) for fact in fields(self)}
        del values["data"]
        if self.model_version:
            del values["model"]
        return draws.digest(canonical_json(values)).hex()

    @property
    def name(self) -> RunName:
        return self.key, self.data


@dataclass(frozen=True, slots=True)
class Marks:
    """What readers must be told of a run. None of it makes the run another one: the name of a
    stand-in and the images of a synthetic dataset are in the key already.
    """

    stand_in: str = ""
    """the model is none: "mock", "control"; "": it is one"""
    is_synthetic: bool = False
    """the data were drawn by fieldmark"""


NO_MARKS = Marks()


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the store knows it."""

    id: int
    spec: RunSpec
    key: str
    state: str
    """"running" (or killed), "done" or "failed" """
    error: str | None
    created: str
    started: str
    finished: str | None
    seconds: float | None
    n_items: int | None
    n_ok: int | None
    fingerprint: str
    app: str
    root: str = ""
    """folder the data lay in when it ran; "": not known"""
    warnings: tuple[str, ...] = ()
    """what in its data makes its scores wrong: test photos in training, ..."""
    marks: Marks = NO_MARKS

    @property
    def name(self) -> RunName:
        return self.key, self.spec.data


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs; empty: all. Names may hold * and ?; "probe" takes "probe/ridge" too, a model
    `m.py:Mine#4ae7` only the version that begins so.
    """

    models: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    n_train: tuple[int | None, ...] = ()
    seeds: tuple[int, ...] = ()
    states: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """where a task ran in several folders, the one whose scores count; leaves no run out"""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Columns of equal length. Labels are names, not numbers."""

    ids: Sequence[str]
    targets: Sequence[str | None]
    predictions: Sequence[str | None]
    """None where there is no answer"""
    scores: Sequence[float | None] | None = None
    """how sure the model was; NaN and None both mean not known, and read back as null"""
    units: Sequence[str | None] | None = None
    outcomes: Sequence[str] | None = None
    """None: all "ok" """
    infos: Sequence[str | None] | None = None
    contents: Sequence[bytes | None] | None = None
    """16-byte digests of what each item's images hold; None: not known"""


@dataclass(frozen=True, slots=True)
class PartResult:
    """One piece of a run: a part (such as one NeWT task) in one repeat."""

    predictions: Predictions
    part: str = ""
    repeat: int = 0
    n_train: int | None = None
    """examples really used"""
    seconds: float = 0.0
    info: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PartRecord:
    """A finished part as the store knows it."""

    part: str
    repeat: int
    finished: str
    n_train: int | None
    n_items: int
    n_ok: int
    seconds: float
    info: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Score:
    """One number with its interval."""

    metric: str
    value: float
    """NaN: not defined for these predictions"""
    part: str = ""
    """"" is the whole run; else a part, or a group of them"""
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    n: int = 0
    n_units: int | None = None
    method: str = ""
    is_primary: bool = False
    higher_is_better: bool = True
    is_fraction: bool = True
    """lies in [0, 1] and is shown as percent"""
    warning: str = ""
    """why the score or its interval cannot be trusted; "" = it is as good as it claims"""

    @property
    def scale(self) -> float:
        """What its values are multiplied by to be shown: fractions become percent."""
        return 100.0 if self.is_fraction else 1.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A process that is on the runs of a key."""

    key: str
    host: str
    place: str
    pid: int
    born: str
    started: str
    heartbeat: str


def utc_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def known(value: float | None) -> float | None:
    """None for NaN: SQLite has no NaN, and JSON neither."""
    return None if value is None or math.isnan(value) else float(value)


# --- checksums (CRC-32) ---
#
# A disk that flips a bit, or somebody's editor, leaves numbers that look like any others. `doctor`
# and merging compare; `table`, which must stay fast, does not. A list of items has one already: its
# key.


SCORE_COLUMNS = (
    "part, metric, value, low, high, level, n, n_units, method, is_primary, higher_is_better, "
    "is_fraction, warning"
)


def answer_sum(columns: Sequence[bytes | None]) -> int:
    """Of the packed columns: prediction, outcome, score, info."""
    crc = 0
    for blob in columns:
        length = -1 if blob is None else len(blob)
        crc = zlib.crc32(blob or b"", zlib.crc32(length.to_bytes(8, "little", signed=True), crc))
    return crc


def score_sum(columns: Sequence[Any]) -> int:
    """Of a score's `SCORE_COLUMNS`."""
    plain = [float(value) if isinstance(value, (int, float)) else value for value in columns]
    return zlib.crc32(repr(plain).encode("utf-8", "surrogatepass"))


def items_key(packed_items: Sequence[bytes], content: bytes | None) -> bytes:
    return blake2b(b"".join([*packed_items, content or b""]), digest_size=16).digest()


# --- Provenance record: what must be written down so that a run can be done again?
#
# Asked for when a run begins, never at import: there may be no checkout, no git and no GPU.
# Nothing heavy is imported to find a version; a package that is not loaded had no part in the
# run.


_ALWAYS = ("fieldmark", "numpy", "scikit-learn", "scipy", "polars", "pillow")
_IF_LOADED = {
    "torch": "torch",
    "torchvision": "torchvision",
    "timm": "timm",
    "open_clip": "open_clip_torch",
    "transformers": "transformers",
}
_GIT_TIMEOUT_S = 5.0


def reproduction_record(
    command: Sequence[str], config: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Command, configuration, versions, machine and git state, with further facts of the caller's.

    The facts (model fingerprint, data signature, device, ...) and the configuration must be JSON
    values.
    """
    return {
        "command": list(command),
        "config": None if config is None else dict(config),
        "versions": _versions(),
        "host": host(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "gpus": _gpus(),
        "git": git_state(Path.cwd()),
        **more,
    }


def _versions() -> dict[str, str]:
    packages = [*_ALWAYS, *(name for module, name in _IF_LOADED.items() if module in sys.modules)]
    versions = {
        name: version for name in packages if (version := installed_version(name)) is not None
    }
    return {"python": platform.python_version(), **versions}


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def git_state(folder: Path) -> dict[str, Any] | None:
    """The commit and whether tracked files differ; None outside a checkout or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "is_dirty": bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    # Asking must not write to the index.
    quiet = {"GIT_OPTIONAL_LOCKS": "0"}
    text = output_of(["git", *arguments], _GIT_TIMEOUT_S, folder, quiet)
    return None if text is None else text.strip()
