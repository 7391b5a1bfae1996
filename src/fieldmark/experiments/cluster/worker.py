"""Worker (task runner): how does one process carry out a step, alone and so that a kill loses
nothing?

Its results are its own: a folder `attempt-N` with a store that nobody else opens. When all is done
that folder becomes `shard`, in one rename: whoever sees it sees it whole. A worker that was killed
leaves its attempt to the next one, which takes over what is in it. So does a Slurm job that reached
its time limit: it is put back into the queue (requeue) and resumes there (`StepTask.checkpoint`).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fieldmark.data import MEMORY, Contents, ImageRef, absorb_contents
from fieldmark.embed import fill, in_shard
from fieldmark.errors import ClaimLost, StoreError
from fieldmark.experiments._models import KnownModel, Models
from fieldmark.experiments.cluster.job_folder import WORKER, StepFolder
from fieldmark.experiments.cluster.work import (
    OUTCOME,
    StepOutcome,
    StepWork,
    read_outcome,
    read_work,
)
from fieldmark.experiments.execute import ExecuteOptions, Failure, execute, failure_of
from fieldmark.experiments.identity import joined_name, required_rows
from fieldmark.experiments.plan import Plan, Planned, make_plan
from fieldmark.files import filesystem_of, write_file
from fieldmark.leases import Lease, LeaseFolder
from fieldmark.processes import host, peak_bytes
from fieldmark.progress import Lines
from fieldmark.protocols import embed_options, load_protocol, may_fail, refs_of
from fieldmark.settings import Settings
from fieldmark.store import Store, adopt_shard

NOT_EMBEDDED = 3
"""exit status of a step whose embedding is not there"""
PATIENCE_S = 60.0
"""how long a shared file system may hide what another machine has written"""
MOST_IDLE = 2
"""times in a row that a step is stopped without any progress, before it is given up"""
LOOK_EVERY_S = 0.5
WRITE_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class StepTask:
    """A step as a function without arguments, for submitit."""

    folder: str

    def __call__(self) -> int:
        """The exit status of its process."""
        return run_step(Path(self.folder))

    def checkpoint(self) -> Any:
        """The same again, of a job that is put back into the queue; None where that is no use:
        nothing was brought about since the last time, and nothing then.
        """
        from submitit.helpers import DelayedSubmission

        folder = Path(self.folder)
        # How many times in a row, with this one, a step was stopped where it had stood before.
        step, mark = StepFolder(folder), _brought_about(folder)
        before = step.checkpoint
        n_idle = before["n_idle"] + 1 if before.get("mark") == mark else 0
        with suppress(StoreError):
            step.tell("checkpoint", {"mark": mark, "n_idle": n_idle})
        if n_idle < MOST_IDLE:
            return DelayedSubmission(self)
        StepProgress(folder).say(
            "given up: Slurm restarted this step several times without progress. Give it more time "
            "(`time` in [slurm]) or less work, and run the same command again."
        )
        return None


def _brought_about(folder: Path) -> list[int]:
    """What stays of a step when it is killed: finished parts, and bytes of features and answers.
    Others add to these too; then the step is given up later.
    """
    settings = read_work(folder).settings
    kept = (settings.cache / "features", settings.journal)
    return [max(map(_n_parts, folder.glob("attempt-*")), default=0), *map(_n_bytes, kept)]


def _n_parts(attempt: Path) -> int:
    """Without a look at the journal: this process may be writing."""
    address = f"{(attempt / 'fieldmark.db').absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM part").fetchone()[0])
    except sqlite3.Error:
        return 0


def _n_bytes(folder: Path) -> int:
    n = 0
    for inner, _, names in os.walk(folder):
        for name in names:
            if not name.endswith((".json", ".lease")):  # notes, not work
                with suppress(OSError):
                    n += (Path(inner) / name).stat().st_size
    return n


def run_step(folder: Path) -> int:
    """Carries out a step; 0 when it is finished, whatever became of its runs."""
    folder = folder.absolute()
    work = read_work(folder)
    with LeaseFolder(folder) as leases, StepProgress(folder) as progress:
        lease = _claim(folder, leases, progress)
        if lease is None:
            return 0
        before = _outcomes_before(folder, work)
        if before is None:
            progress.say("the features it needs are missing: run the same command again.")
            return NOT_EMBEDDED
        attempt = folder / f"attempt-{int(lease.path.name.split('.')[-2])}"
        attempt.mkdir(exist_ok=True)
        step = _Step(work, folder, attempt, before, progress)
        outcome = step.carry_out()
        write_file(attempt / OUTCOME, outcome.to_json().encode(), is_durable=True)
        try:
            lease.check()
            attempt.rename(folder / "shard")
        except (ClaimLost, OSError):
            if not (folder / "shard").is_dir():
                raise
        leases.give_up(lease, is_done=True)
        for former in folder.glob("attempt-*"):
            shutil.rmtree(former, ignore_errors=True)
    return 0


def _claim(folder: Path, leases: LeaseFolder, progress: Lines) -> Lease | None:
    """This process's turn, when no other attempt lives; None when one of them has finished."""
    is_waiting = False
    while not (folder / "shard").is_dir():
        lease = leases.claim(WORKER)
        if lease is not None:
            return lease
        if not is_waiting:
            progress.say(f"{leases.holder(WORKER)[0]} is working on this step: waiting for it.")
            is_waiting = True
        time.sleep(LOOK_EVERY_S)
    return None


def _outcomes_before(folder: Path, work: StepWork) -> list[StepOutcome] | None:
    """Of the steps that this one comes after; None where one of them has none."""
    patience = PATIENCE_S if filesystem_of(folder).is_shared else 0.0
    end = time.monotonic() + patience
    while True:
        outcomes = [read_outcome(folder.parent / step) for step in work.after]
        readable = [outcome for outcome in outcomes if outcome is not None]
        if len(readable) == len(outcomes):
            return readable
        if time.monotonic() >= end:
            return None
        time.sleep(LOOK_EVERY_S)
        with suppress(OSError):
            os.listdir(folder.parent)  # noqa: PTH208 - makes a network file system look again


@dataclass(frozen=True, slots=True)
class _Step:
    """A step on its way from its work to its outcome."""

    work: StepWork
    folder: Path
    attempt: Path
    """results folder of this attempt"""
    before: list[StepOutcome]
    progress: Lines

    def carry_out(self) -> StepOutcome:
        began = time.monotonic()
        self._adopt()
        settings = replace(
            self.work.settings,
            results=self.attempt,
            threads=self.work.settings.threads or self.work.cpus,
        )
        models = self._models(settings)
        plan = make_plan(self.work.jobs, settings, may_load=True, models=models, is_private=True)
        plan.workspace.shared |= {"leases": True, "journal": self.work.settings.journal}
        outcome = self._embed(plan) if self.work.kind == "embed" else self._run(plan, settings)
        models.contents.flush()
        return replace(
            outcome, seconds=time.monotonic() - began, peak_bytes=peak_bytes(), host=host()
        )

    def _models(self, settings: Settings) -> Models:
        """Those of a step that needs features only are what the steps before saw them to be."""
        shards = [self.folder.parent / step / "shard" for step in self.work.after]
        also = [*self.work.contents, *(shard / MEMORY for shard in shards)]
        contents = Contents(
            self.attempt / MEMORY, settings.n_threads, [path for path in also if path.is_file()]
        )
        models: dict[str, KnownModel] = dict(self.work.models)
        has_features = self.work.kind == "runs"
        if has_features:
            for outcome in self.before:
                models |= outcome.models
            models = {name: model for name, model in models.items() if model.is_complete}
        folders = (self.work.settings.results / "models",)
        return Models(settings, True, models, contents, has_features, folders)

    def _adopt(self) -> None:
        """Takes over what attempts before this one hold."""
        attempts = StepFolder(self.folder).attempts
        former = [*self.work.earlier, *(path for path in attempts if path != self.attempt)]
        stores = [path / "fieldmark.db" for path in former if (path / "fieldmark.db").is_file()]
        if stores:
            with Store.open(self.attempt / "fieldmark.db", is_private=True) as store:
                for path in stores:
                    adopt_shard(store, path)
        for path in former:
            for name in ("files", "models"):
                if (path / name).is_dir():
                    shutil.copytree(path / name, self.attempt / name, dirs_exist_ok=True)
        memories = [path / MEMORY for path in former if (path / MEMORY).is_file()]
        if memories:
            absorb_contents(self.attempt / MEMORY, memories)

    def _run(self, plan: Plan, settings: Settings) -> StepOutcome:
        refused = {key: why for outcome in self.before for key, why in outcome.unready.items()}
        how = ExecuteOptions(self.work.command, is_private=True, refused=refused)
        outcome = execute(plan, settings, self.progress, how)
        former = [planned.run.name for planned in plan.jobs if planned.run is not None]
        names = tuple(dict.fromkeys([*former, *outcome.names]))
        # Single questions of some runs may be asked again, after these were done.
        has_gaps = any(may_fail(load_protocol(job.protocol)) for job in self.work.jobs)
        failures = list(outcome.failures)
        for planned in plan.jobs:
            if planned.error is not None:  # the data were there when the step was made
                failures.append(failure_of(planned.job, planned.error))
        return StepOutcome(
            names,
            tuple(failures),
            outcome.n_claimed,
            outcome.closing_lines,
            models={job.model: plan.models.known(job.model) for job in self.work.jobs},
            again=names if self.work.force or has_gaps else (),
        )

    def _embed(self, plan: Plan) -> StepOutcome:
        """Features of its shard of all images that the jobs need; what fails, fails the runs."""
        unready: dict[str, Failure] = {}
        by_model: dict[tuple[str, Path], _WantedImages] = {}
        for planned in plan.jobs:
            with _noting([planned], unready):
                _want(planned, plan, by_model)
        n = 0
        for images in by_model.values():
            with _noting(images.jobs, unready):
                refs = [ref for ref in images.refs if in_shard(ref.image, *self.work.shard)]
                options = embed_options(plan.workspace)
                filled = fill(images.backbone, images.root, refs, options, self.progress)
                n += filled.throughput.n_computed
        models = {}
        for name in dict.fromkeys(job.model for job in self.work.jobs):
            models[name] = plan.models.known(name)
            plan.models.note_behaviour(name)
        return StepOutcome(n_embedded=n, models=models, unready=unready)


@dataclass(slots=True)
class _WantedImages:
    """What one backbone is to see in one folder."""

    backbone: Any
    root: Path
    jobs: list[Planned]
    refs: dict[ImageRef, None]


def _want(planned: Planned, plan: Plan, by_model: dict[tuple[str, Path], _WantedImages]) -> None:
    """Adds the images of a job."""
    question = planned.question
    rows = required_rows(question, plan.workspace) if question else None
    if rows is None or question is None or question.backbone is None:
        return
    backbone = question.backbone(plan.models.load(planned.job.model))
    if backbone is None:
        return
    key = (backbone.fingerprint, question.root)
    images = by_model.setdefault(key, _WantedImages(backbone, question.root, [], {}))
    images.jobs.append(planned)
    images.refs.update((ref, None) for refs in refs_of(rows) for ref in refs)


@contextmanager
def _noting(jobs: list[Planned], failures: dict[str, Failure]) -> Iterator[None]:
    """Notes what goes wrong inside as the failure of these runs; the others go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as at the border of a run
        for planned in jobs:
            if planned.spec is not None:
                failures[joined_name(planned.spec)] = failure_of(planned.job, error)


class StepProgress(Lines):
    """Lines for the log, and rows of the journal for whoever looks at the step."""

    def __init__(self, folder: Path, every_s: float = 30.0) -> None:
        self._step, self._written, self._last = StepFolder(folder), 0.0, ""
        super().__init__(every_s)

    def start(self, label: str, total: int) -> None:
        super().start(label, total)
        self._write()

    def advance(self, n: int = 1) -> None:
        super().advance(n)
        self._write()

    def say(self, text: str) -> None:
        super().say(text)
        self._last = text.strip()
        self._write()

    def _write(self) -> None:
        """Now and then; a disk that is full stops no work."""
        now = time.monotonic()
        if now - self._written < WRITE_EVERY_S:
            return
        self._written = now
        row: Mapping[str, Any] = {
            "text": self.label or self._last,
            "n_done": self.done,
            "n_total": self.total,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": host(),
            "pid": os.getpid(),
        }
        with suppress(StoreError):
            self._step.tell("progress", row)
