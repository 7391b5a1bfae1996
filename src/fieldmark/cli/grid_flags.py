"""Flags of `run` and `plan`: which runs do the arguments ask for?

The flags of protocols are made from the protocols' own settings classes and blocks, so that a new
protocol has its flags without a change here.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg

from fieldmark.cli.flags import Common, CommonFlags, check_send_key
from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.protocols import (
    OtherModel,
    Pairs,
    Setting,
    has_block,
    protocols,
    settings_of,
)
from fieldmark.settings import load_settings
from fieldmark.source_lines import set_dotted, toml_value

if TYPE_CHECKING:
    from fieldmark.experiments import Grid, NewtFilters
    from fieldmark.experiments.cluster import StepOptions
    from fieldmark.settings import Settings

Where = Literal["here", "local", "slurm", "debug"]
EXCLUDE = ("exclude_tasks", "exclude_clusters", "exclude_subclusters")
FIRST_FLAGS = (
    *("experiment", "model", "task", "protocol", "n_train", "n_test", "seed", "repeats", "force"),
    *("on", "max_usd", "max_tokens", "price", "results", "data", "device", "bad_images", "offline"),
)
"""what most people need of `run` and `plan`; `--help-all` shows the rest"""
METAVARS = {int: "N", float: "X", str: "TEXT", OtherModel: "MODEL"}
_Names = Annotated[tuple[str, ...], arg(metavar="NAME …", help_behavior_hint="")]
_Ints = Annotated[tuple[int, ...], arg(metavar="N …", help_behavior_hint="")]


@dataclass(frozen=True, slots=True)
class GridFlags:
    """which runs"""

    experiment: Annotated[
        Positional[Path | None], arg(metavar="EXP.toml", help_behavior_hint="")
    ] = None
    """an experiment file, or a folder of labelled photos; without it, give models and tasks by
    flags"""
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """family/checkpoint?option=value, or file.py:Class"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """a name, NAME@VARIANT, NAME/PARTS, a .yaml file, or a folder (or table) of labelled photos"""
    exclude_tasks: _Names = ()
    """leave out these tasks of NeWT (to choose some, use --task newt/NAME,NAME)"""
    exclude_clusters: _Names = ()
    """leave out these clusters of NeWT: appearance, behavior, context, counting, gestalt"""
    exclude_subclusters: _Names = ()
    """leave out these subclusters of NeWT: age, attribute, health, species"""
    protocol: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """how to use the model, such as probe, zero_shot or ask [all that model and task support]"""
    n_train: _Ints = ()
    """training photos, or examples in a prompt (-1: all); several numbers give several runs"""
    n_test: _Ints = ()
    """test photos (-1: all)"""
    sampling: Literal["task", "balanced", "uniform"] = "task"
    """how training photos are drawn: balanced over classes, uniform, or as the task file says"""
    seed: _Ints = ()
    """seed of every random choice; several numbers give several runs"""
    repeats: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """how many random training samples to average over"""
    force: bool = False
    """run again what is already finished"""
    include_path: Annotated[UseAppendAction[tuple[Path, ...]], arg(metavar="FOLDER")] = ()
    """folder of tasks in lmms-eval's format: found by name, and their code may be run"""
    fetch: bool = False
    """allow tasks in lmms-eval's format to download the datasets they name"""
    send_key: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="VARIABLE=HOST")] = ()
    """let the key in this environment variable go to an address that only a file names"""
    common: CommonFlags = Common()


@dataclass(frozen=True, slots=True)
class PlaceFlags(GridFlags):
    on: Literal["auto", "here", "local", "slurm", "debug"] = "auto"
    """where to run: here (this process), local (several processes on this machine), slurm, or debug
    (as on a cluster, in this process); auto: slurm where the file has a table [slurm], else here"""

    def where(self, grid: Grid) -> Where:
        if self.on == "auto":
            return "here" if grid.slurm is None else "slurm"
        return self.on


def settings_on(where: Where, grid: Grid, settings: Settings) -> Settings:
    """The settings of runs that are done elsewhere. On Slurm the machine of the launcher does not
    tell what models run on: networks have a GPU where [slurm] asks for one.
    """
    if where != "slurm" or settings.device != "auto":
        return settings
    has_gpu = grid.slurm is not None and grid.slurm.n_gpus > 0
    return replace(settings, device="cuda" if has_gpu else "cpu")


def step_options(grid: Grid) -> StepOptions:
    """How a plan is cut into steps: what [slurm] says counts."""
    from fieldmark.experiments.cluster import StepOptions

    slurm = grid.slurm
    if slurm is None:
        return StepOptions()
    return StepOptions(
        gpus=slurm.n_gpus,
        cpus=slurm.cpus,
        memory_bytes=slurm.memory_bytes,
        seconds=slurm.time_s,
    )


def read_jobs(args: GridFlags) -> tuple[Grid, Settings]:
    """The grid and the settings the arguments ask for."""
    from fieldmark.experiments import check_dataset_name, replace_data

    settings = args.common.settings()
    settings = replace(
        settings,
        send_key=(*check_send_key(args.send_key), *settings.send_key),
        include_path=(*args.include_path, *settings.include_path),
        fetch=settings.fetch or args.fetch,
    )
    if args.experiment is not None and args.experiment.is_dir():
        args = _photos_as_task(args, args.experiment)
    if args.experiment is None:
        grid = _flags_grid(args, settings)
    else:
        grid = _file_grid(args, args.experiment, settings)
    for text in args.common.data:
        tasks = [job.task for job in grid.jobs]
        check_dataset_name(text.partition("=")[0], tasks, f"--data {text}")
    return grid, replace_data(settings, grid.data)


def _photos_as_task(args: GridFlags, path: Path) -> GridFlags:
    """`run photos/ --model MODEL` is `run --task photos/ --model MODEL`."""
    if not args.model:
        typed, kind = shlex.quote(str(path)), "folder" if path.is_dir() else "table"
        raise UsageError(
            f"{path} is a {kind}: `fieldmark try {typed}` finds a model for photos, and "
            f"`fieldmark run {typed} --model MODEL` runs the one you name."
        )
    return replace(args, experiment=None, task=(*args.task, str(path)))


def _file_grid(args: GridFlags, path: Path, settings: Settings) -> Grid:
    from fieldmark.experiments import read_grid

    names = ("model", "task", "protocol", "n_train", "n_test", "seed", "repeats", *EXCLUDE)
    given = [name for name in names if getattr(args, name) not in ((), "", None)]
    given += ["sampling"] if args.sampling != "task" else []
    given += [*given_blocks(args), *given_settings(args, changes_answers=True)]
    if given:
        flag = given[0].replace("_", "-")
        raise UsageError(
            f"--{flag} and {args.experiment}: choose the runs by a file or by flags, not both."
        )
    if path.suffix.lower() in (".yaml", ".yml"):
        raise UsageError(
            f"{path}  is a task file; an experiment is a .toml file: "
            f"`fieldmark run --task {path} --model MODEL` runs it."
        )
    if not path.exists() and not path.suffix and "/" in str(path):
        raise UsageError(
            f"{path}  does not exist: an experiment is a .toml file. To run a model, write "
            f"`--model {path}`; for a folder of photos, give the right path."
        )
    how = given_settings(args, changes_answers=False)
    return read_grid(path, settings.include_path, how, settings.send_key)


def _flags_grid(args: GridFlags, settings: Settings) -> Grid:
    from fieldmark.experiments import Axes, Grid, make_jobs
    from fieldmark.protocols import load_protocol
    from fieldmark.tasks import is_photos

    if not args.model and (photos := next(filter(is_photos, map(Path, args.task)), None)):
        _photos_as_task(args, photos)  # which says what to type
    if not args.model or not args.task:
        raise UsageError(
            "give an experiment file, or at least one --model and one --task "
            "(`fieldmark models` and `fieldmark tasks` list them)."
        )
    axes = Axes(
        n_train=args.n_train or (None,),
        n_test=args.n_test or (None,),
        sampling=(None if args.sampling == "task" else args.sampling,),
        seed=args.seed or (0,),
        repeats=(args.repeats,),
        blocks={name: [changes] for name, changes in given_blocks(args).items()},
        settings=[given_settings(args)],
        protocol=load_protocol(args.protocol, "--protocol").name if args.protocol else "",
    )
    for name, value, expected in axes.problems():
        raise UsageError(f"--{name.replace('_', '-')} {value}: {expected}.")
    models, tasks = ([(name, "") for name in names] for names in (args.model, args.task))
    filters = _newt_filters(args)
    return Grid(make_jobs(models, tasks, axes, filters, settings.include_path, settings.send_key))


def _newt_filters(args: GridFlags) -> dict[str, NewtFilters | None]:
    """What the `--exclude-…` flags leave out; names and patterns, as in a file's `[newt]`."""
    from fieldmark.experiments import NewtFilters

    given = {name: list(getattr(args, name)) for name in EXCLUDE if getattr(args, name)}
    if given and not any(re.match(r"newt($|[/@])", task) for task in args.task):
        flag = next(iter(given)).replace("_", "-")
        raise UsageError(f"--{flag}: only `newt` has such parts: add --task newt.")
    return {"newt": NewtFilters(**given) if given else None}


def with_protocol_flags(name: str, base: type) -> type:
    """A command's arguments with a group of flags for every settings class, and a flag `--NAME`
    for every protocol that task files have a block for.
    """
    with suppress(FieldmarkError):  # told by the command, which reads them again
        load_settings()  # protocols of the user's have flags too
    fields: list[tuple[str, Any, Any]] = []
    for protocol in filter(has_block, protocols().values()):
        text = f"change the tasks' `{protocol.name}` block (a single word sets its first key)"
        how = arg(metavar="KEY=VALUE …", help=text, help_behavior_hint="")
        fields.append((protocol.name, Annotated[tuple[str, ...], how], ()))
    for cls, owner in _settings_classes().items():
        flags = [
            (setting.name, _flag_type(setting), _unset(setting)) for setting in settings_of(cls)
        ]
        group = dataclasses.make_dataclass(f"{cls.__name__}Flags", flags, frozen=True)
        group.__doc__ = cls.__doc__
        fields.append((owner, Annotated[group, OmitArgPrefixes], group()))
    made = dataclasses.make_dataclass(name, fields, bases=(base,), frozen=True)
    made.__doc__ = base.__doc__
    return made


def _settings_classes() -> dict[type, str]:
    """Every settings class that has settings, and the group of flags it is: one class may serve
    several protocols.
    """
    owners: dict[type, str] = {}
    for protocol in protocols().values():
        if settings_of(protocol.Settings):
            owners.setdefault(protocol.Settings, f"{protocol.name}_protocol")
    return owners


def _flag_type(setting: Setting) -> Any:
    if setting.type is bool:
        return Annotated[bool, arg(help=setting.doc, help_behavior_hint="")]
    if setting.type is Pairs:
        how = arg(help=setting.doc, help_behavior_hint="", metavar="KEY=VALUE …")
        return Annotated[tuple[str, ...], how]
    choices = "{" + ",".join(map(str, setting.choices)) + "}"
    kind = str if setting.choices or setting.type is OtherModel else setting.type
    metavar = choices if setting.choices else METAVARS[setting.type]
    return Annotated[kind | None, arg(help=setting.doc, help_behavior_hint="", metavar=metavar)]


def _unset(setting: Setting) -> Any:
    return {bool: False, Pairs: ()}.get(setting.type)


def given_settings(args: Any, changes_answers: bool | None = None) -> dict[str, Any]:
    """The settings of protocols that were given, by name; only those that change answers, or that
    change none, where asked for. Refuses values out of range.
    """
    values: dict[str, Any] = {}
    for cls, owner in _settings_classes().items():
        for setting in settings_of(cls):
            value = getattr(getattr(args, owner), setting.name)
            if value == _unset(setting) or changes_answers is (not setting.changes_answers):
                continue
            value = _pairs(value) if setting.type is Pairs else value
            if expected := setting.problem(value):
                flag = setting.name.replace("_", "-")
                raise UsageError(f"--{flag} {value}: expected {expected}.")
            values[setting.name] = value
    return values


def given_blocks(args: Any) -> dict[str, dict[str, Any]]:
    """Protocol → the changes to its block that were given."""
    from fieldmark.experiments import named_changes

    given: dict[str, dict[str, Any]] = {}
    for name, protocol in protocols().items():
        for word in getattr(args, name, ()):
            key, equals, text = word.partition("=")
            is_pair = equals and key.isidentifier()  # a file's name may hold `=`
            new_changes = {key: toml_value(text)} if is_pair else named_changes(protocol, word)
            changes = given.setdefault(name, {})
            if twice := sorted(new_changes.keys() & changes):
                raise UsageError(
                    f"--{name} gives {twice[0]} twice. Give it once, or list the values in an "
                    "experiment file."
                )
            changes |= new_changes
    return given


def _pairs(words: Sequence[str]) -> dict[str, Any]:
    """`provider.order=["x"]` as in a TOML file; what is no such value is text."""
    pairs: dict[str, Any] = {}
    given: set[str] = set()
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise UsageError(f"{word!r}: expected KEY=VALUE.")
        if key in given:
            raise UsageError(f"{key} is given twice. Give it once.")
        given.add(key)
        try:
            set_dotted(pairs, key, text)
        except ValueError as error:
            raise UsageError(f"{word!r}: {str(error)!r} already has a value.") from None
    return pairs
