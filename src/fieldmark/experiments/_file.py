"""Experiment file (TOML): what may stand in it, and which grid does it mean?

fieldmark's own grids, and the files of small-data-metrics as they are: `[[models]]` with method,
org and ckpt, `newt_data`, `[newt]` filters. Any list is an axis of the grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, create_model

from fieldmark.errors import UsageError, join_problems
from fieldmark.experiments._grid import (
    Axes,
    Grid,
    check_dataset_name,
    make_jobs,
    named_changes,
)
from fieldmark.protocols import Setting, has_block, load_protocol, protocols, settings_of
from fieldmark.registry import PROTOCOLS
from fieldmark.slurm import SlurmOptions
from fieldmark.source_lines import Located, read_toml, validate
from fieldmark.tasks import Strict


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Sampling = Literal["balanced", "uniform"]
Ints = Annotated[list[StrictInt], BeforeValidator(_as_list), Field(min_length=1)]
Counts = Annotated[
    list[Annotated[StrictInt, Field(ge=-1)]], BeforeValidator(_as_list), Field(min_length=1)
]
Texts = Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1)]

NO_EFFECT = (
    "debug",
    "graph",
    "graph_to",
    "log_to",
    "report_to",
    "batch_size",
    "n_workers",
    "device",
)
"""keys of small-data-metrics that say how, not what: flags and `fieldmark.toml` decide here"""
INSTEAD = {
    "parallel": "type `fieldmark run … --concurrency {0}`",
    "slurm": "type `fieldmark run … --on slurm`, or write a table [slurm]",
    "slurm_acct": 'write `account = "{0}"` in a table [slurm], then `fieldmark run … --on slurm`',
    "ssl": "let certificates be checked: SSL_CERT_FILE names your own authority's",
}
"""keys of small-data-metrics that a run must not pass over in silence → what to do instead"""


class ModelTable(Strict):
    """`[[models]]` of small-data-metrics."""

    method: Literal["cvml", "mllm"]
    org: str
    ckpt: str

    @property
    def model(self) -> str:
        if self.method == "mllm":
            return f"chat/{self.org}/{self.ckpt}"
        family = {"timm-vit": "timm"}.get(self.org, self.org)
        return f"{family}/{self.ckpt}"


class NewtFilters(Strict):
    """`[newt]`: which of its 164 tasks to run."""

    tasks: list[str] | None = None
    include_clusters: list[str] | None = None
    include_subclusters: list[str] | None = None
    exclude_tasks: list[str] | None = None
    exclude_clusters: list[str] | None = None
    exclude_subclusters: list[str] | None = None


class Experiment(Strict):
    """A grid of runs."""

    models: Annotated[list[str | ModelTable], BeforeValidator(_as_list), Field(min_length=1)]
    tasks: Texts | None = None
    """names as on the command line; without it `newt`, when the file speaks of NeWT"""
    n_train: Counts | None = None
    n_test: Counts | None = None
    sampling: Annotated[list[Sampling], BeforeValidator(_as_list)] | None = None
    seed: Ints | None = None
    repeats: (
        Annotated[list[Annotated[StrictInt, Field(ge=1)]], BeforeValidator(_as_list)] | None
    ) = None
    protocol: str = ""
    """how models are asked; without it all ways that a task and a model both can"""
    data: dict[str, str] = Field(default_factory=dict)
    """dataset → folder, relative to this file"""
    slurm: SlurmOptions | bool | None = None
    """how jobs are submitted where the runs are done on Slurm; true or false, as in files of
    small-data-metrics, says nothing here"""
    newt: NewtFilters | None = None
    newt_data: str = ""
    newt_root: str = ""


@cache
def experiment_schema(names: tuple[str, ...]) -> type[Experiment]:
    """`Experiment` with what files of small-data-metrics say besides, the settings of the protocols
    of these names, and a table `[NAME]` of changes to the blocks of each in the tasks' files;
    several tables, or lists inside one, are axes.
    """
    fields: dict[str, Any] = dict.fromkeys((*NO_EFFECT, *INSTEAD), (Any, None))
    del fields["slurm"]  # a table of this name is ours
    for protocol in (protocols()[name] for name in names):
        if has_block(protocol):
            fields[protocol.name] = (str | dict[str, Any] | list[dict[str, Any]] | None, None)
        for setting in settings_of(protocol.Settings):
            one = Annotated[Any, AfterValidator(_checked(setting))]
            many = Annotated[list[one], BeforeValidator(_as_list), Field(min_length=1)]
            fields[setting.name] = ((many if setting.changes_answers else one) | None, None)
    return create_model("Experiment", __base__=Experiment, **fields)


def _checked(setting: Setting) -> Any:
    def check(value: Any) -> Any:
        if expected := setting.problem(value):
            raise ValueError(f"expected {expected}")
        return float(value) if setting.type is float else value

    return check


def read_grid(
    path: Path,
    include_path: Sequence[Path] = (),
    how: Mapping[str, Any] | None = None,
    send_key: Sequence[str] = (),
) -> Grid:
    """The jobs of an experiment file; every problem in it is told at once. `how` are settings that
    change no answer, in place of those of the file; `send_key` are keys that may go where it says.
    """
    located = read_toml(path)
    if "models" not in located.data:
        raise UsageError(f"{path}  lists no models: add `models = [...]` or `[[models]]` tables.")
    experiment = validate(experiment_schema(tuple(PROTOCOLS.names())), located)
    _refuse_how(located)
    newt_folder = experiment.newt_root or experiment.newt_data
    names = experiment.tasks or (["newt"] if experiment.newt is not None or newt_folder else [])
    if not names:
        raise UsageError(
            f"{path}  lists no tasks: add `tasks = [...]`; `fieldmark tasks` lists all."
        )
    # small-data-metrics without `n_train`: all images, or all examples that fit into the prompt.
    is_theirs = any(isinstance(entry, ModelTable) for entry in experiment.models)
    protocol = experiment.protocol
    if protocol:
        protocol = load_protocol(protocol, located.where(("protocol",))).name
    axes = Axes(
        n_train=experiment.n_train or ((-1,) if is_theirs else (None,)),
        n_test=experiment.n_test or (None,),
        sampling=experiment.sampling or (None,),
        seed=experiment.seed or (0,),
        repeats=experiment.repeats or (None,),
        blocks=_block_axes(experiment, located),
        settings=[{**point, **(how or {})} for point in _settings_axis(experiment)],
        protocol=protocol,
        origin=located,
    )
    models = [
        (entry.model if isinstance(entry, ModelTable) else entry, located.where(("models", index)))
        for index, entry in enumerate(experiment.models)
    ]
    tasks = [(name, located.where(("tasks", index))) for index, name in enumerate(names)]
    jobs = make_jobs(models, tasks, axes, {"newt": experiment.newt}, include_path, send_key)
    for name in experiment.data:
        check_dataset_name(name, [job.task for job in jobs], located.where(("data", name)))
    slurm = experiment.slurm if isinstance(experiment.slurm, SlurmOptions) else None
    named = ({"newt": newt_folder} if newt_folder else {}) | experiment.data
    folders = {name: path.parent / Path(folder).expanduser() for name, folder in named.items()}
    return Grid(jobs, folders, _notes(located), slurm)


def _block_axes(experiment: Experiment, located: Located) -> dict[str, list[dict[str, Any]]]:
    """Protocol → the tables of changes to its blocks."""
    axes: dict[str, list[dict[str, Any]]] = {}
    for name, protocol in protocols().items():
        tables = getattr(experiment, name, None)
        if tables is not None:
            tables = tables if isinstance(tables, list) else [tables]
            where = f"{located.where((name,))}  "
            axes[name] = [named_changes(protocol, table, where) for table in tables]
    return axes


def _settings_axis(experiment: Experiment) -> list[dict[str, Any]]:
    """Every combination of the protocols' settings that the file gives."""
    chosen: dict[str, list[Any]] = {}
    for protocol in protocols().values():
        for setting in settings_of(protocol.Settings):
            value = getattr(experiment, setting.name)
            if value is not None:
                chosen[setting.name] = value if setting.changes_answers else [value]
    return [
        dict(zip(chosen, values, strict=True)) for values in itertools.product(*chosen.values())
    ]


def _refuse_how(located: Located) -> None:
    """Keys of small-data-metrics that would change what a run costs or risks: said, not dropped."""
    problems = []
    for key, advice in INSTEAD.items():
        value = located.data.get(key)
        is_harmless = value in (None, "", False) or isinstance(value, dict)
        if (value is False) if key == "ssl" else not is_harmless:
            place = located.where((key,))
            problems.append(f"{place}  {key} = {value!r}: remove it and {advice.format(value)}.")
    if problems:
        raise UsageError(join_problems(problems))


def _notes(located: Located) -> tuple[str, ...]:
    keys = [key for key in located.data if key in NO_EFFECT]
    return tuple(
        f"{located.where((key,))}  {key} has no effect here (it says how to run, not what: use "
        "flags)."
        for key in keys
    )
