"""How is a multimodal language model asked a task?

Every test item is a request: the question, examples from the training images where wanted, the
picture. Answers are kept in a journal as they come, read strictly, and stored with their words,
tokens and price; what could not be asked or read is an outcome of its own, never a wrong answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.chat import (
    Built,
    ChatModel,
    Estimate,
    Estimator,
    FewShot,
    Journal,
    LocalModel,
    Picture,
    Prompts,
    Request,
    Shelf,
    estimate,
    limits_of,
    plan_prompts,
    prepare,
)
from fieldmark.errors import UsageError
from fieldmark.progress import Progress, Silent
from fieldmark.protocols._ask_again import reading_of
from fieldmark.protocols._ask_answers import Said, read_answer, rows_of_part, summed_up
from fieldmark.protocols._ask_items import SAME, Asked, ask_part, ask_traits, targets_of
from fieldmark.protocols._ask_options import AskOptions, AskSettings
from fieldmark.protocols._items import Draw, PartItems, draw_test
from fieldmark.protocols._predictions import PartPredictions
from fieldmark.protocols._sending import Sending
from fieldmark.tasks import AskBlock, Task

N_LOOKED = 4
"""parts, and items of each, whose prompts are built for an estimate"""
SUMMARY = "a multimodal language model, asked in words, with n examples"
VERSION = 1
"""raised whenever the same answers to the same pictures give other predictions"""


def why_not(task: Task, draw: Draw) -> str | None:
    """Why this task cannot be asked like this, or None."""
    if task.ask is None:
        return (
            f"task {task.task!r} has no `ask` block: add one to its file, for example "
            "`ask: {prompt: Which species is this?}`"
        )
    if draw.n_test == 0:
        return "n_test = 0: without a test image there is no score"
    if task.ask.kind == "same" and draw.n_train:
        return "n_train: pairs of pictures are asked without examples, expected 0"
    return None


def columns(task: Task) -> tuple[str, ...]:
    """Columns of the data that change prompts, besides labels."""
    if task.ask is None:
        return task.traits
    named = task.ask.names if isinstance(task.ask.names, str) else ""
    return (*task.traits, named, task.ask.scientific, task.ask.common, *task.ask.lineage)


def needed(
    task: Task, parts: Sequence[PartItems], draw: Draw, settings: Mapping[str, Any]
) -> pl.DataFrame:
    """Every row whose pictures may be sent: id, image, crop."""
    frames = [draw_test(task, part, draw, 0) for part in parts]
    frames += [part.train for part in parts if draw.n_train]
    rows = pl.concat([frame.select("id", "image", "crop") for frame in frames])
    return rows.unique("id", maintain_order=True)


def run(
    task: Task,
    parts: Sequence[PartItems],
    model: ChatModel | LocalModel,
    root: Path,
    draw: Draw,
    options: AskOptions,
    progress: Progress,
) -> Iterator[PartPredictions]:
    """The answers of each part, as parts are complete."""
    if task.ask is None:
        raise UsageError(f"task {task.task!r} has no `ask` block.")
    with Journal(options.journal) as journal:
        job = _Job(task, model, root, draw, options, journal, progress)
        if task.ask.kind == "traits":
            yield from _ask_all_traits(job, task.ask, parts)
            return
        for part in parts:
            began = time.monotonic()
            asked = ask_part(task, task.ask, part, root, draw)
            said = _ask(job, asked, part.name or task.task)
            frame, notes = rows_of_part(asked, said), summed_up(said) | reading_of(said)
            n_train = min((each.built.k_used for each in said), default=0)
            found = PartPredictions(part.name, frame, n_train, notes, groups=part.groups)
            yield found.timed(time.monotonic() - began)


def _ask_all_traits(
    job: _Job, block: AskBlock, parts: Sequence[PartItems]
) -> Iterator[PartPredictions]:
    """One answer serves all parts."""
    asked = ask_traits(job.task, block, parts, job.root, job.draw)
    began = time.monotonic()
    said = _ask(job, asked, job.task.task)
    took = (time.monotonic() - began) / len(parts)
    shared = summed_up(said)
    for number, part in enumerate(parts):
        mine = replace(asked, rows=targets_of(part.test))
        frame = rows_of_part(mine, said, trait=part.name)
        n_train = min((each.built.k_used for each in said), default=0)
        notes = shared if number == 0 else {}  # a price is paid once
        notes = notes | reading_of(said, part.name)
        yield PartPredictions(part.name, frame, n_train, notes, groups=part.groups).timed(took)


@dataclass(frozen=True, slots=True)
class _Job:
    task: Task
    model: ChatModel | LocalModel
    root: Path
    draw: Draw
    options: AskOptions
    journal: Journal | None
    progress: Progress


def _ask(job: _Job, asked: Asked, title: str) -> list[Said]:
    """Every item of the question, in all repeats and turns."""
    settings = job.options.settings
    prompts = _prompts(job, asked)
    said: list[Said] = []

    def keep(request: Request, answer: Any) -> None:
        item, built, repeat = request.info
        said.append(read_answer(item, built, repeat, answer))
        if built.rotation == 0:
            job.progress.advance()

    n = len(asked.items) * job.draw.repeats
    job.progress.start(f"{title} with {job.model.name}", n)
    how = job.options.sending
    if job.model.is_mock:
        how = replace(how, mock_labels=_what_it_sees(job, asked, prompts))
    unfit: list[Said] = []
    requests = _requests(job, asked, prompts, settings.circular, unfit)
    Sending(job.model, job.options, job.journal, job.progress).send(title, requests, keep, how)
    return sorted([*said, *unfit], key=Said.place)


def _prompts(job: _Job, asked: Asked) -> Prompts:
    settings, draw = job.options.settings, job.draw
    few = FewShot(asked.examples, draw.n_train, draw.sampling, settings.shared_prefix)
    estimator, shelf = Estimator(job.model.card), Shelf(job.model.picture_limits)
    limits = limits_of(job.model, settings.sending(draw.seed, None), estimator, shelf.prepare)
    return plan_prompts(asked.question, settings.asking(draw.seed), few, limits, list(asked.items))


def _requests(
    job: _Job, asked: Asked, prompts: Prompts, is_circular: bool, unfit: list[Said]
) -> Iterator[Request]:
    """One at a time, so that only pictures in flight are in memory."""
    for item in asked.items:
        turns = prompts.turns(item) if is_circular else (prompts.build(item),)
        for repeat in range(job.draw.repeats):
            for built in turns:
                if not built.fits:
                    unfit.append(Said.too_long(item, built, repeat))
                    continue
                name = f"{item.id}#{built.rotation}" if is_circular else item.id
                # With one seed for all repeats an endpoint would say the same every time.
                settings = job.options.settings.sending(job.draw.seed + repeat, built.schema)
                yield Request(
                    name,
                    built.messages,
                    job.model.settings(settings),
                    repeat,
                    (item, built, repeat),
                )


def estimate_cost(
    task: Task,
    parts: Sequence[PartItems],
    model: ChatModel | LocalModel,
    root: Path,
    draw: Draw,
    settings: AskSettings,
) -> Estimate:
    """What the requests will take, from a few prompts of a few parts; sends nothing."""
    if task.ask is None or not parts:
        return Estimate(0, 0, 0, 0.0)
    is_traits = task.ask.kind == "traits"
    job = _Job(task, model, root, draw, AskOptions(root, settings), None, Silent())
    looked = [ask_traits(task, task.ask, parts, root, draw)] if is_traits else [
        ask_part(task, task.ask, part, root, draw) for part in parts[:: -(-len(parts) // N_LOOKED)]
    ]  # fmt: skip
    shelf, estimator = Shelf(model.picture_limits), Estimator(model.card)
    asked = [
        (request, [(each.width, each.height) for each in map(shelf.prepare, request.pictures)])
        for each in looked
        for request in _some_requests(job, each)
    ]
    found = estimate(asked, estimator)
    n_items = sum(len(each.items) for each in looked) * (1 if is_traits else len(parts))
    n_all = round(n_items / len(looked)) * draw.repeats * _turns(asked, settings)
    scale = n_all / max(found.n, 1)
    usd = None if found.usd is None else found.usd * scale
    return Estimate(n_all, round(found.tokens_in * scale), round(found.tokens_out * scale), usd)


def _some_requests(job: _Job, asked: Asked) -> list[Request]:
    few = replace(asked, items=asked.items[:: max(1, len(asked.items) // N_LOOKED)][:N_LOOKED])
    prompts = _prompts(job, few)
    return list(_requests(replace(job, draw=replace(job.draw, repeats=1)), few, prompts, False, []))


def _turns(asked: Sequence[tuple[Request, Any]], settings: AskSettings) -> int:
    if not settings.circular or not asked:
        return 1
    return max(1, max(len(request.info[1].options) for request, _ in asked))


def _what_it_sees(job: _Job, asked: Asked, prompts: Prompts) -> Mapping[str, Any]:
    """For the mock: SHA-256 of the pictures as they are sent → what is true, as it is shown."""
    names = asked.question.names
    bare = replace(prompts, wanted=replace(prompts.wanted, k=0))
    found: dict[str, Any] = {}
    for item in asked.items:
        key = "+".join(
            prepare(each, job.model.picture_limits).sha256 for each in _pictures(bare.build(item))
        )
        truth: Any = item.label
        if asked.question.kind == "traits":
            found[key] = tuple(names[each] for each in item.labels)
        elif asked.question.kind == "same":
            found[key] = "yes" if truth == SAME else "no"
        else:
            found[key] = names.get(str(truth), str(truth))
    return found


def _pictures(built: Built) -> list[Picture]:
    parts = [part for message in built.messages for part in message.parts]
    return [part for part in parts if isinstance(part, Picture)]
