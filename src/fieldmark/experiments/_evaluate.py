"""`evaluate` (the Python API): how is one model asked one task from Python?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from fieldmark.errors import FieldmarkError, RunsFailed, UsageError
from fieldmark.experiments._grid import make_jobs, single_axes
from fieldmark.experiments.execute import ExecuteOptions, execute
from fieldmark.experiments.plan import make_plan, wait_for_claims
from fieldmark.models import Backbone, known_models, register_model
from fieldmark.progress import Progress, Silent
from fieldmark.settings import Settings, load_settings
from fieldmark.store import Run, RunFilter, Score, Store


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a run found."""

    score: Score
    """the task's own number, with its interval"""
    scores: list[Score]
    """all of them: further metrics, parts, groups"""
    predictions: pl.DataFrame
    run: Run


def evaluate(
    model: str | Backbone,
    task: str,
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
    **axes: Any,
) -> Evaluation:
    """Runs the model on the task, or finds the finished run, and returns what is known.

    `axes` are single values of `n_train`, `n_test`, `sampling`, `seed`, `repeats`, of the settings
    of a protocol (`temp`), and changes to its block (`probe={"classifier": "svm"}`); `protocol`
    chooses where a model and a task can meet in several ways.

    >>> evaluate("classical/colour", "beluga", n_train=10).score.value  # doctest: +SKIP
    """
    name = model if isinstance(model, str) else _register(model)
    settings = settings or load_settings()
    jobs = make_jobs(
        [(name, "")], [(task, "")], single_axes(axes), None, settings.include_path,
        settings.send_key,
    )  # fmt: skip
    if len({job.protocol for job in jobs}) > 1:
        names = ", ".join(repr(job.protocol) for job in jobs)
        raise UsageError(f"{name!r} fits several protocols of {task!r}: choose protocol={names}.")
    if len(jobs) != 1:
        raise UsageError(f"task {task!r} means {len(jobs)} tasks: name one.")
    plan = make_plan(jobs, settings, may_load=True)
    if wait_for_claims(plan, settings, progress or Silent()):
        plan = make_plan(jobs, settings, may_load=True)
    (planned,) = plan.jobs
    if planned.question is None:
        raise planned.error or FieldmarkError(f"{planned.job.title}: {planned.why}.")
    outcome = execute(plan, settings, progress or Silent(), ExecuteOptions(["fieldmark.evaluate"]))
    for failure in outcome.failures:
        error = FieldmarkError(failure.error)
        error.exit_code = failure.exit_code
        raise error
    if not outcome.names and planned.run is None:
        raise RunsFailed(f"{planned.job.title}: another process is running it.")
    with Store.open(settings.store, read_only=True) as store:
        run = store.run(planned.run.name if planned.run else outcome.names[0])
        assert run is not None
        scores = store.scores(RunFilter(models=(run.spec.model,), tasks=(run.spec.task,)))[run.id]
        (main,) = (score for score in scores if score.is_primary)
        return Evaluation(main, scores, store.predictions(run.id), run)


def _register(model: Backbone) -> str:
    """A model object is known by its name and told apart by its fingerprint."""
    name = f"{model.name}#{model.fingerprint[:12]}"
    if name not in {checkpoint.name for checkpoint in known_models()}:
        register_model(name, _HandedOver(model))
    return name


class _HandedOver:
    """A factory of a model that is there already, with its methods: they tell its abilities."""

    def __init__(self, model: Backbone) -> None:
        self.model = model

    def __call__(self) -> Backbone:
        return self.model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)
