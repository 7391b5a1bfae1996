"""Steps of a plan (partition of the work): which process does what, after which other, and what
does it need for that?

Per model and folder of images there is a chain: steps that embed a shard of the images, then steps
that do runs. Runs that need features only (`Question.needs_features_only`) load no weights. Models
that are asked in words have one step per provider, whose rate limit one process holds; one for all
where money is limited. Nothing is written here.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fieldmark.embed import throughput_of
from fieldmark.errors import UsageError, join_problems
from fieldmark.experiments._grid import Job
from fieldmark.experiments.cluster.requests import PastUse, request_for
from fieldmark.experiments.cluster.requests import StepRequest as StepRequest
from fieldmark.experiments.cluster.work import StepKind, StepWork
from fieldmark.experiments.identity import joined_name, with_content
from fieldmark.experiments.plan import Plan, Planned
from fieldmark.models import abilities, is_own_model, may_use_gpu
from fieldmark.protocols import PROTOCOLS
from fieldmark.registry import ANSWERS, is_file_reference
from fieldmark.settings import Settings
from fieldmark.words import counted

SHARD_IMAGES = 20_000
"""images of an embedding step where no speed is known"""
SHARD_S = 1800.0
"""how long an embedding step should take"""
MOST_SHARDS = 64
PACK_S = 600.0
"""how long a step of small runs should take"""
PACK_RUNS = 16
"""runs of a step where nothing is known of how long they take"""
PACKS = 32
"""steps that very many runs of one model and dataset become: each costs seconds to start"""
MODEL_PACK = 4
"""so many times more of both where the step loads a model first"""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How a plan is cut into steps; none of it changes an answer."""

    command: Sequence[str] = ()
    force: bool = False
    leave_out: Collection[str] = ()
    """names of runs that other steps are on"""
    contents: Sequence[Path] = ()
    """snapshots of what the images hold"""
    n_shards: int = 0
    """embedding steps per model and folder; 0 = by the number of images"""
    gpus: int = 0
    """of a step that loads a network"""
    cpus: int = 0
    """of a step; 0 = a few"""
    memory_bytes: int = 0
    """of a step; 0 = as past runs needed"""
    seconds: float = 0.0
    """the longest a step may take; 0 = no limit is known"""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step to be submitted."""

    kind: StepKind
    work: StepWork
    after: tuple[int, ...]
    """numbers, in the list of steps, of those that must be finished"""
    request: StepRequest
    title: str


def run_name(plan: Plan, planned: Planned) -> str:
    """What a run is called in the job folder, before its images are read."""
    assert planned.spec is not None
    version = plan.models.identity(planned.job.model).version
    return joined_name(with_content(planned.spec, version))


def make_steps(plan: Plan, options: StepOptions) -> list[PlannedStep]:
    """The steps of all runs that are to be done; one comes after those it waits for."""
    to_run = [planned for planned in plan.to_run if planned.question is not None]
    _refuse_unsendable([planned.job for planned in to_run])
    maker = _StepMaker(plan, options, PastUse(plan.workspace.settings.store))
    by_chain: dict[tuple[str, Path], list[Planned]] = {}
    chat: dict[str, list[Planned]] = {}
    caps = ("max_usd", "max_tokens")
    is_capped = any(
        getattr(run.job.settings, cap, None) is not None for run in to_run for cap in caps
    )
    for planned in to_run:
        job, question = planned.job, planned.question
        if ANSWERS in abilities(job.model):
            if maker.name(planned) not in options.leave_out:
                chat.setdefault("" if is_capped else _provider(job.model), []).append(planned)
        elif question is not None:
            by_chain.setdefault((job.model, question.root), []).append(planned)
    for chain in by_chain.values():
        maker.add_chain(chain)
    for provider, runs in chat.items():
        maker.add("chat", runs, (), f"{provider or 'chat models'}: {counted(len(runs), 'run')}")
    return maker.steps


def _provider(model: str) -> str:
    """Who answers: models behind one endpoint share its limits, a local one stands alone."""
    return model if may_use_gpu(model) else "/".join(model.partition("?")[0].split("/")[:2])


@dataclass(slots=True)
class _StepMaker:
    plan: Plan
    options: StepOptions
    past: PastUse
    steps: list[PlannedStep] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def name(self, planned: Planned) -> str:
        if id(planned) not in self._names:
            self._names[id(planned)] = run_name(self.plan, planned)
        return self._names[id(planned)]

    def add_chain(self, chain: Sequence[Planned]) -> None:
        """Of one model and folder: what is embedded, then the runs."""
        runs = [run for run in chain if self.name(run) not in self.options.leave_out]
        if not runs:
            return
        quick = [run for run in runs if run.question and run.question.needs_features_only]
        slow = [run for run in runs if run not in quick]
        # Images that are counted with runs that are left out are missing here all the same.
        n_missing = sum(run.n_missing for run in chain)
        is_known = self.plan.models.known(runs[0].job.model).is_complete
        n_shards = self._n_shards(runs[0].job.model, n_missing)
        has_embed = bool(n_missing or not is_known) if quick else n_shards > 1
        after: list[int] = []
        for index in range(n_shards if has_embed else 0):
            of = f", {index + 1} of {n_shards}" if n_shards > 1 else ""
            root = runs[0].question.root.name if runs[0].question else ""
            title = f"{runs[0].job.model}: {n_missing:,} images of {root}{of}"
            after.append(len(self.steps))
            self.add("embed", runs, (), title, shard=(index, n_shards))
        kinds: tuple[tuple[StepKind, list[Planned]], ...] = (("runs", quick), ("model", slow))
        for kind, some in kinds:
            for pack in self._packs(some, MODEL_PACK if kind == "model" else 1):
                title = pack[0].job.title if len(pack) == 1 else _pack_title(pack)
                self.add(kind, pack, tuple(after), title)

    def _n_shards(self, model: str, n_missing: int) -> int:
        if self.options.n_shards:
            return self.options.n_shards if n_missing else 1
        speed = self._speed(model)
        size = max(speed * SHARD_S, 1.0) if speed else SHARD_IMAGES
        return max(1, min(MOST_SHARDS, math.ceil(n_missing / size)))

    def _speed(self, model: str) -> float:
        """Images a second, as seen before; 0 where nothing is known."""
        fingerprint = self.plan.models.identity(model).fingerprint
        cache = self.plan.workspace.settings.cache
        return throughput_of(cache, fingerprint).images_per_s if fingerprint else 0.0

    def _packs(self, runs: Sequence[Planned], factor: int) -> Iterator[list[Planned]]:
        pack: list[Planned] = []
        seconds, n_usual = 0.0, max(PACK_RUNS, -(-len(runs) // PACKS))
        for run in runs:
            measured_s = self.past.seconds(run)
            run_s = PACK_S / n_usual if measured_s is None else measured_s
            if pack and (seconds + run_s > PACK_S * factor or len(pack) >= 4 * n_usual * factor):
                yield pack
                pack, seconds = [], 0.0
            pack.append(run)
            seconds += run_s
        if pack:
            yield pack

    def add(
        self,
        kind: StepKind,
        runs: Sequence[Planned],
        after: tuple[int, ...],
        title: str,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        plan, options = self.plan, self.options
        models = dict.fromkeys(run.job.model for run in runs)
        request = request_for(
            kind, runs, self.past, n_shards=shard[1], speed=self._speed(min(models))
        )
        settings = plan.workspace.settings
        has_gpu = kind != "runs" and settings.device != "cpu" and any(map(may_use_gpu, models))
        request = StepRequest(
            min(request.seconds, options.seconds or math.inf),
            options.memory_bytes or request.memory_bytes,
            options.cpus or request.cpus,
            options.gpus if has_gpu else 0,
        )
        work = StepWork(
            kind,
            tuple(run.job for run in runs),
            _absolute(settings),
            {model: plan.models.known(model) for model in models},
            shard,
            contents=tuple(path.absolute() for path in options.contents),
            command=tuple(options.command),
            force=options.force,
            names=() if kind == "embed" else tuple(self.name(run) for run in runs),
            cpus=request.cpus,
            folder=str(Path.cwd()),
        )
        self.steps.append(PlannedStep(kind, work, after, request, title))


def _absolute(settings: Settings) -> Settings:
    """With folders that mean the same wherever a worker is."""
    return replace(
        settings,
        results=settings.results.absolute(),
        cache=settings.cache.absolute(),
        data_root=settings.data_root.absolute(),
        data={name: Path(folder).absolute() for name, folder in settings.data.items()},
        include_path=tuple(path.absolute() for path in settings.include_path),
        protocol_path=tuple(path.absolute() for path in settings.protocol_path),
    )


def _pack_title(pack: Sequence[Planned]) -> str:
    tasks = dict.fromkeys(run.job.task_name for run in pack)
    shown = ", ".join(list(tasks)[:2]) + (" …" if len(tasks) > 2 else "")
    return f"{pack[0].job.model}: {counted(len(pack), 'run')} of {shown}"


def _refuse_unsendable(jobs: Sequence[Job]) -> None:
    """What only this process has cannot be done by others."""
    problems: dict[str, None] = {}
    looked: set[tuple[int, str]] = set()
    for job in jobs:
        base = job.model.partition("?")[0]
        if is_own_model(job.model) and not is_file_reference(base):
            problems[f"model {job.model!r} was registered in this process"] = None
        if job.protocol in PROTOCOLS.added and not PROTOCOLS.line_of(job.protocol):
            problems[f"protocol {job.protocol!r} was registered in this process"] = None
        if (id(job.task), job.protocol) in looked:
            continue
        looked.add((id(job.task), job.protocol))
        try:
            pickle.dumps(job)
        except Exception as error:  # noqa: BLE001 - whatever code of the user's raises
            reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
            problems[f"{job.title} cannot be handed to another process ({reason})"] = None
    if problems:
        raise UsageError(
            join_problems([f"{line}: it must run with --on here." for line in problems])
        )
