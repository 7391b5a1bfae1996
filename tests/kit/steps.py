"""Steps without a launcher: carried out one after the other, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fieldmark.experiments import Axes, ExecuteOptions, Plan, execute, make_jobs, make_plan
from fieldmark.experiments.cluster.steps import PlannedStep, StepOptions, make_steps
from fieldmark.experiments.cluster.work import write_work
from fieldmark.experiments.cluster.worker import run_step
from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.store import Store, merge_shards

TIMES = ("images_per_s", "busy_s", "device_busy", "peak_mb", "seconds")
"""notes of a part that say how long and how large, not what"""


def plan_of(
    settings: Settings, models: list[str], tasks: list[str], axes: Axes | None = None
) -> Plan:
    jobs = make_jobs(
        [(model, "") for model in models],
        [(task, "") for task in tasks],
        axes or Axes(),
        include_path=settings.include_path,
    )
    return make_plan(jobs, settings, may_load=True)


def write_steps(steps: list[PlannedStep], settings: Settings) -> list[Path]:
    """The folders of the steps, as a launcher makes them."""
    job_folder = settings.results / "cluster" / "steps"
    folders: list[Path] = []
    for number, step in enumerate(steps):
        folder = job_folder / f"step-{number:03}"
        folder.mkdir(parents=True)
        after = tuple(folders[place].name for place in step.after)
        write_work(folder, replace(step.work, after=after))
        folders.append(folder)
    return folders


def do_in_steps(
    plan: Plan,
    settings: Settings,
    options: StepOptions | None = None,
    run: Callable[[Path], int] = run_step,
) -> list[PlannedStep]:
    """Carries out the steps one after the other and merges them."""
    steps = make_steps(plan, options or StepOptions())
    folders = write_steps(steps, settings)
    assert [run(folder) for folder in folders] == [0] * len(folders)
    merge(settings, folders)
    return steps


def merge(settings: Settings, folders: list[Path]) -> None:
    shards = [folder / "shard" / "fieldmark.db" for folder in folders]
    with Store.open(settings.store) as main:
        merge_shards(main, [shard for shard in shards if shard.is_file()])


def do_here(plan: Plan, settings: Settings) -> None:
    outcome = execute(plan, settings, Silent(), ExecuteOptions(["test"]))
    assert not outcome.failures, outcome.failures


def everything(settings: Settings) -> dict[str, Any]:
    """By run: spec, state, predictions, scores and notes, without when and how long."""
    facts: dict[str, Any] = {}
    with Store.open(settings.store, read_only=True) as store:
        scores = store.scores()
        for run in store.runs():
            parts = [
                (part.part, part.repeat, part.n_train, _untimed(part.info))
                for part in store.finished_parts(run.id)
            ]
            rows = store.predictions(run.id).rows()
            facts[run.name] = (run.spec, run.state, run.fingerprint, run.root, parts, rows,
                              sorted(map(repr, scores.get(run.id, ()))))  # fmt: skip
    return facts


def _untimed(info: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (info or {}).items() if name not in TIMES}
