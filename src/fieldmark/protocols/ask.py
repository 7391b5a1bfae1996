"""How is a multimodal language model asked a task?

Every test item is a request: the question, examples from the training images where wanted, the
picture. The requests of all parts go out over one line. Answers are kept in a journal as they come,
read strictly, and stored with their words, tokens and price; what could not be asked or read is an
outcome of its own, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.chat import (
    Answer,
    ChatModel,
    Estimate,
    Estimator,
    Item,
    LocalModel,
    Request,
    Shelf,
    estimate,
    prepare,
)
from fieldmark.errors import DataError, UsageError
from fieldmark.progress import Progress
from fieldmark.protocols._ask_answers import read_answer
from fieldmark.protocols._ask_items import SAME, Asked, ask_part, ask_traits
from fieldmark.protocols._ask_options import AskOptions, AskSettings
from fieldmark.protocols._ask_pictures import Images
from fieldmark.protocols._ask_sheets import Inquiry, Sheet, drawn_examples, make_sheets
from fieldmark.protocols._items import Draw, PartItems, draw_test
from fieldmark.protocols._predictions import PartPredictions
from fieldmark.protocols._sending import open_sending
from fieldmark.tasks import Task

N_LOOKED = 4
"""parts, and items of each, whose prompts are built for an estimate"""
SUMMARY = "a multimodal language model, asked in words, with n examples"
HUB_TASK = "image-text-to-text"
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
    task: Task,
    parts: Sequence[PartItems],
    draw: Draw,
    settings: Mapping[str, Any],
    broken: Collection[str],
) -> pl.DataFrame:
    """Every row whose pictures may be sent: id, image, crop."""
    shown = drawn_examples(task, parts, draw, AskSettings.of(settings), broken)
    frames = [draw_test(task, part, draw, 0) for part in parts]
    frames += [part.train.filter(pl.col("id").is_in(shown)) for part in parts if shown]
    rows = pl.concat([frame.select("id", "image", "crop") for frame in frames])
    return rows.unique("id", maintain_order=True)


def run(
    task: Task,
    parts: Sequence[PartItems],
    wanted: Collection[str],
    model: ChatModel | LocalModel,
    root: Path,
    draw: Draw,
    options: AskOptions,
    progress: Progress,
) -> Iterator[PartPredictions]:
    """The answers of each wanted part, as it is complete, in no order.

    `parts` are all of the run: what is asked of one does not depend on which others are wanted.
    """
    inquiry = _inquiry(task, model, Images(root, options.contents), draw, options.settings)
    sheets = make_sheets(inquiry, parts, wanted, options, progress)
    seen = _what_a_mock_sees(sheets) if model.is_mock else None
    n = sum(len(sheet.asked.items) for sheet in sheets) * draw.repeats
    progress.start(f"{task.task} with {model.name}", n)
    under_way: dict[Sheet, None] = {}

    def requests() -> Iterator[Request]:
        while sheets:
            sheet = sheets.pop(0)
            under_way[sheet] = None
            yield from sheet.requests()

    def keep(request: Request, answer: Answer) -> bool:
        sheet, item, built, repeat = request.info
        sheet.said.append(read_answer(item, built, repeat, answer))
        sheet.n_answered += 1
        if built.rotation == 0:
            progress.advance()
        return any(each.is_complete for each in list(under_way))

    with (
        open_sending(model, options, progress, seen) as sending,
        closing(sending.steps(task.task, requests(), keep)) as steps,
    ):
        for _ in steps:
            yield from _complete(under_way)
    yield from _complete(under_way)


def _complete(under_way: dict[Sheet, None]) -> Iterator[PartPredictions]:
    for sheet in [each for each in list(under_way) if each.is_complete]:
        del under_way[sheet]
        yield from sheet.predictions()


def _inquiry(
    task: Task,
    model: ChatModel | LocalModel,
    images: Images,
    draw: Draw,
    settings: AskSettings,
) -> Inquiry:
    if task.ask is None:
        raise UsageError(f"task {task.task!r} has no `ask` block.")
    shelf = Shelf(model.picture_limits)
    return Inquiry(task, task.ask, model, images, draw, settings, shelf)


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
    inquiry = _inquiry(task, model, Images(root), draw, settings)
    is_traits = task.ask.kind == "traits"
    looked = [ask_traits(task, task.ask, parts, inquiry.images, draw)] if is_traits else [
        ask_part(task, task.ask, part, inquiry.images, draw)
        for part in parts[:: -(-len(parts) // N_LOOKED)]
    ]  # fmt: skip
    asked = [
        (
            request,
            [(each.width, each.height) for each in map(inquiry.shelf.prepare, request.pictures)],
        )
        for each in looked
        for request in _some_requests(inquiry, each)
    ]
    found = estimate(asked, Estimator(model.card))
    n_items = sum(len(each.items) for each in looked) * (1 if is_traits else len(parts))
    n_all = round(n_items / len(looked)) * draw.repeats * _turns(asked, settings)
    scale = n_all / max(found.n, 1)
    usd = None if found.usd is None else found.usd * scale
    return Estimate(n_all, round(found.tokens_in * scale), round(found.tokens_out * scale), usd)


def _some_requests(inquiry: Inquiry, asked: Asked) -> list[Request]:
    """Of a few items that can be read: running, not planning, tells which cannot."""
    few = asked.items[:: max(1, len(asked.items) // N_LOOKED)][:N_LOOKED]
    some = replace(asked, items=tuple(item for item in few if _can_show(inquiry, item)))
    once = replace(inquiry.draw, repeats=1)
    plain = replace(inquiry, draw=once, settings=replace(inquiry.settings, circular=False))
    return list(Sheet(plain, some, (), "", plain.prompts(some)).requests())


def _can_show(inquiry: Inquiry, item: Item) -> bool:
    try:
        for picture in inquiry.shown(item):
            inquiry.shelf.prepare(picture)
    except DataError:
        return False
    return True


def _turns(asked: Sequence[tuple[Request, Any]], settings: AskSettings) -> int:
    if not settings.circular or not asked:
        return 1
    return max(1, max(len(request.info[2].options) for request, _ in asked))


def _what_a_mock_sees(sheets: Sequence[Sheet]) -> dict[str, tuple[str, ...]]:
    """SHA-256 of the pictures as they are sent → what is true of them, as it is shown."""
    found: dict[str, tuple[str, ...]] = {}
    for sheet in sheets:
        limits = sheet.inquiry.model.picture_limits
        for item in sheet.asked.items:
            key = "+".join(prepare(each, limits).sha256 for each in sheet.inquiry.shown(item))
            found[key] = (*found.get(key, ()), *_truths(sheet.asked, item))
    return found


def _truths(asked: Asked, item: Item) -> tuple[str, ...]:
    names, truth = asked.question.names, str(item.label)
    if asked.question.kind == "traits":
        return tuple(names[each] for each in item.labels)
    if asked.question.kind == "same":
        return ("yes" if truth == SAME else "no",)
    return (names.get(truth, truth),)
