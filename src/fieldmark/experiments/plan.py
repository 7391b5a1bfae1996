"""Plan (dry run, cost estimate): why is a job skipped, and what would running the others cost?

Looks, and touches nothing but what is remembered of files in the cache: no store is written, no
model loaded unless `may_load`.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fieldmark.chat import Estimate, Usual
from fieldmark.data import Contents, ImageRef
from fieldmark.embed import ModelCache, cached_models, read_keys
from fieldmark.errors import CodeNotRun, FieldmarkError, UsageError
from fieldmark.experiments._grid import Job
from fieldmark.experiments._models import Models
from fieldmark.experiments.gaps import Gaps
from fieldmark.experiments.identity import (
    identify,
    prepare,
    read_content,
    recorded_path,
    required_rows,
    why_again,
    with_content,
)
from fieldmark.models import abilities, stand_in
from fieldmark.progress import Progress
from fieldmark.protocols import (
    PROTOCOLS,
    MissingData,
    Question,
    Workspace,
    load_protocol,
    may_fail,
    refs_of,
)
from fieldmark.registry import MOCK
from fieldmark.settings import Settings
from fieldmark.store import Claim, Run, RunFilter, RunName, RunSpec, Store

Status = Literal["run", "done", "claimed", "no data", "no code", "refused"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A job, whether it will run, and what that takes."""

    job: Job
    status: Status
    why: str = ""
    question: Question | None = None
    spec: RunSpec | None = None
    """its identity, but for the model's version and what images hold; there with the question"""
    run: Run | None = None
    """the finished run"""
    n_images: int = 0
    """distinct images it needs"""
    n_missing: int = 0
    """of these, the ones whose features must be computed (jobs before it counted in)"""
    seconds: float | None = None
    """None: nothing measured yet to judge by"""
    n_bytes: int | None = None
    """features to be written; None: the model's size is not known before it is loaded"""
    error: FieldmarkError | None = None
    """why it cannot run, as what a command would raise"""
    cost: Estimate | None = None
    """of a chat model: requests, tokens, and money where the price is known"""


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: tuple[Planned, ...]
    models: Models
    """what is known of them"""
    workspace: Workspace
    """what the runs share: tables, questions, what images hold as far as it was looked at"""

    @property
    def to_run(self) -> tuple[Planned, ...]:
        return tuple(job for job in self.jobs if job.status == "run")

    @property
    def seconds(self) -> float | None:
        seconds = [job.seconds for job in self.to_run if job.seconds is not None]
        return sum(seconds) if seconds and len(seconds) == len(self.to_run) else None

    @property
    def cost(self) -> Estimate | None:
        """Of all chat models together; its money is None where a price is unknown."""
        costs = [job.cost for job in self.to_run if job.cost is not None]
        if not costs:
            return None
        usd, likely = [cost.usd for cost in costs], [cost.likely_usd for cost in costs]
        total, likely_total = (
            None if None in all_usd else sum(value for value in all_usd if value is not None)
            for all_usd in (usd, likely)
        )
        tokens = (sum(cost.tokens_in for cost in costs), sum(cost.tokens_out for cost in costs))
        n = sum(cost.n for cost in costs)
        return Estimate(n, *tokens, total, likely_usd=likely_total)

    @property
    def n_bytes(self) -> int | None:
        sizes = [job.n_bytes for job in self.to_run if job.n_bytes is not None]
        return sum(sizes) if len(sizes) == len(self.to_run) else None


def make_plan(
    jobs: Sequence[Job],
    settings: Settings,
    force: bool = False,
    may_load: bool = False,
    models: Models | None = None,
    is_private: bool = False,
) -> Plan:
    """What would happen. Reads tables, the store, and images whose content must be known to tell
    whether a finished run holds; with `may_load` models too, where only that tells what they are.

    `models` is what is known of them already; `is_private`: nobody else has the results folder.
    """
    models = models or Models(settings, may_load)
    workspace = Workspace(settings, models.contents)
    with Store.open(settings.store, read_only=True, is_private=is_private) as store:
        past = _Past.of(store)
    planner = _Planner(settings, workspace, models, past, force, is_private)
    planned = [job for job in map(planner.plan, jobs) if job is not None]
    # A curve from 0 photos on: that a probe has no such point is told, and is no failure.
    larger = {(job.model, job.task_name, job.protocol) for job in jobs if job.draw.n_train}
    planned = [
        replace(job, error=None)
        if job.error is not None
        and job.job.draw.n_train == 0
        and (job.job.model, job.job.task_name, job.job.protocol) in larger
        and job.job.protocol in PROTOCOLS
        and load_protocol(job.job.protocol).training == "needed"
        else job
        for job in planned
    ]
    # Models of which the jobs to run need features only, all of them in the cache, are not loaded.
    to_run = [job for job in planned if job.status == "run"]
    needed = {
        job.job.model
        for job in to_run
        if not (job.question and job.question.needs_features_only and job.n_images) or job.n_missing
    }
    models.cached = frozenset({job.job.model for job in to_run} - needed)
    return Plan(tuple(planned), models, workspace)


def data_errors(jobs: Sequence[Job], settings: Settings) -> list[FieldmarkError]:
    """Why jobs could not be prepared, without a look at models and results. Jobs whose model and
    task do not go together are left to the plan.
    """
    workspace = Workspace(settings, Contents(None))
    errors: list[FieldmarkError] = []
    for job in jobs:
        can = abilities(job.model)
        try:
            if not load_protocol(job.protocol).why_not(job.task, job.draw, job.settings, can):
                prepare(job, workspace)
        except CodeNotRun:
            continue
        except FieldmarkError as error:
            errors.append(error)
    return errors


@dataclass(frozen=True, slots=True)
class _Past:
    """What the store knows."""

    done: dict[str, list[Run]]
    """by key, the newest last"""
    models: frozenset[str]
    """of which runs are done"""
    claims: dict[str, Claim]
    seconds: dict[tuple[str, str], dict[int | None, list[float]]]
    """how long one repeat of runs took, by task and protocol, and by n_train"""

    @classmethod
    def of(cls, store: Store) -> _Past:
        done: dict[str, list[Run]] = defaultdict(list)
        seconds: dict[tuple[str, str], dict[int | None, list[float]]] = {}
        runs = store.runs(RunFilter(states=("done",)))
        for run in sorted(runs, key=lambda run: run.id):
            done[run.key].append(run)
            if run.seconds is not None:
                of_size = seconds.setdefault((run.spec.task, run.spec.protocol), {})
                of_size.setdefault(run.spec.n_train, []).append(run.seconds / run.spec.repeats)
        models = frozenset(run.spec.model for run in runs)
        return cls(done, models, store.claims(), seconds)


@dataclass(slots=True)
class _Planner:
    settings: Settings
    workspace: Workspace
    models: Models
    past: _Past
    force: bool
    is_private: bool = False
    _asked: set[tuple[RunName, str]] = field(default_factory=set)
    """name, as far as it is known before images are read, and folder"""
    _specs: dict[tuple[int, str], RunSpec] = field(default_factory=dict)
    """by question and name of the task, for all models"""
    _refs: dict[int, list[ImageRef]] = field(default_factory=dict)
    _counted: dict[str, set[tuple[Path, ImageRef]]] = field(default_factory=dict)
    """images that jobs before will have embedded, by model"""
    _missing: dict[tuple[str, int, Path], int] = field(default_factory=dict)
    _caches: dict[str, ModelCache] | None = None
    _keys: dict[str, set[bytes]] = field(default_factory=dict)

    def plan(self, job: Job) -> Planned | None:
        """None for the same question of the same data, asked from another file before."""
        planned = self._judge(job)
        if planned.question is None or planned.spec is None:
            return planned
        spec = with_content(planned.spec, self.models.identity(job.model).version)
        pair = (spec.name, recorded_path(planned.question.root))
        if pair in self._asked:
            return None
        self._asked.add(pair)
        former = self._existing_run(planned, planned.question, spec)
        return self._measure(planned, former) if isinstance(former, str) else former

    def _existing_run(self, planned: Planned, question: Question, spec: RunSpec) -> Planned | str:
        """The job as done or claimed; else why it is done again ("" = it is new)."""
        if not spec.model_version:
            unknown = "whether its model has changed cannot be checked until it is loaded"
            return unknown if spec.model in self.past.models else ""
        key = spec.key
        former = self.past.done.get(key, [])
        if former:
            content = read_content(question, self.workspace)
            spec = with_content(spec, spec.model_version, content.digest)
            same = next((run for run in former if run.spec.data == spec.data), None)
            if same and not self.force:
                n_broken = len(content.broken) if self.settings.bad_images != "skip" else 0
                if n_broken:
                    unread = f"{n_broken} of its images cannot be read"
                    return f"{unread}, and were left out when it was done"
                if again := self._asked_again(question, same):
                    return again
                return replace(planned, status="done", why="already in the results", run=same)
        if holder := self.past.claims.get(key):
            who = f"process {holder.pid} on {holder.host}"
            why = f"{who} is running it (if not: `fieldmark runs free`)"
            return replace(planned, status="claimed", why=why)
        return "" if self.force else why_again(spec, former, question.root)

    def _asked_again(self, question: Question, run: Run) -> str:
        """How many questions of a finished run are asked again; "" = none."""
        if not may_fail(load_protocol(question.protocol)):
            return ""
        store_path, is_private = self.settings.store, self.is_private
        with Store.open(store_path, read_only=True, is_private=is_private) as store:
            gaps = Gaps.of(store, [run.id])
        n = gaps.n_asked_again(question.asks_again)
        return f"{n:,} of its {gaps.n:,} questions are asked again" if n else ""

    def _judge(self, job: Job) -> Planned:
        if job.protocol not in PROTOCOLS:
            return _refused(
                job, "no code", UsageError(f"this version has no protocol `{job.protocol}`.")
            )
        protocol = load_protocol(job.protocol)
        try:
            why = protocol.why_not(job.task, job.draw, job.settings, abilities(job.model))
            if why:
                return _refused(job, "refused", UsageError(f"{why}."))
            question = prepare(job, self.workspace)
            refuse_mock(job.model, f"task {job.task_name!r}", question.is_synthetic)
            key = (id(question), job.task_name)
            if key not in self._specs:
                self._specs[key] = identify(job, question)
            spec = replace(self._specs[key], model=job.model)
            return Planned(job, "run", question=question, spec=spec)
        except CodeNotRun as error:
            return Planned(job, "run", f"unknown until it runs: {error}")
        except MissingData as error:
            return _refused(job, "no data", error)
        except FieldmarkError as error:
            return _refused(job, "refused", error)

    def _measure(self, planned: Planned, why: str) -> Planned:
        job, question, spec = planned.job, planned.question, planned.spec
        assert question is not None and spec is not None
        try:
            journal = None if self.models.may_load else self.settings.journal  # `run` finds out
            usual = self._usual(spec.model)
            cost = load_protocol(job.protocol).estimate(question, job.model, journal, usual)
        except CodeNotRun as error:
            return replace(planned, why=f"cost unknown until it runs: {error}")
        except FieldmarkError as error:
            return _refused(job, "refused", error)
        why = why or question.note
        if cost is not None:  # nothing is embedded: what counts is what answers cost
            return replace(planned, why=why, n_bytes=0, cost=cost)
        rows = required_rows(question, self.workspace)
        if rows is None:
            return replace(planned, why=why, n_bytes=0)
        if id(rows) not in self._refs:
            flat = (ref for refs in refs_of(rows) for ref in refs)
            self._refs[id(rows)] = list(dict.fromkeys(flat))
        cache = self._cache(job.model, question)
        n_missing = self._n_missing(job.model, question, id(rows), cache)
        n_bytes = n_missing * (cache.dim * 4 + 24) if cache else (None if n_missing else 0)
        return replace(
            planned,
            why=why,
            n_images=len(self._refs[id(rows)]),
            n_missing=n_missing,
            seconds=self._seconds(spec, n_missing, cache),
            n_bytes=n_bytes,
        )

    def _usual(self, model: str) -> Usual:
        """What requests took in the newest run of a chat model."""
        runs = [run for runs in self.past.done.values() for run in runs if run.spec.model == model]
        if not runs:
            return Usual()
        newest, path = max(runs, key=lambda run: run.id), self.settings.store
        with Store.open(path, read_only=True, is_private=self.is_private) as store:
            notes = [part.info or {} for part in store.finished_parts(newest.id)]
        n = sum(note.get("n_requests", 0) for note in notes)
        shares = [note["charged_share"] for note in notes if note.get("charged_share")]
        n_out = sum(note.get("tokens_out", 0) for note in notes)
        return Usual(n_out / n if n else 0.0, shares[-1] if shares else 0.0)

    def _cache(self, model: str, question: Question) -> ModelCache | None:
        """The features of just this version of the model; None: none are there, or it is not known
        before it is loaded which version it is.
        """
        if self._caches is None:
            every = cached_models(self.settings.cache)
            self._caches = {cache.fingerprint: cache for cache in every}
        fingerprint = self.models.identity(model).fingerprint
        return self._caches.get(question.cache_name(fingerprint))

    def _n_missing(
        self, model: str, question: Question, rows: int, cache: ModelCache | None
    ) -> int:
        """Images to embed, as far as can be told without reading any: one whose content is not
        known counts.
        """
        root, name = question.root, f"{model} {question.cache_name('features')}"
        key = (name, rows, root)
        if key in self._missing:  # a job before this one does all of it
            return 0
        self._missing[key] = 0
        counted = self._counted.setdefault(name, set())
        fresh = [ref for ref in self._refs[rows] if (root, ref) not in counted]
        counted.update((root, ref) for ref in fresh)
        if cache is None:
            return len(fresh)
        if cache.fingerprint not in self._keys:
            self._keys[cache.fingerprint] = read_keys(cache.folder)
        have, keys = self._keys[cache.fingerprint], self.models.contents.item_keys(root, fresh)
        return sum(keys.get(ref) not in have for ref in fresh)

    def _seconds(self, spec: RunSpec, n_missing: int, cache: ModelCache | None) -> float | None:
        """Embedding at the speed seen before, and the probe's time in earlier runs of the task."""
        # Of runs that trained on as many images; else of those that trained on most.
        of_size = self.past.seconds.get((spec.task, spec.protocol), {})
        most = max(of_size, key=lambda n: math.inf if n is None else n, default=None)
        alike = of_size.get(spec.n_train) or of_size.get(most, [])
        speed = cache.images_per_s if cache else None
        if not alike or (n_missing and not speed):
            return None
        usual = sorted(alike)[len(alike) // 2] * spec.repeats
        return usual + (n_missing / speed if speed else 0.0)


def disk_left(settings: Settings) -> int:
    folder = settings.cache
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def refuse_mock(model: str, of: str, is_synthetic: bool) -> None:
    """A mock is told the answers: of real photos its score would look like a model's."""
    if stand_in(model) == MOCK and not is_synthetic:
        raise UsageError(
            f"model {model!r} is a mock that knows the right answers. It runs on synthetic photos "
            f"only, and those of {of} are real. `fieldmark models` lists real models."
        )


def _refused(job: Job, status: Status, error: FieldmarkError) -> Planned:
    return Planned(job, status, " ".join(str(error).splitlines()), error=error)


def replace_data(settings: Settings, data: Mapping[str, Path]) -> Settings:
    """The folders an experiment file names, under those that flags name."""
    return dataclasses.replace(settings, data={**data, **settings.data})


def wait_for_claims(plan: Plan, settings: Settings, progress: Progress) -> bool:
    """Where runs are claimed by processes that cannot be seen from here: waits until these are
    heard, or their claims have run out, since they died. True: make the plan again.
    """
    held: dict[str, str] = {}
    for job in plan.jobs:
        if job.status == "claimed" and job.spec is not None:
            version = plan.models.identity(job.job.model).version
            held[with_content(job.spec, version).key] = job.why
    if not held:
        return False
    with Store.open(settings.store, read_only=True) as store:
        store.wait_for_unseen(held, lambda key: progress.status(f"waiting: {held[key]}"))
        return not held.keys() <= store.claims().keys()
