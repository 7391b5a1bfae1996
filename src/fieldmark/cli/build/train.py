"""Train a CLIP model on captioned photos, for open_clip to load.

examples:
  fieldmark train tiny --shards shards --captions captions --out runs/tiny
  fieldmark train tiny --shards shards --out runs/names --check \\
      --set texts.types.caption=0 'model.projectors=["taxonomic"]'
  torchrun --nproc-per-node 8 -m fieldmark train biocap --captions captions --out runs/biocap \\
      --shards 'tol10m/train-{000..159}.tar' --evaluate rarespecies
  fieldmark train biocap --shards 'tol10m/train-{000..159}.tar' --captions captions \\
      --out runs/biocap --on slurm --set slurm.nodes=4 slurm.gpus=8 slurm.time=24:00:00
  fieldmark train runs/biocap --export biocap-captions --projector caption

Run the same command again to continue from the last checkpoint, whatever stopped it. Open
page.html in the run's folder to watch the training. SIGUSR1 writes a checkpoint; SIGTERM writes
one and ends with 143, Ctrl-C with 130. With --on slurm the command submits a job and ends. Run it
again to see how far the job is; it submits the rest if the job has ended early.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from fieldmark.cli.flags import Common, CommonFlags, Only
from fieldmark.cli.show import counted, print_json, talk
from fieldmark.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from fieldmark.build.train.feed.index import TrainData
    from fieldmark.build.train.launch import TrainStanding
    from fieldmark.build.train.recipe import SlurmRecipe, TrainRecipe
    from fieldmark.build.train.run import TrainPlan, TrainTotals
    from fieldmark.progress import Lines, Live

_Folder = Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")]
_Shards = Annotated[tuple[str, ...], arg(metavar="SHARD…", help_behavior_hint="")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainArgs:
    recipe: Annotated[Positional[str], arg(metavar="RECIPE", help_behavior_hint="")]
    """bioclip, bioclip2, biocap, tiny or a TOML file; with --export, the folder of a run"""
    shards: _Shards = ()
    """tar files or folders; `a-{000..159}.tar` means 160 files [the recipe's data.shards]"""
    captions: _Folder = None
    """folder that `fieldmark caption` wrote [the recipe's data.captions]"""
    replay: _Shards = ()
    """shards of general photos to mix in [the recipe's data.replay_shards]"""
    out: _Folder = None
    """folder of the run: checkpoints, log, page and model"""
    set: Annotated[tuple[str, ...], arg(metavar="KEY=VALUE…", help_behavior_hint="")] = ()
    """changes to the recipe: train.batch=256 optimiser.lr=1e-3"""
    evaluate: Annotated[tuple[str, ...], arg(metavar="TASK…", help_behavior_hint="")] = ()
    """tasks that the model is evaluated on [the recipe's evaluate.tasks]"""
    on: Literal["here", "slurm"] = "here"
    """where to train: in this process, or in a Slurm job as the recipe's [slurm] describes it"""
    check: bool = False
    """only check the recipe, the shards and the weights to start from, and say how much there is to
    do"""
    export: _Folder = None
    """only write the model of a finished or running training into this folder: the best checkpoint
    where the recipe chooses one (evaluate.best), else the newest"""
    projector: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """image projector of the exported model [the recipe's first]"""
    json: bool = False
    """print the summary as JSON"""
    common: Annotated[
        CommonFlags, Only(("results", "cache", "data", "data_root", "device", "quiet"))
    ] = Common()


def run(args: TrainArgs) -> int:
    from fieldmark.progress import for_people

    if args.export is not None:
        _need_packages()
        from fieldmark.build.train.recipe import check_export

        check_export(Path(args.recipe), args.export, args.projector)
        from fieldmark.build.train.record.scores import export_run

        is_replaced = args.export.exists()
        step = export_run(Path(args.recipe), args.export, args.projector, talk)
        if not args.common.quiet:
            before = ", in place of the model that was there" if is_replaced else ""
            for line in _model_lines(args.export, f" (step {step:,}{before})"):
                talk(line)
            talk(_next_run(args, args.export, Path(args.recipe)))
        return 0
    if args.on == "slurm" and not args.check:
        return _submit(args)
    recipe, out = _read_recipe(args)
    _need_packages()
    with for_people(args.common.quiet) as progress:
        n_processes = recipe.slurm.n_processes if args.on == "slurm" else 1
        # Before torch is imported, which takes seconds. One of several processes takes turns later.
        data = None if "WORLD_SIZE" in os.environ else _open(recipe, out, n_processes, progress)
        if args.check:
            from fieldmark.build.train.run import first_network

            data = data or _open(recipe, out, n_processes, progress)
            first_network(recipe)
            summary, lines = _check(recipe, data, out)
        else:
            from fieldmark.build.train.run import train

            totals = train(_plan(args, recipe, out, data), progress)
            if not totals.is_first:
                return totals.exit_code
            summary, lines = _summary(args, totals, recipe, out)
    if args.json:
        print_json(summary)
    elif not args.common.quiet:
        for line in lines:
            talk(line)
    return 0 if args.check else totals.exit_code


def _read_recipe(args: TrainArgs) -> tuple[TrainRecipe, Path]:
    """With what the flags say, and the folder of the run."""
    from fieldmark.build.train.recipe import load_recipe
    from fieldmark.build.train.suite import check_tasks

    recipe = _with_flags(load_recipe(args.recipe, args.set), args)
    if args.out is None:
        raise UsageError("--out is missing: the folder of the run, such as --out runs/tiny.")
    if not recipe.data.shards:
        raise UsageError("--shards is missing: what to train on, such as --shards 'shards/*.tar'.")
    if others := [name for name in _OF_OTHERS if (args.out / name).exists()]:
        raise UsageError(
            f"{args.out}  was written by `{_OF_OTHERS[others[0]]}`: give a folder of its own with "
            "--out, such as --out runs/tiny."
        )
    check_tasks(recipe.evaluate, args.common.settings(), bool(args.evaluate))
    return recipe, args.out


_OF_OTHERS = {
    "describe.json": "fieldmark describe",
    "captions": "fieldmark caption",
    "manifest": "fieldmark shards make",
}
"""what lies in folders that other commands write"""


def _model(folder: Path) -> str:
    from fieldmark.build.train.suite import model_name

    return shlex.quote(model_name(folder))


def _open(recipe: TrainRecipe, out: Path, n_processes: int, progress: Lines | Live) -> TrainData:
    """The samples, after all that can be refused of shards, captions and batch."""
    from fieldmark.build.train.feed.index import open_data

    recipe.check_shares(n_processes)
    captions = Path(recipe.data.captions) if recipe.data.captions else None
    data = open_data(recipe.data.shards, captions, out / "index", recipe, progress)
    data.count_steps(recipe)
    return data


def _plan(args: TrainArgs, recipe: TrainRecipe, out: Path, data: TrainData | None) -> TrainPlan:
    from fieldmark.build.train.run import TrainPlan
    from fieldmark.build.train.suite import setting_flags

    settings = args.common.settings()
    return TrainPlan(
        recipe=recipe,
        shards=recipe.data.shards,
        captions=Path(recipe.data.captions) if recipe.data.captions else None,
        out=out,
        device=settings.device,
        store=settings.store,
        flags=setting_flags(settings, recipe.evaluate.device),
        data=data,
    )


def _submit(args: TrainArgs) -> int:
    from fieldmark.build.train.launch import launch
    from fieldmark.build.train.suite import setting_flags

    recipe, out = _read_recipe(args)
    _need_packages()
    settings = args.common.settings()
    flags = ("--results", str(settings.results), *setting_flags(settings))
    standing = launch(recipe, out, flags)
    if args.json:
        row = asdict(standing)
        print_json(row | {"log": str(standing.log or "")})
    elif not args.common.quiet:
        for line in _standing_lines(standing, recipe.slurm, out):
            talk(line)
    return 0


def _standing_lines(standing: TrainStanding, slurm: SlurmRecipe, out: Path) -> list[str]:
    total = f" of {standing.n_steps:,}" if standing.n_steps else ""
    loss = "" if standing.loss is None else f", loss {standing.loss:.3f}"
    step = f"step {standing.step:,}{total}{loss}" if standing.step else "no step yet"
    goes_on = f"continues after {step}" if standing.step else "starts from the beginning"
    page = f"page: {out / 'page.html'}"
    if standing.state == "finished":
        return [f"finished: {step}", f"model: {out / 'model'}", page]
    job, why = standing.job, f" ({standing.reason})" if standing.reason else ""
    if standing.state == "submitted":
        size = f"{counted(slurm.nodes, 'node')} × {slurm.n_local} processes"
        return [
            *([f"{standing.reason}; the next one {goes_on}"] if why else []),
            f"submitted as job {job}: {size}",
            f"log: {standing.log}",
            f"Run the same command to see how far it is, or scancel {job} to stop it.",
        ]
    return [f"job {job} is {standing.state}{why}: {step}", f"log: {standing.log}", page]


def _with_flags(recipe: TrainRecipe, args: TrainArgs) -> TrainRecipe:
    """Flags stand above the recipe's own keys; paths are part of no recipe's identity."""
    data: dict[str, Any] = {}
    data |= {"shards": args.shards} if args.shards else {}
    data |= {"captions": str(args.captions)} if args.captions else {}
    data |= {"replay_shards": args.replay} if args.replay else {}
    evaluate = {"tasks": args.evaluate} if args.evaluate else {}
    return recipe.model_copy(
        update={
            "data": recipe.data.model_copy(update=data),
            "evaluate": recipe.evaluate.model_copy(update=evaluate),
        }
    )


def _need_packages() -> None:
    for package in ("torch", "open_clip"):
        if find_spec(package) is None:
            raise MissingExtra("fieldmark train", "vision", package)


def _check(recipe: TrainRecipe, data: TrainData, out: Path) -> tuple[dict[str, Any], list[str]]:
    from fieldmark.cli.next_steps import example_line
    from fieldmark.progress import duration

    n_steps = data.count_steps(recipe)
    seen = n_steps * recipe.train.batch
    lines = [
        f"{counted(n_steps, 'step')} of {counted(recipe.train.batch, 'pair')}: {seen:,} pairs, "
        f"{seen / max(1, data.n_samples):,.1f} times the {counted(data.n_samples, 'sample')}"
    ]
    lines += [f"  {name:<12}{n:>12,} samples have one" for name, n in data.coverage.items()]
    lines.append(example_line(data.read(0).texts))
    lines += [problem] if (problem := recipe.warmup_problem(n_steps)) else []
    left_s = _time_left(out, n_steps, recipe.train.batch)
    if left_s is not None:
        lines.append(
            f"{duration(left_s)} left without checkpoints, at the speed of {out / 'log.jsonl'}"
        )
    command = [word for word in sys.argv[1:] if word != "--check"]
    lines.append(f"next: {shlex.join(['fieldmark', *command])}")
    return {
        "samples": data.n_samples,
        "coverage": dict(data.coverage),
        "steps": n_steps,
        "pairs": seen,
        "recipe": recipe.digest,
        "data": data.digest,
        "seconds_left": left_s,
    }, lines


def _time_left(out: Path, n_steps: int, batch: int) -> float | None:
    """At the speed that the run had so far; None where it has not begun."""
    from fieldmark.build.train.record.log import read_rows

    rows = read_rows(out / "log.jsonl")
    if not rows or not rows[-1].get("pairs_per_s"):
        return None
    return float((n_steps - rows[-1]["step"]) * batch / rows[-1]["pairs_per_s"])


def _next_run(args: TrainArgs, model: Path, run: Path) -> str:
    """Evaluates a model on a task that is here, of the dataset it was trained on where possible."""
    from fieldmark.build.train.record.scores import read_data_facts
    from fieldmark.cli.next_steps import tasks_on
    from fieldmark.data import DATASETS

    settings, command = args.common.settings(), f"fieldmark run --model {_model(model)} --task"
    known = [*read_data_facts(run).get("datasets", {}), *DATASETS.names()]
    here = [name for name in known if name in DATASETS.names() and settings.root_of(name).is_dir()]
    task = next((task for name in here for task in tasks_on(name)), "")
    return f"next: {command} {task}" if task else f"To test it on your photos: {command} PHOTOS/"


def _model_lines(model: Path, note: str = "") -> list[str]:
    """The folders that were written."""
    from fieldmark.build.train.suite import TWO

    two = model.with_name(f"{model.name}{TWO}")
    both = [f"       {two}, with both projectors, for fieldmark only"] if two.is_dir() else []
    return [f"model: {model}{note}", *both]


def _summary(
    args: TrainArgs, totals: TrainTotals, recipe: TrainRecipe, out: Path
) -> tuple[dict[str, Any], list[str]]:
    loss = "" if totals.loss is None else f", loss {totals.loss:.3f}"
    lines = [f"step {totals.step:,} of {totals.n_steps:,}{loss}"]
    if totals.first_step == totals.n_steps:
        lines = [f"already finished ({counted(totals.n_steps, 'step')}): nothing to train"]
    if totals.exit_code > 128:
        lines.append("stopped on request: run the same command to continue from here")
    else:
        model = out / "model"
        lines += _model_lines(model)
        results = args.common.settings().results
        where = "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"
        is_scored = recipe.evaluate.tasks and not totals.exit_code
        table = "next: fieldmark table" + where
        lines.append(table if is_scored else _next_run(args, model, out))
    lines.append(f"page: {out / 'page.html'}")
    return {
        "steps": totals.n_steps,
        "step": totals.step,
        "first_step": totals.first_step,
        "loss": totals.loss,
        "scores": totals.scores,
        "best_step": totals.best_step,
        "out": str(out),
    }, lines
