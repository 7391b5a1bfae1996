"""Which runs does a grid hold?

Turns an experiment file, or the flags of `fieldmark run`, into jobs: one model × one task × one
protocol × its settings. Names are checked here, all of them at once, before anything starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fieldmark.data import DATASETS
from fieldmark.errors import FieldmarkError, UnknownName, UsageError, join_problems
from fieldmark.experiments._documents import document_cells
from fieldmark.experiments._schema import NO_EFFECT, Experiment, ModelTable, NewtFilters
from fieldmark.models import check_model_name, protocol_of
from fieldmark.probes import load_probe
from fieldmark.protocols import Draw, Selection, document_problems, task_problems
from fieldmark.registry import is_file_reference, resolve_reference
from fieldmark.settings import dataset_key
from fieldmark.source_lines import Located, read_toml, validate
from fieldmark.tasks import AnyTask, Finder, Found, ProbeBlock, Task, parse_name
from fieldmark.tasks.lmms import DocumentTask

NATURAL_LISTS = ("normalise", "alphas", "kernels")
"""probe parameters that are lists themselves: only a list of lists is an axis"""
RANGES = {"n_train": (-1, 10**9), "n_test": (-1, 10**9), "repeats": (1, 10**4)}
LARGEST_SEED = 2**62
"""what a store can hold, with room to spare"""


@dataclass(frozen=True, slots=True)
class Job:
    """One cell of the grid."""

    model: str
    task_name: str
    task: AnyTask
    protocol: str
    draw: Draw
    selection: Selection = Selection()
    ask: tuple[tuple[str, Any], ...] = ()
    """settings of the `ask` protocol"""
    groups: tuple[dict[str, Any], ...] = ()
    """of a task in lmms-eval's form: the groups it was asked for with"""

    @property
    def own(self) -> Task:
        """The task, of a job that is known to ask one of fieldmark's own form."""
        assert isinstance(self.task, Task)
        return self.task

    @property
    def title(self) -> str:
        shots = "" if self.draw.n_train < 0 else f" n_train={self.draw.n_train}"
        return f"{self.model} · {self.task_name}{shots} · seed {self.draw.seed}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Jobs, where their data are, and what the user should know about the file."""

    jobs: tuple[Job, ...]
    data: dict[str, Path] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Axes:
    """The values of every axis; None = the task's own value."""

    n_train: Sequence[int | None] = (None,)
    n_test: Sequence[int | None] = (None,)
    sampling: Sequence[str | None] = (None,)
    seed: Sequence[int] = (0,)
    repeats: Sequence[int | None] = (None,)
    probe: Sequence[dict[str, Any]] = ({},)
    ask: Sequence[tuple[tuple[str, Any], ...]] = ((),)
    origin: Located | None = None
    """the file they stand in"""

    def problems(self) -> Iterator[tuple[str, Any, str]]:
        """Axis, value and what was expected, for every value that cannot be."""
        for name, (least, most) in RANGES.items():
            for value in getattr(self, name):
                if value is not None and not _is_whole(value, least, most):
                    low = "-1 (all)" if least < 0 else str(least)
                    yield name, value, f"expected a whole number, {low} to {most:,}"
        for value in self.seed:
            if not _is_whole(value, -LARGEST_SEED, LARGEST_SEED):
                yield "seed", value, "expected a whole number below 2^62"
        for value in self.sampling:
            if value not in (None, "balanced", "uniform"):
                yield "sampling", value, "expected 'balanced' or 'uniform'"


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def read_grid(path: Path, include_path: Sequence[Path] = ()) -> Grid:
    """The jobs of an experiment file; every problem in it is told at once."""
    located = read_toml(path)
    if "models" not in located.data:
        raise UsageError(f"{path}  names no models: add `models = [...]` or `[[models]]` tables.")
    experiment = validate(Experiment, located)
    names = experiment.tasks or _implied_tasks(experiment, path)
    axes = Axes(
        n_train=experiment.n_train or (None,),
        n_test=experiment.n_test or (None,),
        sampling=experiment.sampling or (None,),
        seed=experiment.seed or (0,),
        repeats=experiment.repeats or (None,),
        probe=_probe_axis(experiment.probe),
        ask=_ask_axis(experiment),
        origin=located,
    )
    models = [
        (entry.model, entry.protocol, located.where(("models", index)))
        if isinstance(entry, ModelTable)
        else (entry, "", located.where(("models", index)))
        for index, entry in enumerate(experiment.models)
    ]
    tasks = [(name, located.where(("tasks", index))) for index, name in enumerate(names)]
    jobs = make_jobs(models, tasks, axes, {"newt": experiment.newt}, include_path)
    for name in experiment.data:
        check_dataset_name(name, jobs, located.where(("data", name)))
    return Grid(jobs, _data_folders(experiment, path), _notes(located))


def make_jobs(
    models: Sequence[tuple[str, str, str]],
    tasks: Sequence[tuple[str, str]],
    axes: Axes,
    filters: dict[str, NewtFilters | None] | None = None,
    include_path: Sequence[Path] = (),
) -> tuple[Job, ...]:
    """Every combination, model by model.

    `models` are (name, protocol or "", where), `tasks` are (name, where). Tasks in lmms-eval's form
    are found in the folders of `include_path`.
    """
    problems = [
        (f"{axes.origin.where((name,))}  " if axes.origin else "") + f"{name} = {value!r}: {words}."
        for name, value, words in axes.problems()
    ]
    loaded: list[Found] = []
    finder = Finder(include_path)
    for name, where in tasks:
        try:
            found = finder.find(name, where)
        except FieldmarkError as error:
            problems.append(str(error))
            continue
        loaded.extend(found)
        problems.extend(line for each in found for line in _problems_of(each.task, axes))
    for name, _, where in models:
        try:
            _check_model(name)
        except FieldmarkError as error:
            problems.append(f"{where}  {error}" if where else str(error))
    if problems:
        raise UsageError(join_problems(list(dict.fromkeys(problems))))
    jobs: list[Job] = []
    for model, protocol, _ in models:
        for each in loaded:
            jobs.extend(_cells(model, protocol, each, axes, filters or {}))
    if len(axes.n_train) > 1 and any(job.protocol == "ask" for job in jobs):
        # Where a curve of chat models begins there is nothing to train a probe on.
        jobs = [job for job in jobs if job.protocol != "probe" or job.draw.n_train]
    return _once(jobs)


def _once(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Each job once, with all groups it was asked for with; twins of another file are others."""
    found: dict[str, Job] = {}
    for job in jobs:
        origin = job.task.origin if isinstance(job.task, DocumentTask) else None
        file = origin.path.resolve() if origin else ""
        key = f"{file} {replace(job, groups=())!r}"
        before = found.get(key, job).groups
        more = tuple(each for each in job.groups if each not in before)
        found[key] = replace(job, groups=(*before, *more))
    return tuple(found.values())


def _problems_of(task: AnyTask, axes: Axes) -> list[str]:
    if isinstance(task, DocumentTask):
        return document_problems(task)
    return task_problems(task) or _probe_problems(task, axes)


def _check_model(name: str) -> None:
    """Refuses a name that nothing answers to; loads no weights."""
    if name.endswith(".py"):
        raise UsageError(f"model {name!r} names a file only: expected {name}:CLASS.")
    check_model_name(name)


def check_dataset_name(name: str, jobs: Iterable[Job], where: str) -> None:
    """Refuses a folder for a dataset or task that is not known and that no job asks for."""
    own = [job.task for job in jobs if isinstance(job.task, Task)]
    known = {*DATASETS.names(), *(dataset_key(task.dataset) for task in own)}
    known |= {task.task for task in own}
    if name not in known:
        raise UnknownName("dataset", name, known, DATASETS.listing, where)


def select(
    task_name: str, filters: NewtFilters | None = None, origin: Located | None = None
) -> Selection:
    """What `NAME/SELECTION` and a `[newt]` table keep."""
    text = parse_name(task_name).selection
    any_of = tuple(part.strip() for part in text.split(",") if part.strip())
    if filters is None:
        return Selection(any_of=any_of)

    def groups(clusters: list[str] | None, sub: list[str] | None) -> tuple[Any, ...]:
        pairs = (("cluster", clusters), ("sub_cluster", sub))
        return tuple((column, tuple(values)) for column, values in pairs if values is not None)

    return Selection(
        parts=tuple(filters.tasks or ()),
        groups=groups(filters.include_clusters, filters.include_subclusters),
        any_of=any_of,
        without_parts=tuple(filters.exclude_tasks or ()),
        without_groups=groups(filters.exclude_clusters, filters.exclude_subclusters),
        where=origin.where(("newt",)) if origin else "",
    )


def _cells(
    model: str, protocol: str, found: Found, axes: Axes, filters: dict[str, NewtFilters | None]
) -> Iterable[Job]:
    protocol, task = protocol or protocol_of(model), found.task
    if isinstance(task, DocumentTask):
        yield from document_cells(model, protocol, found, task, axes)
        return
    selection = select(found.name, filters.get(task.task), axes.origin)
    ask = axes.ask if protocol == "ask" else ((),)
    probes = axes.probe if protocol == "probe" else ({},)
    for n_train, n_test, sampling, seed, repeats, probe, settings in itertools.product(
        axes.n_train, axes.n_test, axes.sampling, axes.seed, axes.repeats, probes, ask
    ):
        own = 0 if protocol == "ask" else task.n_train
        draw = Draw(
            n_train=own if n_train is None else n_train,
            shots=task.shots if n_train is None and protocol == "probe" else 0,
            n_test=task.n_test if n_test is None else n_test,
            sampling=sampling or task.sampling,
            seed=seed,
            repeats=repeats or (1 if protocol == "ask" else task.repeats),
        )
        asked = with_probe(task, probe, axes.origin)
        yield Job(model, found.name, asked, protocol, draw, selection, settings)


def with_probe(task: Task, changes: dict[str, Any], origin: Located | None = None) -> Task:
    """The task with another classifier, or the same one with other parameters."""
    if not changes or task.probe is None:
        return task
    if is_file_reference(str(changes.get("classifier", ""))):
        file, name = resolve_reference(changes["classifier"])
        changes = changes | {"classifier": f"{file}:{name}"}
    old = task.probe.model_dump()
    if changes.get("classifier", old["classifier"]) != old["classifier"]:
        keep = ("normalise", "leave_one_out")
        old = {key: old[key] for key in keep}
    block = validate(ProbeBlock, _probe_lines(origin, old | changes))
    return task.model_copy(update={"probe": block})


def _probe_lines(origin: Located | None, data: dict[str, Any]) -> Located:
    """A probe block as a file of its own, each key on its line in the experiment file."""
    lines: dict[tuple[str | int, ...], int] = {}
    for key, line in origin.lines.items() if origin else ():
        inner = key[2:] if len(key) > 1 and isinstance(key[1], int) else key[1:]
        if key[0] == "probe" and inner:
            lines.setdefault(inner, line)
    return Located(origin.path if origin else Path("probe"), data, lines)


def _probe_problems(task: Task, axes: Axes) -> list[str]:
    """What is wrong with the changes to the task's probe."""
    problems = []
    place = f"{axes.origin.where(('probe',))}  " if axes.origin else ""
    for changes in axes.probe if task.probe is not None else ():
        try:
            block = with_probe(task, changes, axes.origin).probe
        except FieldmarkError as error:
            problems.append(str(error))
            continue
        try:
            load_probe(block.classifier, block.params) if block else None
        except FieldmarkError as error:
            problems.append(f"{place}{error}")
    return problems


def _probe_axis(block: dict[str, Any] | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    tables = block if isinstance(block, list) else [block or {}]
    combined: list[dict[str, Any]] = []
    for table in tables:
        values = [_axis_values(key, value) for key, value in table.items()]
        combined.extend(
            dict(zip(table, combination, strict=True)) for combination in itertools.product(*values)
        )
    return combined


def _axis_values(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    if key in NATURAL_LISTS and not any(isinstance(each, list) for each in value):
        return [value]
    return value


def _ask_axis(experiment: Experiment) -> list[tuple[tuple[str, Any], ...]]:
    names = (
        "temp", "prompting", "cot_enabled", "circular", "shared_prefix", "json_answers",
        "prompts_for",
    )  # fmt: skip
    chosen = [(name, getattr(experiment, name)) for name in names]
    values = [[(name, each) for each in options] for name, options in chosen if options is not None]
    return [tuple(each) for each in itertools.product(*values)]


def _implied_tasks(experiment: Experiment, path: Path) -> list[str]:
    if experiment.newt is not None or experiment.newt_data or experiment.newt_root:
        return ["newt"]
    raise UsageError(f"{path}  names no tasks: add `tasks = [...]`; `fieldmark tasks` lists all.")


def _data_folders(experiment: Experiment, path: Path) -> dict[str, Path]:
    folders = dict(experiment.data)
    newt = experiment.newt_root or experiment.newt_data
    if newt:
        folders.setdefault("newt", newt)
    return {name: path.parent / Path(folder).expanduser() for name, folder in folders.items()}


def _notes(located: Located) -> tuple[str, ...]:
    keys = [key for key in located.data if key in NO_EFFECT]
    return tuple(
        f"{located.where((key,))}  {key} has no effect here (it says how, not what: use flags)."
        for key in keys
    )
