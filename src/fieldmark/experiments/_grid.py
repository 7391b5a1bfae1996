"""Grid of runs (parameter sweep): which runs does an experiment hold?

Turns the axes that an experiment file or the flags of `fieldmark run` give into jobs: one model ×
one task × one protocol × its settings. Names are checked here, all of them at once, before anything
starts.
"""

from __future__ import annotations

import itertools
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.data import DATASETS
from fieldmark.errors import FieldmarkError, UnknownName, UsageError, join_problems, meant
from fieldmark.models import abilities, check_key, check_model_name, full_name, known_models
from fieldmark.protocols import (
    Draw,
    OtherModel,
    Protocol,
    Selection,
    can_ask,
    fitting_protocols,
    given,
    has_block,
    label_of,
    load_protocol,
    main_key,
    make_settings,
    protocols,
    settings_of,
    task_problems,
)
from fieldmark.registry import ANSWERS
from fieldmark.settings import dataset_key
from fieldmark.slurm import SlurmOptions
from fieldmark.source_lines import Located, validate
from fieldmark.tasks import AnyTask, Finder, NamedTask, Task, parse_name

if TYPE_CHECKING:
    from fieldmark.experiments._file import NewtFilters

AXES = ("n_train", "n_test", "sampling", "seed", "repeats")
LARGEST_SEED = 2**62
"""what a store can hold, with room to spare"""
RANGES = {
    "n_train": (-1, 10**9, ", -1 (all) to 1,000,000,000"),
    "n_test": (-1, 10**9, ", -1 (all) to 1,000,000,000"),
    "seed": (-LARGEST_SEED, LARGEST_SEED, " below 2^62"),
    "repeats": (1, 10**4, ", 1 to 10,000"),
}
_DRAW = ("n_test", "sampling", "repeats")
_LONGEST = 40
"""characters of a value"""


@dataclass(frozen=True, slots=True)
class Job:
    """One cell of the grid."""

    model: str
    task_name: str
    task: AnyTask
    protocol: str
    draw: Draw
    settings: Any = None
    """of the protocol's settings class"""
    groups: tuple[dict[str, Any], ...] = ()
    """the groups of tasks it was asked for with"""
    unchanged: AnyTask | None = None
    """the task as its file has it, before the grid changed a block"""
    label: str = ""
    """what tells it from other jobs of its model and task"""

    @property
    def title(self) -> str:
        shots = "" if self.draw.n_train < 0 else f" n_train={self.draw.n_train}"
        label = f" · {self.label}" if self.label else ""
        return f"{self.model} · {self.task_name}{shots}{label} · seed {self.draw.seed}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Jobs, where their data are, and what the user should know about the file."""

    jobs: tuple[Job, ...]
    data: dict[str, Path] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    slurm: SlurmOptions | None = None
    """the table `[slurm]` of the file"""


@dataclass(frozen=True, slots=True)
class Axes:
    """The values of every axis; None = the task's own value."""

    n_train: Sequence[int | None] = (None,)
    n_test: Sequence[int | None] = (None,)
    sampling: Sequence[str | None] = (None,)
    seed: Sequence[int] = (0,)
    repeats: Sequence[int | None] = (None,)
    blocks: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    """protocol → changes to its block in the tasks' files"""
    settings: Sequence[Mapping[str, Any]] = ({},)
    """of protocols: each takes those that it has"""
    protocol: str = ""
    """how models are asked; "" = all ways that a task and a model both can"""
    origin: Located | None = None
    """the file they stand in"""

    def problems(self) -> Iterator[tuple[str, Any, str]]:
        """Axis, value and what was expected, for every value that cannot be."""
        for name, (least, most, ending) in RANGES.items():
            for value in getattr(self, name):
                is_whole = isinstance(value, int) and not isinstance(value, bool)
                if value is not None and not (is_whole and least <= value <= most):
                    yield name, value, f"expected a whole number{ending}"
        for value in self.sampling:
            if value not in (None, "balanced", "uniform"):
                yield "sampling", value, "expected 'balanced' or 'uniform'"


def make_jobs(
    models: Sequence[tuple[str, str]],
    tasks: Sequence[tuple[str, str]],
    axes: Axes,
    filters: dict[str, NewtFilters | None] | None = None,
    include_path: Sequence[Path] = (),
    send_key: Sequence[str] = (),
) -> tuple[Job, ...]:
    """Every combination, model by model.

    `models` and `tasks` are (name, where in a file, "" if the user typed it); tasks are also found
    in the folders of `include_path`. `send_key` are keys that may go where only files say.
    """
    models, unknown = _every_model(models)
    loaded, problems = _load_tasks(tasks, axes, models, include_path)
    problems += [*unknown, *_model_problems(models, axes, send_key)]
    if problems:
        raise UsageError(join_problems(list(dict.fromkeys(problems))))
    jobs = [
        job
        for model in dict.fromkeys(full_name(name) for name, _ in models)
        for task in loaded
        for job in _cells(model, task, axes, filters or {})
    ]
    training = {job.protocol: load_protocol(job.protocol).training for job in jobs}
    if len(axes.n_train) > 1 and set(training.values()) != {"needed"}:
        # Where a curve of models begins that need no training, there is nothing to train on.
        jobs = [job for job in jobs if job.draw.n_train or training[job.protocol] != "needed"]
    if not axes.protocol:
        # Who asks for training images means the ways of asking that look at some.
        seeing = [job for job in jobs if not job.draw.n_train or training[job.protocol] != "none"]
        jobs = seeing or jobs
    return label_jobs(_once(jobs))


def _load_tasks(
    tasks: Sequence[tuple[str, str]],
    axes: Axes,
    models: Sequence[tuple[str, str]],
    include_path: Sequence[Path],
) -> tuple[list[NamedTask], list[str]]:
    """The tasks, and what is wrong with the axes and with the tasks as these models are asked."""
    problems = [
        (f"{axes.origin.where((name,))}  " if axes.origin else "") + f"{name} = {value!r}: {fault}."
        for name, value, fault in axes.problems()
    ]
    asked_by: set[str] = set()
    for model, _ in models:
        with suppress(FieldmarkError):  # unknown models are told elsewhere
            model_abilities = abilities(model)
            asked_by |= {
                name for name, protocol in protocols().items() if can_ask(protocol, model_abilities)
            }
    finder, loaded = Finder(include_path), list[NamedTask]()
    for name, where in tasks:
        try:
            named_tasks = finder.find(name, where)
        except FieldmarkError as error:
            problems.append(str(error))
            continue
        loaded += named_tasks
        for task in (named.task for named in named_tasks):
            if isinstance(task, Task):
                problems += task_problems(task, asked_by) or _block_problems(task, axes)
            else:
                readers = [protocol for protocol in protocols().values() if protocol.reads(task)]
                problems += [line for protocol in readers for line in protocol.problems(task)]
    return loaded, problems


def _every_model(models: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """The models, `classical/*` as all that the family's table has, and which patterns fit none."""
    every: dict[str, str] = {}
    problems = []
    for name, where in models:
        fitting = [name]
        if "*" in name.partition("?")[0]:
            fitting = [row.name for row in known_models() if fnmatchcase(row.name, name)]
        if not fitting:
            text = f"no model fits {name!r}. `fieldmark models --all` lists them."
            problems.append(f"{where}  {text}" if where else text)
        every |= {model: every.get(model, where) for model in fitting}
    return list(every.items()), problems


def _model_problems(
    models: Sequence[tuple[str, str]], axes: Axes, send_key: Sequence[str]
) -> Iterator[str]:
    """Names that nothing answers to, of models and in settings; loads no weights."""
    keys = {
        setting.name
        for protocol in protocols().values()
        for setting in settings_of(protocol.Settings)
        if setting.type is OtherModel
    }
    others = {
        (str(point[key]), axes.origin.where((key,)) if axes.origin else ""): None
        for point in axes.settings
        for key in keys & point.keys()
        if point[key]
    }
    for name, where in (*models, *others):
        try:
            if name.endswith(".py"):
                raise UsageError(f"model {name!r} is only a file: expected {name}:CLASS.")
            check_model_name(name)
            if (name, where) in others and ANSWERS not in abilities(name):
                raise UsageError(
                    f"model {name!r} answers no questions: expected chat/… or hf-chat/…."
                )
            check_key(name, where, send_key)
        except FieldmarkError as error:
            is_placed = not where or str(error).startswith(where)
            yield str(error) if is_placed else f"{where}  {error}"


def _once(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Each job once, with all groups it was asked for with; twins of another file are others."""
    unique: dict[str, Job] = {}
    for job in jobs:
        origin = getattr(job.task, "origin", None)
        file = origin.path.resolve() if origin else ""
        key = f"{file} {replace(job, groups=())!r}"
        before = unique.get(key, job).groups
        more = tuple(group for group in job.groups if group not in before)
        unique[key] = replace(job, groups=(*before, *more))
    return tuple(unique.values())


def check_dataset_name(name: str, tasks: Iterable[AnyTask], where: str) -> None:
    """Refuses a folder for a dataset or task that is not known and that is none of these."""
    tasks = [task for task in tasks if isinstance(task, Task)]
    names = {*DATASETS.names(), *(dataset_key(task.dataset) for task in tasks)}
    names |= {task.task for task in tasks}
    if name not in names:
        raise UnknownName("dataset", name, names, DATASETS.listing, where)


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
        return tuple((column, tuple(values)) for column, values in pairs if values)

    return Selection(
        parts=tuple(filters.tasks or ()),
        groups=groups(filters.include_clusters, filters.include_subclusters),
        any_of=any_of,
        without_parts=tuple(filters.exclude_tasks or ()),
        without_groups=groups(filters.exclude_clusters, filters.exclude_subclusters),
        where=origin.where(("newt",)) if origin else "",
    )


def _cells(
    model: str, named: NamedTask, axes: Axes, filters: dict[str, NewtFilters | None]
) -> Iterator[Job]:
    task = named.task
    selection = select(named.name, filters.get(task.task), axes.origin)
    for name in fitting_protocols(task, abilities(model), axes.protocol):
        protocol = load_protocol(name)
        # One task per change, for all seeds: jobs that share a task share its rows and parts.
        tables = axes.blocks.get(name)
        changes = _block_axis(task, protocol, tables) if tables else ()
        tasks = [with_block(task, protocol, change, axes.origin) for change in changes] or [task]
        setting_names = [setting.name for setting in settings_of(protocol.Settings)]
        points = [
            {key: point[key] for key in point if key in setting_names} for point in axes.settings
        ]
        settings_made = [make_settings(protocol.Settings, point, name) for point in points]
        for n_train, n_test, sampling, seed, repeats, protocol_axes, settings in itertools.product(
            axes.n_train, axes.n_test, axes.sampling, axes.seed, axes.repeats, tasks,
            dict.fromkeys(settings_made),
        ):  # fmt: skip
            cell, draw = protocol_axes.cell(
                protocol.training == "needed",
                n_train=n_train,
                n_test=n_test,
                sampling=sampling,
                seed=seed,
                repeats=repeats,
                parts=selection,
            )
            yield Job(model, named.name, cell, name, draw, settings, named.groups, task)


def with_block(
    task: Any, protocol: Protocol, changes: Mapping[str, Any], origin: Located | None = None
) -> Any:
    """The task with changes to the block of a protocol, as far as it has one."""
    old = task.block(protocol.name)
    if not changes or old is None:
        return task
    data = old.changed(changes) if hasattr(old, "changed") else {**old.model_dump(), **changes}
    # A block as a file of its own, each key on its line in the experiment file
    lines: dict[tuple[str | int, ...], int] = {}
    for key, line in origin.lines.items() if origin else ():
        inner = key[2:] if len(key) > 1 and isinstance(key[1], int) else key[1:]
        if key[0] == protocol.name and inner:
            lines.setdefault(inner, line)
    block = validate(
        protocol.Block, Located(origin.path if origin else Path(protocol.name), data, lines)
    )
    return task.model_copy(update={protocol.name: block})


def _block_problems(task: Task, axes: Axes) -> list[str]:
    """What is wrong with the changes to the blocks of the task."""
    problems = []
    for name, tables in axes.blocks.items():
        protocol = load_protocol(name)
        where = axes.origin.where((name,)) if axes.origin else ""
        is_asked = task.block(name) is not None
        for changes in _block_axis(task, protocol, tables) if is_asked else ():
            try:
                changed = with_block(task, protocol, changes, axes.origin)
            except FieldmarkError as error:
                problems.append(str(error))
                continue
            # A problem of a task's block, told of the line that changed the block.
            texts = [line.partition("  ")[2] or line for line in protocol.problems(changed)]
            problems += [f"{where}  {text}" if where else text for text in texts]
    return problems


def named_changes(
    protocol: Protocol, changes: str | dict[str, Any], where: str = ""
) -> dict[str, Any]:
    """A bare word stands for the first key of a block: `probe = "svm"`."""
    if isinstance(changes, dict):
        return changes
    if not has_block(protocol):
        raise UsageError(f"{where}{protocol.name} = {changes!r}: expected a table of changes.")
    return {main_key(protocol): changes}


def _block_axis(
    task: Any, protocol: Protocol, tables: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The tables with every list an axis, but for lists that are a parameter's own value in the
    block the task would then have.
    """
    block = task.block(protocol.name)
    old = block.model_dump() if block is not None else {}
    return [changes for table in tables for changes in _combinations(table, protocol, old)]


def _combinations(
    table: dict[str, Any], protocol: Protocol, old: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    if not table:
        yield {}
        return
    # Keys of a block whose value is a list itself: only a list of lists is an axis.
    block = protocol.Block
    keys = {name for name, field in block.model_fields.items() if _is_list(field.annotation)}
    lists = keys | set(block.list_keys({**old, **table}) if hasattr(block, "list_keys") else ())
    main = main_key(protocol)
    if isinstance(table.get(main), list) and main not in lists:
        for value in table[main]:  # which parameters are lists depends on the classifier
            yield from _combinations(table | {main: value}, protocol, old)
        return
    values = [_axis_values(value, key in lists) for key, value in table.items()]
    for combination in itertools.product(*values):
        yield dict(zip(table, combination, strict=True))


def _is_list(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _is_list(typing.get_args(annotation)[0])
    return annotation in (list, tuple) or origin in (list, tuple)


def _axis_values(value: Any, is_list: bool) -> list[Any]:
    """A list is an axis, unless the value is a list by nature: then only a list of lists is."""
    if not isinstance(value, list):
        return [value]
    return [value] if is_list and not any(isinstance(item, list) for item in value) else value


def single_axes(values: Mapping[str, Any]) -> Axes:
    """One value of each axis, setting or block, by name."""
    every = {setting.name for p in protocols().values() for setting in settings_of(p.Settings)}
    blocks: dict[str, list[dict[str, Any]]] = {}
    settings: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    for name, value in values.items():
        if name in every:
            settings[name] = value
        elif name in protocols():
            blocks[name] = [named_changes(load_protocol(name), value)]
        elif name == "protocol":
            axes[name] = load_protocol(value).name if value else ""
        elif name in AXES:
            axes[name] = (value,)
        else:
            names = [*AXES, "protocol", *protocols(), *every]
            longer = [setting for setting in names if setting.startswith(name)]
            hint = f" Did you mean {longer[0]!r}?" if longer else meant(name, names)
            raise UsageError(f"{name!r} is not known.{hint}")
    return Axes(**axes, blocks=blocks, settings=[settings])


def label_jobs(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """The same jobs with their labels (the legend of a sweep), in their order.

    Named are the method (`probe/svm`) and, among jobs of one method, every setting in which some of
    them differ (`probe/svm, C=0.1`). A job that is the only one of its model and task, but for
    seeds and numbers of training images, which are told anyway, has no label.
    """
    if len(jobs) == 1:
        return tuple(jobs)
    methods: dict[tuple[str, str], set[str]] = defaultdict(set)
    values: dict[tuple[str, ...], set[str]] = defaultdict(set)
    facts_of_jobs = [dict(_facts(job)) for job in jobs]
    for job, job_facts in zip(jobs, facts_of_jobs, strict=True):
        methods[job.model, job.task_name].add(_method(job))
        for name, value in job_facts.items():
            values[job.model, job.task_name, _method(job), name].add(value)
    labelled = []
    for job, job_facts in zip(jobs, facts_of_jobs, strict=True):
        cell = (job.model, job.task_name)
        differing = [n for n in job_facts if len(values[*cell, _method(job), n]) > 1]
        settings = [f"{name}={job_facts[name]}" for name in differing]
        is_told = settings or len(methods[cell]) > 1
        label = ", ".join([_method(job), *settings]) if is_told else ""
        labelled.append(replace(job, label=label))
    return tuple(labelled)


def _method(job: Job) -> str:
    return label_of(load_protocol(job.protocol), job.task)


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    block = job.task.block(job.protocol)
    if block is not None:
        yield from _flat(block.model_dump(mode="json"))
    yield from _flat(given(job.settings))
    yield from _flat({name: getattr(job.draw, name) for name in _DRAW})


def _flat(settings: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Names as users write them: a probe's own parameters stand without `params`."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
            continue
        text = str(value)
        yield name, text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
