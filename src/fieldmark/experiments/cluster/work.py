"""Work of a step (job description): what does a worker need to know, and what does it report?

A step is what one process does: embed a shard of images, or do some runs. Its work is pickled into
`work.pickle` before it is submitted; what became of it is the JSON file `outcome.json`.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from fieldmark.errors import StoreError
from fieldmark.experiments._grid import Job
from fieldmark.experiments._models import KnownModel
from fieldmark.experiments.execute import Failure
from fieldmark.files import write_file
from fieldmark.protocols import PROTOCOLS, protocols
from fieldmark.settings import Settings
from fieldmark.store import RunName

StepKind = Literal["embed", "model", "runs", "chat"]
"""embed: features of a shard of images; model: runs that need the model itself; runs: runs that
need its features only; chat: runs of models that are asked in words"""
WORK, OUTCOME = "work.pickle", "outcome.json"


@dataclass(frozen=True, slots=True)
class StepWork:
    """What a worker does."""

    kind: StepKind
    jobs: tuple[Job, ...]
    """whose images are embedded, or which are run"""
    settings: Settings
    """of the command; its results folder is the one that everything is merged into"""
    models: Mapping[str, KnownModel] = field(default_factory=dict)
    """what was known of the models when the step was made"""
    shard: tuple[int, int] = (0, 1)
    """which of how many shards of the images"""
    after: tuple[str, ...] = ()
    """ids of the steps that must be finished"""
    contents: tuple[Path, ...] = ()
    """snapshots of what the images hold"""
    command: tuple[str, ...] = ()
    """what to type to do it again"""
    force: bool = False
    """finished runs are done again"""
    names: tuple[str, ...] = ()
    """of the runs that are done here; none where images are embedded"""
    cpus: int = 0
    """0 = as many as there are"""
    folder: str = ""
    """where the command was typed: names of files start there"""
    earlier: tuple[Path, ...] = ()
    """attempts of steps that were lost, which hold parts of these runs"""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of a step."""

    names: tuple[RunName, ...] = ()
    """of the runs that are done"""
    failures: tuple[Failure, ...] = ()
    n_claimed: int = 0
    closing_lines: tuple[str, ...] = ()
    """what protocols have to say of all runs together"""
    seconds: float = 0.0
    peak_bytes: int = 0
    """main memory at most"""
    n_embedded: int = 0
    """images whose features were computed"""
    host: str = ""
    models: Mapping[str, KnownModel] = field(default_factory=dict)
    """what the models turned out to be"""
    again: tuple[RunName, ...] = ()
    """those of them that take the place of finished ones"""
    unready: Mapping[str, Failure] = field(default_factory=dict)
    """why runs cannot be done whose images were to be embedded here, by name"""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> StepOutcome:
        content: dict[str, Any] = json.loads(text)
        names = {
            "names": _names(content["names"]),
            "failures": tuple(Failure(**failure) for failure in content["failures"]),
            "closing_lines": tuple(content["closing_lines"]),
            "models": {name: KnownModel(**fields) for name, fields in content["models"].items()},
            "again": _names(content["again"]),
            "unready": {key: Failure(**why) for key, why in content["unready"].items()},
        }
        return cls(**(content | names))


def _names(pairs: Sequence[Sequence[str]]) -> tuple[RunName, ...]:
    return tuple((key, data) for key, data in pairs)


def write_work(folder: Path, work: StepWork) -> None:
    """Keeps the work in a step's folder, whole or not at all."""
    head = {"folder": work.folder, "protocol_path": work.settings.protocol_path}
    write_file(folder / WORK, pickle.dumps(head) + pickle.dumps(work))


def read_work(folder: Path) -> StepWork:
    """The work of a step. From now on this process is in the folder where the command was typed,
    and knows the protocols that were known there.
    """
    try:
        with (folder / WORK).open("rb") as stream:
            head = pickle.load(stream)
            if head["folder"]:
                os.chdir(head["folder"])
            for path in head["protocol_path"]:
                PROTOCOLS.add_folder(path)
            protocols()  # their modules must be there before objects of them are
            work: StepWork = pickle.load(stream)
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError) as error:
        raise StoreError(
            f"{folder / WORK}  cannot be read ({error}): run the same command again."
        ) from error
    return work


def read_outcome(folder: Path) -> StepOutcome | None:
    """Of a finished step (the folder of the step); None where it is not finished, or damaged."""
    try:
        return StepOutcome.from_json((folder / "shard" / OUTCOME).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError, LookupError, TypeError):
        return None
