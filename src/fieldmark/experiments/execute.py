"""Execution (resume, claims): how is a plan carried out so that nothing is lost or done twice?

Model by model, job by job. Each part is written as it comes; a killed run goes on with the parts
that are missing. One failed job does not stop the others: its traceback goes to the store, its line
to the table of failures.
"""

from __future__ import annotations

import math
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark import draws
from fieldmark.chat import dollars, spent_usd
from fieldmark.embed import checking, fill, n_parameters_of, noted_decode, throughput_of
from fieldmark.errors import (
    BatchPending,
    BudgetSpent,
    ClaimLost,
    FieldmarkError,
    RunsFailed,
    StoreError,
)
from fieldmark.experiments._grid import Job
from fieldmark.experiments.gaps import Gaps, failed_parts
from fieldmark.experiments.identity import (
    ContentDigests,
    identify,
    joined_name,
    prepare,
    read_content,
    recorded_path,
    unread_rows,
    with_content,
)
from fieldmark.experiments.plan import Plan, Planned
from fieldmark.experiments.warn import question_warnings
from fieldmark.models import stand_in
from fieldmark.processes import peak_bytes
from fieldmark.progress import Progress
from fieldmark.protocols import (
    PartPredictions,
    Question,
    Scoring,
    embed_options,
    has_block,
    load_protocol,
    may_fail,
    protocols,
    refs_of,
    value_names,
)
from fieldmark.settings import Settings
from fieldmark.store import (
    Marks,
    PartResult,
    Predictions,
    RunName,
    RunSpec,
    Score,
    Store,
    fewer_examples,
    fit_summary,
    reproduction_record,
)

HEARTBEAT_S = 20.0
ONCE = ("fit", "calibration", "bad_images", "busy_s")
"""notes of a part that hold for all its repeats"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that did not finish."""

    title: str
    error: str
    exit_code: int
    trace: str = ""
    """where in the code it happened"""
    is_waiting: bool = False
    """nothing is wrong: its answers are yet to come"""
    is_unpaid: bool = False
    """nothing is wrong: the budget is spent, and the same command continues"""

    def as_error(self) -> FieldmarkError:
        """What went wrong elsewhere, as it would have here."""
        error = FieldmarkError(self.error)
        error.exit_code = self.exit_code
        if self.trace:
            error.add_note(self.trace)
        return error


@dataclass(frozen=True, slots=True)
class ExecuteOptions:
    """How a plan is carried out; none of it changes an answer."""

    command: Sequence[str] = ()
    """what to type to do it again"""
    force: bool = False
    """do finished runs again"""
    shared: Mapping[str, Any] = field(default_factory=dict)
    """what protocols are to use in place of their own: "sending", "budget", "journal"; with
    "leases" other processes fill the same feature cache"""
    is_private: bool = False
    """nobody else has the results folder"""
    refused: Mapping[str, Failure] = field(default_factory=dict)
    """why a run cannot be done, by its name without the model's version (`joined_name`)"""


@dataclass(frozen=True, slots=True)
class Outcome:
    names: tuple[RunName, ...]
    """of the runs that are done now"""
    failures: tuple[Failure, ...]
    n_claimed: int = 0
    """left to other processes that are on them"""
    closing_lines: tuple[str, ...] = ()
    """what all runs together cost"""
    gaps: Gaps = field(default_factory=Gaps)
    """what became of the questions of all runs that are there now"""

    @property
    def n_done(self) -> int:
        return len(self.names)

    def raise_if_failed(self) -> None:
        """RunsFailed when some jobs failed; with nothing kept, the code of what went wrong."""
        if not self.failures:
            return
        n = self.n_done + len(self.failures)
        n_waiting = sum(failure.is_waiting for failure in self.failures)
        unpaid = [failure.error for failure in self.failures if failure.is_unpaid]
        n_failed = len(self.failures) - n_waiting - len(unpaid)
        sentences = [f"{n_failed} of {n} runs failed."] if n_failed else []
        if n_waiting:
            sentences.append(
                f"{n_waiting} of {n} runs wait for answers: run the same command to fetch them."
            )
        if unpaid:
            sentences.append(f"{len(unpaid)} of {n} runs are not finished: {unpaid[0]}")
        error = RunsFailed(self.failures[0].error if n == 1 else " ".join(sentences))
        codes = {failure.exit_code for failure in self.failures}
        if self.n_done == 0 and len(codes) == 1:
            error.exit_code = codes.pop()
        raise error


def execute(
    plan: Plan,
    settings: Settings,
    progress: Progress,
    options: ExecuteOptions | None = None,
) -> Outcome:
    """Runs what the plan says is to run. A store that cannot be written stops everything."""
    options = options or ExecuteOptions()
    names: list[RunName] = []
    failures: list[Failure] = []
    plan.workspace.shared.update(options.shared)
    with Store.open(settings.store, is_private=options.is_private) as store:
        _confirm(plan, store)
        runner = _JobRunner(plan, settings, store, progress, options)
        # Model by model, so that each is loaded once; in the order the grid names them.
        models = list(dict.fromkeys(planned.job.model for planned in plan.to_run))
        in_order = sorted(plan.to_run, key=lambda planned: models.index(planned.job.model))
        for number, planned in enumerate(in_order, start=1):
            unpaid = next((failure for failure in failures if failure.is_unpaid), None)
            if unpaid is not None and planned.cost is not None:
                failures.append(replace(unpaid, title=planned.job.title))
                continue
            progress.say(f"run {number} of {len(plan.to_run)}: {planned.job.title}")
            try:
                done = runner.do(planned)
            except KeyboardInterrupt:
                for line in _spending(plan, settings):
                    progress.say(line)
                raise
            if isinstance(done, Failure):
                failures.append(done)
            elif done is not None:
                names.append(done)
        gaps = gaps_of(plan, names, store)
    n_claimed = len(plan.to_run) - len(names) - len(failures)
    return Outcome(tuple(names), tuple(failures), n_claimed, _spending(plan, settings), gaps)


def _spending(plan: Plan, settings: Settings) -> tuple[str, ...]:
    """What this command has spent, and the results folder in all."""
    budget = plan.workspace.shared.get("budget")
    if not budget or not budget.spent_tokens:
        return ()
    folder = plan.workspace.shared.get("journal", settings.journal)
    whole = spent_usd(folder) if budget.spent_usd else 0.0
    in_all = f" All answers so far cost {dollars(whole)}." if whole else ""
    return (f"spent: {budget.words}.{in_all}",)


def _confirm(plan: Plan, store: Store) -> None:
    """Notes that runs which were done before are right today, where, and for which groups."""
    done = {p.run.name: p for p in plan.jobs if p.run is not None}
    roots = {name: _root(planned) for name, planned in done.items()}
    drawn = [name for name, p in done.items() if p.question and p.question.is_synthetic]
    store.confirm(roots, drawn)
    for planned in done.values():
        if planned.job.groups:
            # A run that was done by itself becomes a member of the groups it is asked for with now.
            run = planned.run
            for part in store.finished_parts(run.id) if run is not None else ():
                info = part.info or {}
                before = {group["group"]: group for group in info.get("asked_with") or ()}
                every = list(
                    (before | {group["group"]: group for group in planned.job.groups}).values()
                )
                if run is not None and every != info.get("asked_with"):
                    store.note_part(run.id, part.part, part.repeat, {**info, "asked_with": every})


def gaps_of(plan: Plan, done: Sequence[RunName], store: Store) -> Gaps:
    """Of the runs that were done now or before."""
    before = [planned.run.name for planned in plan.jobs if planned.run is not None]
    runs = [store.run(name) for name in dict.fromkeys([*done, *before])]
    may_have = {name for name, protocol in protocols().items() if may_fail(protocol)}
    stored = [run for run in runs if run is not None]
    return Gaps.of(
        store, [run.id for run in stored if run.spec.protocol.partition("/")[0] in may_have]
    )


@dataclass(slots=True)
class _JobRunner:
    """What the runs of one command have in common."""

    plan: Plan
    settings: Settings
    store: Store
    progress: Progress
    options: ExecuteOptions

    def do(self, planned: Planned) -> RunName | Failure | None:
        """One job, from where it stands to its scores; None: another process is on it."""
        spec, job, models = planned.spec, planned.job, self.plan.models
        assert spec is not None
        try:
            if failure := self.options.refused.get(joined_name(spec)):
                raise failure.as_error()
            model = self._load(job.model)
            spec = with_content(spec, models.identity(job.model).version)
            with _claimed(self.store, spec.key) as is_mine:
                if not is_mine:
                    self.progress.say("    another process is running it: skipped")
                    return None
                content = self._look(planned, spec.key, model)
                spec = with_content(spec, spec.model_version, content.digest)
                if self._is_done(planned, spec, content):
                    self.progress.say("    done before")  # it shows only now
                else:
                    self._run(planned, spec, model, content)
            return spec.name
        except StoreError:
            raise
        except ClaimLost as error:
            self.progress.say(f"    {error}")
            return None
        except Exception as error:  # noqa: BLE001 - the job border: keep going, keep the traceback
            return self._keep_failure(job, spec, error)

    def _load(self, name: str) -> Any:
        """One whose name or file is wrong leaves no run behind; one whose own code fails does."""
        try:
            return self.plan.models.load(name)
        except FieldmarkError as error:
            error.is_recorded = bool(error.is_recorded)
            raise

    def _look(self, planned: Planned, key: str, model: Any) -> ContentDigests:
        """What the images hold. Those that are not known are embedded meanwhile, so that each is
        read once, unless a finished run may turn out to be the same.
        """
        question, workspace = planned.question, self.plan.workspace
        assert question is not None
        is_new = self.options.force or not self.store.has_done(key)
        rows = unread_rows(question, workspace) if is_new and question.backbone else None
        backbone = question.backbone(model) if rows is not None and question.backbone else None
        if rows is not None and backbone is not None:
            # In one pass over the files; what cannot be read is told when it is to be used.
            refs = [ref for images in refs_of(rows) for ref in images]
            fill(backbone, question.root, refs, embed_options(workspace), self.progress)
        return read_content(question, workspace, checking(self.progress))

    def _is_done(self, planned: Planned, spec: RunSpec, content: ContentDigests) -> bool:
        """Is there nothing left to do, not even questions that are asked again?"""
        run = None if self.options.force else self.store.run(spec.name)
        if run is None or run.state != "done":
            return False
        if content.broken and self.settings.bad_images != "skip":
            return False
        question = planned.question
        assert question is not None
        if not may_fail(load_protocol(question.protocol)):
            return True
        return not Gaps.of(self.store, [run.id]).n_asked_again(question.asks_again)

    def _run(self, planned: Planned, spec: RunSpec, model: Any, content: ContentDigests) -> None:
        """One run, from the parts that are there to its scores."""
        plan, store, job, question = self.plan, self.store, planned.job, planned.question
        assert question is not None and planned.spec is not None
        marks = Marks(stand_in(job.model), question.is_synthetic)
        record = _record(job, plan, self.options)
        if warnings := question_warnings(question, content.by_id):
            record["warnings"] = warnings
        run = store.begin_run(spec, record, model.fingerprint, _root(planned), True, marks)
        plan.models.note_behaviour(job.model)
        have = {(part.part, part.repeat) for part in store.finished_parts(run)}
        have -= failed_parts(store, run) if may_fail(load_protocol(job.protocol)) else set()
        missing = [
            name
            for name in question.part_names
            if any((name, repeat) not in have for repeat in range(job.draw.repeats))
        ]
        if missing:
            protocol = load_protocol(job.protocol)
            for answers in protocol.answer(question, missing, model, plan.workspace, self.progress):
                notes = answers.notes | _facts(model, self.settings)
                budget, card = plan.workspace.shared.get("budget"), getattr(model, "card", None)
                if budget is not None and card is not None:
                    notes["charged_share"] = round(budget.estimator(card).charged_share, 4)
                notes |= {"asked_with": job.groups} if job.groups else {}
                _write(store, run, replace(answers, notes=notes), have, content)
        scores = self._score(question, spec, run)
        store.finish_run(run, scores)
        store.drop_run(planned.spec.name)  # what was kept of a failed start
        for score in scores:
            if score.is_primary and math.isnan(score.value):
                why = f": {score.warning}" if score.warning else ""
                self.progress.say(f"    no score: {score.metric}{why}")
        parts = store.finished_parts(run)
        for line in (fewer_examples(parts, spec.n_train), *fit_summary(parts).note_lines):
            if line:
                self.progress.say(f"    {line}")

    def _score(self, question: Question, spec: RunSpec, run: int) -> list[Score]:
        """From what is stored, whether it was answered now or before."""
        stored, parts = self.store.predictions(run), self.store.finished_parts(run)
        scoring = Scoring.of(
            parts,
            (*question.metrics, *value_names(stored)),
            question.rule,
            seed=question.draw.seed,
            folder=self.settings.results / "files" / draws.digest(*spec.name).hex()[:16],
            workspace=self.plan.workspace,
        )
        return load_protocol(question.protocol).score(scoring, stored, parts, question) or []

    def _keep_failure(self, job: Job, spec: RunSpec, error: Exception) -> Failure:
        """Keeps the traceback with the run; one that could not start gets a record too, unless its
        model could not be loaded.
        """
        record = _record(job, self.plan, self.options)
        number = self.store.begin_run(spec, record, again=self.options.force)
        failure = failure_of(job, error)
        if isinstance(error, FieldmarkError) and error.is_recorded is False:
            self.store.forget_start(number)
        elif not failure.is_unpaid:  # the run stays as it is, to be continued
            self.store.fail_run(number, failure.trace)
        if len(self.plan.jobs) > 1 and not failure.is_unpaid:
            word = "" if failure.is_waiting else "failed: "
            self.progress.say(f"    {word}{failure.error}")
        return failure


def _root(planned: Planned) -> str:
    """The folder as it is recorded; "" where items name their own."""
    root = planned.question.root if planned.question else Path()
    return "" if root == Path() else recorded_path(root)


def _write(
    store: Store,
    run: int,
    answers: PartPredictions,
    have: set[tuple[str, int]],
    content: ContentDigests,
) -> None:
    repeats = answers.frame.get_column("repeat").unique().sort().to_list()
    seconds = answers.seconds / max(len(repeats), 1)  # all repeats were answered in that time
    for repeat in repeats:
        if (answers.part, repeat) in have:
            continue
        frame = answers.frame.filter(pl.col("repeat") == repeat)
        # The first repeat of a part tells what all of them chose and left out.
        once = ONCE if repeat else ()
        notes = {name: note for name, note in answers.notes.items() if name not in once}
        store.write_part(
            run,
            PartResult(
                Predictions(
                    ids=frame["id"].to_list(),
                    targets=frame["target"].to_list(),
                    predictions=frame["prediction"].to_list(),
                    scores=frame["score"].to_list(),
                    units=frame["unit"].to_list(),
                    outcomes=frame["outcome"].to_list() if "outcome" in frame.columns else None,
                    infos=frame["info"].to_list() if "info" in frame.columns else None,
                    contents=[content.by_id.get(item) for item in frame["id"]],
                ),
                part=answers.part,
                repeat=repeat,
                n_train=answers.n_train,
                seconds=seconds,
                info=notes | {"groups": dict(answers.groups)},
            ),
        )


def _facts(model: Any, settings: Settings) -> dict[str, Any]:
    """What readers of results want to know of a model, as far as it is known: its size, how photos
    were read, how fast that and the rest was, and where the time went.
    """
    spent = throughput_of(settings.cache, model.fingerprint)
    notes = {
        "images_per_s": spent.images_per_s,
        "n_parameters": n_parameters_of(model),
        "decode": noted_decode(model) if hasattr(model, "embed_images") else "",
        "n_fallback": spent.n_fallback,
        "device_busy": round(spent.device_busy or 0.0, 3),
        "busy_s": {part: round(seconds, 3) for part, seconds in spent.busy_s.items()},
        "peak_mb": peak_bytes() >> 20,
    }
    return {name: value for name, value in notes.items() if value}


@contextmanager
def _claimed(store: Store, key: str) -> Iterator[bool]:
    """Holds the claim, and its heartbeat, while the run goes on.

    Where it is taken over or freed, the next write to the run raises ClaimLost.
    """
    if store.is_private:
        yield True
        return
    if not store.claim(key):
        yield False
        return
    stop = threading.Event()

    def beat() -> None:
        with Store.open(store.path) as store_here:
            while not stop.wait(HEARTBEAT_S):
                with suppress(StoreError):  # locked for long, disk full: the next may come through
                    store_here.heartbeat(key)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield True
    finally:
        stop.set()
        thread.join()
        store.release(key)


def failure_of(job: Job, error: Exception) -> Failure:
    """What is told of a job that went wrong."""
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, FieldmarkError):
        text, is_unpaid = str(error).splitlines()[0], isinstance(error, BudgetSpent)
        is_waiting = isinstance(error, BatchPending)
        return Failure(job.title, text, error.exit_code, trace, is_waiting, is_unpaid)
    message = f"{type(error).__name__}: {error}".splitlines()[0]
    return Failure(job.title, f"{message} (--debug shows where)", 1, trace)


def _record(job: Job, plan: Plan, options: ExecuteOptions) -> dict[str, Any]:
    """What is kept with a run: its task, and what the task's file itself asks for, whatever the job
    changed of it, so that a report knows the task's own way of asking without the file (None: the
    file has none).
    """
    protocol, own_way = load_protocol(job.protocol), None
    if job.unchanged is not None and not (
        has_block(protocol) and job.unchanged.block(job.protocol) is None
    ):
        task, draw = job.unchanged.cell(protocol.training == "needed", parts=job.draw.parts)
        plain_job = replace(job, task=task, draw=draw, settings=protocol.Settings())
        with suppress(FieldmarkError):  # only as the job has it can the task be asked of these data
            spec = identify(plain_job, prepare(plain_job, plan.workspace))
            names = ("protocol", "settings", "n_train", "n_test")
            own_way = {name: getattr(spec, name) for name in names}
    config = {"task": job.task.plain(), "own": own_way, "parts": job.draw.parts.words}
    return reproduction_record(options.command, config=config)
