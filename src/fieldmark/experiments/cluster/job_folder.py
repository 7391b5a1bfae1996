"""Job folder (shared folder): which steps are there, who is on each, and what came of it?

All that launchers and workers tell each other lies below `RESULTS/cluster/`. A step is a folder
with two journals: `launcher.jsonl`, to which launchers write one after the other, under the leases
`launch` and `merge`, and `worker.jsonl` of the worker that has the step's lease. What a journal
says last counts. No database is written by two, since that fails on shared file systems. A step is
finished when `shard/` is there, which its worker renames into place as the last thing it does; it
is merged when its journal says that all of `shard/` is in the store.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.data import MEMORY
from fieldmark.errors import DataError
from fieldmark.experiments.cluster.work import StepOutcome, read_outcome, write_work
from fieldmark.journal import append_row, read_rows
from fieldmark.leases import LeaseFolder

if TYPE_CHECKING:
    from fieldmark.experiments.cluster.steps import PlannedStep

KEEP_S = 7 * 24 * 3600.0
"""how long merged steps stay, for `status` and `logs`"""
_TOO_LITTLE_MEMORY = re.compile(rb"exceeded (job |step )?memory limit|oom.?kill", re.IGNORECASE)
WORKER = "worker"
"""the name of a worker's lease in its step's folder"""
_LAUNCHER, _WORKER = "launcher.jsonl", "worker.jsonl"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What everybody may know of a step."""

    kind: str
    """embed, model, runs or chat"""
    title: str
    """what it does, in a few words"""
    runs: tuple[str, ...] = ()
    """titles of its runs"""
    names: tuple[str, ...] = ()
    """names of its runs, in the order of the titles: equal names are equal runs"""
    after: tuple[str, ...] = ()
    """steps that must have finished before"""
    request: Mapping[str, Any] = field(default_factory=dict)
    """seconds, memory_bytes, cpus, gpus"""
    created: str = ""
    """UTC"""
    executor: str = ""
    """slurm, local or debug"""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What an executor made of a step."""

    executor: str
    id: str
    """as the executor names it: `1234_7` on Slurm, a process number on this machine"""
    name: str = ""
    log: str = ""
    """the file that what the worker prints goes to"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """what else the executor wants to find again"""


class StepFolder:
    """One step: a view of its folder, read anew at every look but for what never changes."""

    def __init__(self, path: Path) -> None:
        self.path, self.id = path, path.name
        self._leases = LeaseFolder(path)

    @property
    def tag(self) -> str:
        """What the steps of one launch have in common in their names."""
        return short_id(self.id).partition("-")[0]

    def __repr__(self) -> str:
        return f"StepFolder({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepFolder) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def write_record(self, record: StepRecord) -> None:
        self.note("step", asdict(record))

    @cached_property
    def record(self) -> StepRecord:
        data = self._last(_LAUNCHER, "step")
        if data is None:
            raise DataError(f"{self.path / _LAUNCHER}  is damaged: remove {self.path}.")
        return StepRecord(**(data | {key: tuple(data[key]) for key in ("runs", "names", "after")}))

    @property
    def job(self) -> JobRecord | None:
        """None until it was submitted."""
        data = self._last(_LAUNCHER, "job")
        return None if data is None else JobRecord(**data)

    def write_job(self, job: JobRecord) -> None:
        self.note("job", asdict(job))

    @property
    def is_cancelled(self) -> bool:
        """Was it cancelled since it was submitted last?"""
        is_so = False
        for row in read_rows(self.path / _LAUNCHER):
            is_so = "cancelled" in row or (is_so and "queued" not in row)
        return is_so

    @property
    def intent(self) -> Any:
        """What its executor noted just before it handed the step on; None before."""
        return self._last(_LAUNCHER, "intent")

    def note(self, kind: str, value: object = True) -> None:
        """Adds what a launcher has to say: step, job, intent, queued, cancelled, merged."""
        append_row(self.path / _LAUNCHER, {kind: value})

    @property
    def shard(self) -> Path:
        """What the worker left; there when the step is finished."""
        return self.path / "shard"

    @property
    def is_finished(self) -> bool:
        return self.shard.is_dir()

    @property
    def merged_at(self) -> float:
        """When, by the clock of the machine that merged it; 0 before."""
        return float(self._last(_LAUNCHER, "merged") or 0.0)

    @property
    def is_merged(self) -> bool:
        return self.merged_at > 0

    def mark_merged(self) -> None:
        """From now on its results are in the store; what it says of them stays."""
        self.note("merged", time.time())
        for name in ("fieldmark.db", "fieldmark.db-journal"):
            (self.shard / name).unlink(missing_ok=True)

    @property
    def outcome(self) -> StepOutcome | None:
        """What came of it; None until it is finished."""
        return read_outcome(self.path)

    def tell(self, kind: str, value: Mapping[str, Any]) -> None:
        """Adds what its worker has to say: progress, checkpoint."""
        append_row(self.path / _WORKER, {kind: dict(value)})

    @property
    def progress(self) -> dict[str, Any]:
        """`text, n_done, n_total, when, host, pid` as the worker last wrote them; {} before."""
        return self._last(_WORKER, "progress") or {}

    @property
    def checkpoint(self) -> dict[str, Any]:
        """`mark, n_idle` of the last time that it was put back into the queue; {} before."""
        return self._last(_WORKER, "checkpoint") or {}

    def _last(self, name: str, kind: str) -> Any:
        last = None
        for row in read_rows(self.path / name):
            last = row.get(kind, last)
        return last

    @property
    def has_worker(self) -> bool:
        """Does a worker hold its lease? One on another machine is heard for a while to tell."""
        return not self._leases.is_free(WORKER)

    @property
    def attempts(self) -> list[Path]:
        """Private results folders of attempts that were not finished, the first one first."""
        folders = [path for path in self.path.glob("attempt-*") if path.is_dir()]
        return sorted(folders, key=lambda path: int(path.name.partition("-")[2] or 0))

    @property
    def logs(self) -> list[Path]:
        """The files that hold what its worker printed, as far as they are there."""
        job = self.job
        named = [Path(job.log)] if job is not None and job.log else []
        return [path for path in dict.fromkeys([self.path / "log.txt", *named]) if path.is_file()]

    @property
    def had_too_little_memory(self) -> bool:
        """Does Slurm say so at the end of a log? https://slurm.schedmd.com/faq.html#OOM"""
        with suppress(OSError):
            return any(_TOO_LITTLE_MEMORY.search(_end_of(path)) for path in self.logs)
        return False


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return file.read()


class JobFolder:
    """All steps of a results folder."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.folder = results.absolute() / "cluster"
        self._steps: dict[str, StepFolder] = {}

    def make(self) -> None:
        """DataError where the results cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            text = f"{self.folder}  cannot be written: {error.strerror or error}."
            raise DataError(text) from error

    @property
    def steps_folder(self) -> Path:
        return self.folder / "steps"

    @property
    def contents_folder(self) -> Path:
        """What is remembered of files: a snapshot for the workers of each launch, `TAG.db`."""
        return self.folder / "contents"

    def steps(self) -> list[StepFolder]:
        """All of them, the oldest first. The same step is the same object at every call, so that
        the silence of its worker can be timed.
        """
        try:
            names = sorted(
                entry.name
                for entry in os.scandir(self.steps_folder)
                if not entry.name.startswith(".") and entry.is_dir()
            )
        except FileNotFoundError:
            names = []
        self._steps = {
            name: self._steps.get(name) or StepFolder(self.steps_folder / name) for name in names
        }
        return list(self._steps.values())

    def step(self, name: str) -> StepFolder | None:
        step = self._steps.get(name) or StepFolder(self.steps_folder / name)
        return step if step.path.is_dir() else None

    def new_steps(
        self, planned: Sequence[PlannedStep], executor: str, tag: str = ""
    ) -> list[StepFolder]:
        """Writes the folders of planned steps; those they come after stand before them. A step
        appears whole. `tag` is what all of them have in common in their names, which sort by
        time: what was made later in the same second has the greater name.
        """
        tag, now = tag or new_tag(), datetime.now(UTC)
        ids = [f"{now:%Y%m%dT%H%M%S%f}-{tag}-{number:04d}" for number in range(len(planned))]
        self.steps_folder.mkdir(parents=True, exist_ok=True)
        steps = []
        for step_id, step in zip(ids, planned, strict=True):
            after = tuple(ids[index] for index in step.after)
            work = replace(step.work, after=after)
            record = StepRecord(
                kind=step.kind,
                title=step.title,
                runs=tuple(job.title for job in work.jobs) if step.kind != "embed" else (),
                names=tuple(work.names) if step.kind != "embed" else (),
                after=after,
                request=asdict(step.request),
                created=f"{now:%Y-%m-%dT%H:%M:%SZ}",
                executor=executor,
            )
            hidden = self.steps_folder / f".{step_id}"
            hidden.mkdir()
            StepFolder(hidden).write_record(record)
            write_work(hidden, work)
            hidden.rename(self.steps_folder / step_id)
            steps.append(StepFolder(self.steps_folder / step_id))
            self._steps[step_id] = steps[-1]
        return steps

    def prune(self, now: Callable[[], float] = time.time) -> None:
        """Removes steps that were merged long ago."""
        for step in self.steps():
            if step.is_merged and now() - step.merged_at > KEEP_S:
                self.drop(step)
        self.drop_contents()

    def drop(self, step: StepFolder) -> None:
        shutil.rmtree(step.path, ignore_errors=True)
        self._steps.pop(step.id, None)

    def drop_contents(self) -> None:
        """Removes what is remembered of files where no step will read it any more: snapshots of
        launches whose steps are all finished, and what merged steps have seen.
        """
        steps = self.steps()
        unfinished = [step for step in steps if not step.is_finished]
        tags = {step.tag for step in unfinished}
        awaited = {name for step in unfinished for name in step.record.after}
        memories = [s.shard / MEMORY for s in steps if s.is_merged and s.id not in awaited]
        with suppress(FileNotFoundError):
            snapshots = list(self.contents_folder.iterdir())
            memories += [path for path in snapshots if path.name.partition(".")[0] not in tags]
        for path in memories:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def short_id(step: str) -> str:
    """What people are shown of a step's id, without the time: it tells steps apart.

    >>> short_id("20261116T201500123456-ab12-0003")
    'ab12-0003'
    """
    return step.partition("-")[2] or step


def new_tag() -> str:
    """Tells the steps of one launch from those of others: four letters or digits."""
    return secrets.token_hex(2)
