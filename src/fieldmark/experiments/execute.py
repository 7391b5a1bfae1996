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

from fieldmark.embed import checking, n_parameters_of, noted_decode, throughput_of
from fieldmark.errors import BatchPending, ClaimLost, FieldmarkError, RunsFailed, StoreError
from fieldmark.experiments._grid import Job
from fieldmark.experiments.gaps import Gaps, failed_parts
from fieldmark.experiments.identity import (
    ContentDigests,
    asked_key,
    place_of,
    question_key,
    with_content,
)
from fieldmark.experiments.plan import JobPreparer, Plan, Planned, Prepared
from fieldmark.processes import peak_bytes
from fieldmark.progress import Progress
from fieldmark.protocols import (
    PartPredictions,
    Scoring,
    has_block,
    load_protocol,
    may_fail,
    prefetch_rows,
    protocols,
    value_names,
)
from fieldmark.settings import Settings
from fieldmark.store import (
    PartResult,
    Predictions,
    RunFilter,
    RunSpec,
    Score,
    Store,
    fit_summary,
    reproduction_record,
)

HEARTBEAT_S = 20.0
ONCE = ("fit", "bad_images", "busy_s")
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
    """why a run cannot be done, by what is asked (`asked_key`)"""


@dataclass(frozen=True, slots=True)
class Outcome:
    keys: tuple[str, ...]
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
        return len(self.keys)

    def raise_if_failed(self) -> None:
        """RunsFailed when some jobs failed; with nothing kept, the code of what went wrong."""
        if not self.failures:
            return
        n = self.n_done + len(self.failures)
        n_waiting = sum(failure.is_waiting for failure in self.failures)
        n_failed = len(self.failures) - n_waiting
        words = [f"{n_failed} of {n} runs failed."] if n_failed else []
        if n_waiting:
            words.append(
                f"{n_waiting} of {n} runs wait for answers: the same command fetches them."
            )
        error = RunsFailed(self.failures[0].error if n == 1 else " ".join(words))
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
    keys: list[str] = []
    failures: list[Failure] = []
    n_claimed = 0
    plan.workspace.shared.update(options.shared)
    with Store.open(settings.store, is_private=options.is_private) as store:
        done = {p.key: p.prepared for p in plan.jobs if p.status == "done" and p.prepared}
        drawn = [key for key, prepared in done.items() if prepared.marks.is_synthetic]
        store.confirm({key: _root(prepared) for key, prepared in done.items()}, drawn)
        for planned in plan.jobs:
            if planned.status == "done" and planned.job.groups:
                _note_groups(planned, store)
        for number, planned in enumerate(_by_model(plan.to_run), start=1):
            assert planned.prepared is not None
            progress.say(f"[{number}/{len(plan.to_run)}] {planned.job.title}")
            spec = planned.prepared.spec
            try:
                ready = _ready(planned.prepared, plan, store, progress, options)
                spec = ready.spec
                is_done = run_one(ready, plan, store, settings, progress, options)
            except StoreError:
                raise
            except ClaimLost as error:
                progress.say(f"    {error}")
                n_claimed += 1
                continue
            except Exception as error:  # noqa: BLE001 - the job border: keep going, keep the traceback
                failures.append(_keep_failure(planned.job, spec, error, store, plan, options))
                if len(plan.jobs) > 1:
                    word = "" if failures[-1].is_waiting else "failed: "
                    progress.say(f"    {word}{failures[-1].error}")
                continue
            keys += [spec.key] if is_done else []
            n_claimed += not is_done
        gaps = gaps_of(plan, keys, store)
    budget = plan.workspace.shared.get("budget")
    closing = (f"spent: {budget.words}",) if budget and budget.spent_tokens else ()
    return Outcome(tuple(keys), tuple(failures), n_claimed, closing, gaps)


def gaps_of(plan: Plan, done: Sequence[str], store: Store) -> Gaps:
    """Of the runs that were done now or before."""
    before = [planned.key for planned in plan.jobs if planned.status == "done"]
    runs = [store.run(key) for key in dict.fromkeys([*done, *before])]
    may_have = {name for name, protocol in protocols().items() if may_fail(protocol)}
    own = [run for run in runs if run is not None]
    return Gaps.of(
        store, [run.id for run in own if run.spec.protocol.partition("/")[0] in may_have]
    )


@dataclass(frozen=True, slots=True)
class Ready:
    """A job whose model is loaded and whose images are known."""

    prepared: Prepared
    model: Any
    content: ContentDigests
    spec: RunSpec


def _ready(
    prepared: Prepared, plan: Plan, store: Store, progress: Progress, options: ExecuteOptions
) -> Ready:
    job = prepared.job
    if failure := options.refused.get(asked_key(prepared.spec, prepared.root)):
        error = FieldmarkError(failure.error)  # what went wrong elsewhere, as it would have here
        error.exit_code = failure.exit_code
        if failure.trace:
            error.add_note(failure.trace)
        raise error
    model = plan.models.load(job.model)
    version = plan.models.identity(job.model).version
    spec = with_content(prepared.spec, version)
    if options.force or not _may_be_done(spec, store):
        _prefetch(prepared, spec, model, plan, store, progress)
    content = plan.images.digests(prepared.question, checking(progress))
    return Ready(prepared, model, content, with_content(prepared.spec, version, content.digest))


def _may_be_done(spec: RunSpec, store: Store) -> bool:
    """Is there a finished run that is the same, unless images have changed since?"""
    question = question_key(spec)
    alike = RunFilter(tasks=(spec.task,), seeds=(spec.seed,), states=("done",))
    return any(question_key(run.spec) == question for run in store.runs(alike))


def _prefetch(
    prepared: Prepared, spec: RunSpec, model: Any, plan: Plan, store: Store, progress: Progress
) -> None:
    """Embeds images whose content is not known, so that each is read once.

    Which run it will be shows only then: until that, this process claims the question and the
    folder.
    """
    question = prepared.question
    rows = plan.images.unread(question)
    if rows is None:
        return
    with _claimed(store, asked_key(spec, question.root)) as is_mine:
        if not is_mine:
            raise ClaimLost("another process is running it: skipped")
        backbone = question.backbone(model) if question.backbone else None
        if backbone is not None:
            prefetch_rows(backbone, question.root, rows, plan.workspace, progress)


def run_one(
    ready: Ready,
    plan: Plan,
    store: Store,
    settings: Settings,
    progress: Progress,
    options: ExecuteOptions,
) -> bool:
    """One run from where it stands to its scores; False when another process is on it."""
    prepared, job, spec, model = ready.prepared, ready.prepared.job, ready.spec, ready.model
    is_fit = settings.bad_images == "skip" or not ready.content.broken
    is_fit = is_fit and not _is_asked_again(ready, store)
    if store.is_done(spec.key) and is_fit and not options.force:
        progress.say("    done before")  # by another process, or it shows only now
        return True
    with _claimed(store, spec.key) as is_mine:
        if not is_mine:
            progress.say("    another process is running it: skipped")
            return False
        root = _root(prepared)
        record = _record(job, plan, options)
        is_again = options.force or not is_fit
        run = store.begin_run(spec, record, model.fingerprint, root, is_again, prepared.marks)
        plan.models.note_behaviour(job.model)
        have = {(part.part, part.repeat) for part in store.finished_parts(run)}
        have -= failed_parts(store, run) if may_fail(prepared.protocol) else set()
        missing = [
            name
            for name in prepared.question.part_names
            if any((name, repeat) not in have for repeat in range(job.draw.repeats))
        ]
        if missing:
            for answers in prepared.protocol.answer(
                prepared.question, missing, model, plan.workspace, progress
            ):
                facts = answers.notes | _facts(model, settings)
                facts |= {"asked_with": job.groups} if job.groups else {}
                _write(store, run, replace(answers, notes=facts), have, ready.content)
        scores = _score(ready, plan, store, run, settings)
        store.finish_run(run, scores)
        store.drop_run(prepared.spec.key)  # what was kept of a failed start
        for score in scores:
            if score.is_primary and math.isnan(score.value):
                why = f": {score.warning}" if score.warning else ""
                progress.say(f"    no score: {score.metric}{why}")
        for line in fit_summary(store.finished_parts(run)).note_lines:
            progress.say(f"    {line}")
    return True


def _is_asked_again(ready: Ready, store: Store) -> bool:
    """Is the run done but for questions that are asked again?"""
    protocol, run = ready.prepared.protocol, store.run(ready.spec.key)
    if run is None or not may_fail(protocol):
        return False
    again = ready.prepared.question.asks_again
    return bool(Gaps.of(store, [run.id]).n_asked_again(again))


def _root(prepared: Prepared) -> str:
    """The folder as it is recorded; "" where items name their own."""
    return "" if prepared.root == Path() else place_of(prepared.root)


def _score(ready: Ready, plan: Plan, store: Store, run: int, settings: Settings) -> list[Score]:
    """From what is stored, whether it was answered now or before."""
    question, stored, parts = (
        ready.prepared.question, store.predictions(run), store.finished_parts(run),
    )  # fmt: skip
    scoring = Scoring.of(
        parts,
        (*question.metrics, *value_names(stored)),
        question.rule,
        seed=question.draw.seed,
        folder=settings.results / "files" / ready.spec.key[:16],
        workspace=plan.workspace,
    )
    return ready.prepared.protocol.score(scoring, stored, parts, question) or []


def _note_groups(planned: Planned, store: Store) -> None:
    """A run that was done by itself becomes a member of the groups it is asked for with now."""
    run = store.run(planned.key)
    for part in store.finished_parts(run.id) if run is not None else ():
        info = part.info or {}
        before = {group["group"]: group for group in info.get("asked_with") or ()}
        every = list((before | {group["group"]: group for group in planned.job.groups}).values())
        if run is not None and every != info.get("asked_with"):
            store.note_part(run.id, part.part, part.repeat, {**info, "asked_with": every})


def _write(
    store: Store,
    run: int,
    answers: PartPredictions,
    have: set[tuple[str, int]],
    content: ContentDigests,
) -> None:
    repeats = list(answers.by_repeat())
    seconds = answers.seconds / max(len(repeats), 1)  # all repeats were answered in that time
    for repeat, frame in repeats:
        if (answers.part, repeat) in have:
            continue
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
                info=_facts_of_repeat(answers, repeat),
            ),
        )


def _facts_of_repeat(answers: PartPredictions, repeat: int) -> dict[str, Any]:
    """The first repeat of a part tells what all of them chose and left out."""
    notes = answers.notes
    if repeat:
        notes = {name: value for name, value in notes.items() if name not in ONCE}
    return notes | {"groups": dict(answers.groups)}


def _facts(model: Any, settings: Settings) -> dict[str, Any]:
    """What readers of results want to know of a model, as far as it is known: its size, how photos
    were read, how fast that and the rest was, and where the time went.
    """
    spent = throughput_of(settings.cache, model.fingerprint)
    facts = {
        "images_per_s": spent.images_per_s,
        "n_parameters": n_parameters_of(model),
        "decode": noted_decode(model) if hasattr(model, "embed_images") else "",
        "n_fallback": spent.n_fallback,
        "device_busy": round(spent.device_busy or 0.0, 3),
        "busy_s": {part: round(seconds, 3) for part, seconds in spent.busy_s.items()},
        "peak_mb": peak_bytes() >> 20,
    }
    return {name: value for name, value in facts.items() if value}


def _by_model(jobs: Sequence[Planned]) -> list[Planned]:
    """Model by model, so that each is loaded once; in the order the grid names them."""
    order = {name: place for place, name in enumerate(dict.fromkeys(j.job.model for j in jobs))}
    return sorted(jobs, key=lambda planned: order[planned.job.model])


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
        with Store.open(store.path) as own:
            while not stop.wait(HEARTBEAT_S):
                with suppress(StoreError):  # locked for long, disk full: the next may come through
                    own.heartbeat(key)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield True
    finally:
        stop.set()
        thread.join()
        store.release(key)


def _keep_failure(
    job: Job, spec: RunSpec, error: Exception, store: Store, plan: Plan, options: ExecuteOptions
) -> Failure:
    """Keeps the traceback with the run; one that could not start gets a record too."""
    number = store.begin_run(spec, _record(job, plan, options), again=options.force)
    failure = failure_of(job, error)
    store.fail_run(number, failure.trace)
    return failure


def failure_of(job: Job, error: Exception) -> Failure:
    """What is told of a job that went wrong."""
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, FieldmarkError):
        is_waiting = isinstance(error, BatchPending)
        return Failure(job.title, str(error).splitlines()[0], error.exit_code, trace, is_waiting)
    first = f"{type(error).__name__}: {error}".splitlines()[0]
    return Failure(job.title, f"{first} (--debug shows where)", 1, trace)


def _record(job: Job, plan: Plan, options: ExecuteOptions) -> dict[str, Any]:
    config = {"task": job.task.plain(), "own": _own_way(job, plan)}
    return reproduction_record(options.command, config=config)


def _own_way(job: Job, plan: Plan) -> dict[str, Any] | None:
    """What the task's file itself asks for, whatever the job changed of it: kept with the run, so
    that a report knows the task's own way of asking without the file. None: the file has none.
    """
    protocol = load_protocol(job.protocol)
    if job.own is None or (has_block(protocol) and job.own.block(job.protocol) is None):
        return None
    task, draw = job.own.cell(protocol.training == "needed", parts=job.draw.parts)
    own = replace(job, task=task, draw=draw, settings=protocol.Settings())
    try:
        spec = JobPreparer(plan.workspace).prepare(own).spec
    except FieldmarkError:  # only as the job has it can the task be asked of these data
        return None
    return {name: getattr(spec, name) for name in ("protocol", "settings", "n_train", "n_test")}
