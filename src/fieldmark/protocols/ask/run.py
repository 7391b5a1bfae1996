"""Prompting run: how is a multimodal language model asked all parts of a task, and at what cost?

Every test item is a request: the question, examples from the training images where wanted, the
picture. The requests of all parts go out over one line. Answers are kept in a journal as they come,
read strictly, and stored with their words, tokens and price; what could not be asked or read is an
outcome of its own, and scores as wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import polars as pl

from fieldmark.chat import (
    Answer,
    AnswerJournal,
    ChatModel,
    Estimate,
    Estimator,
    Item,
    LocalModel,
    PictureCache,
    Request,
    Usual,
    estimate,
    glance,
)
from fieldmark.chat.budget import UNKNOWN_USUAL
from fieldmark.chat.journal import request_key, stored_ids
from fieldmark.errors import DataError, UsageError
from fieldmark.progress import Progress
from fieldmark.protocols._predictions import PartPredictions
from fieldmark.protocols._question import Question, Workspace
from fieldmark.protocols.ask.answers import read_answer
from fieldmark.protocols.ask.items import SAME, Images, PartQuestion, ask_parts
from fieldmark.protocols.ask.part_requests import (
    AskContext,
    PartRequests,
    drawn_examples,
    make_requests,
)
from fieldmark.protocols.ask.sending import ask_options, ask_session
from fieldmark.protocols.ask.settings import AskSettings
from fieldmark.store import NOT_SENT, examples_words
from fieldmark.tasks import Task
from fieldmark.tasks.split import Draw, PartItems, draw_test

N_LOOKED = 4
"""parts, and items of each, whose prompts are built for an estimate"""


def needed(
    task: Task,
    parts: Sequence[PartItems],
    draw: Draw,
    settings: AskSettings,
    broken: Collection[str],
) -> pl.DataFrame:
    """Every row whose pictures may be sent: id, image, crop."""
    shown = drawn_examples(task, parts, draw, settings, broken)
    frames = [draw_test(task, part, draw, 0) for part in parts]
    frames += [part.train.filter(pl.col("id").is_in(shown)) for part in parts if shown]
    rows = pl.concat([frame.select("id", "image", "crop") for frame in frames])
    return rows.unique("id", maintain_order=True)


def run(
    question: Question,
    part_names: Collection[str],
    model: ChatModel | LocalModel,
    workspace: Workspace,
    progress: Progress,
) -> Iterator[PartPredictions]:
    """The answers of each wanted part, as it is complete, in no order.

    What is asked of one part does not depend on which others are wanted.
    """
    task, draw = question.task, question.draw
    options = ask_options(question.settings, workspace)
    images = Images(question.root, options.contents, question.settings.detail)
    shelf = PictureCache(model.picture_limits)
    context = AskContext(
        task, task.block("ask"), model, images, draw, question.settings, shelf.size
    )
    sheets = make_requests(context, question.parts, part_names, options, progress)
    seen = _what_a_mock_sees(sheets, shelf) if model.is_mock else None
    n = sum(len(sheet.part_question.items) for sheet in sheets) * draw.repeats
    progress.start(f"{task.task} with {model.name}", n)
    under_way: dict[PartRequests, None] = {}

    def requests() -> Iterator[Request]:
        while sheets:
            sheet = sheets.pop(0)
            under_way[sheet] = None
            yield from sheet.requests()

    def keep(request: Request, answer: Answer) -> bool:
        sheet, item, built, repeat = request.info
        sheet.answers.append(read_answer(item, built, repeat, answer))
        sheet.n_answered += 1
        if built.rotation == 0:
            progress.advance()
        return any(sheet.is_complete for sheet in list(under_way))

    with (
        ask_session(model, options, progress, seen, _outcome, shelf) as session,
        closing(session.steps(requests(), keep, task.task)) as steps,
    ):
        for _ in steps:
            yield from _complete(under_way)
        yield from _complete(under_way)


def _outcome(request: Request, answer: Answer) -> str:
    """What became of a question."""
    _, item, built, repeat = request.info
    return read_answer(item, built, repeat, answer).outcome


def _complete(under_way: dict[PartRequests, None]) -> Iterator[PartPredictions]:
    for sheet in [sheet for sheet in list(under_way) if sheet.is_complete]:
        del under_way[sheet]
        yield from sheet.predictions()


def estimate_cost(
    question: Question,
    model: ChatModel | LocalModel,
    journal: Path | None = None,
    usual: Usual = UNKNOWN_USUAL,
) -> Estimate:
    """What the requests will take, from a few prompts of a few parts; sends nothing. What the
    journal holds is not sent, and says what requests usually take; else `usual` does.
    """
    task, parts, draw = question.task, question.parts, question.draw
    block, images = task.block("ask"), Images(question.root)
    shown = Images(question.root, detail=question.settings.detail)
    look = cache(partial(glance, limits=model.picture_limits))
    context = AskContext(task, block, model, images, draw, question.settings, look)
    is_traits = block.kind == "traits"
    some = parts if is_traits else parts[:: -(-len(parts) // N_LOOKED)]
    looked = ask_parts(task, block, some, images, draw)
    sheets = [_some_sheet(context, part) for part in looked]
    new_requests = [
        (request, [(size.width, size.height) for size in map(look, request.pictures)])
        for sheet in sheets
        for request in sheet.requests()
    ]
    unsent = [answer for sheet in sheets for answer in sheet.answers]
    if unsent and not new_requests:
        why = unsent[0].answer.error.removeprefix(f"{NOT_SENT}: ")
        raise UsageError(f"{task.task} with {model.name}: {why}.")
    n_items = sum(len(part.items) for part in looked) * (1 if is_traits else len(parts))
    turns = [
        len(request.info[2].options) for request, _ in new_requests if question.settings.circular
    ]
    n_all = round(n_items / len(looked)) * draw.repeats * max([1, *turns])
    stored = list(_stored(replace(context, images=shown), parts, journal)) if journal else []
    used = [(guess, answer.usage) for guess, answer in stored if answer.usage is not None]
    if used:
        out = sum(usage.tokens_out for _, usage in used) / len(used)
        guessed, charged = (sum(n) for n in zip(*((g, u.tokens_in) for g, u in used), strict=True))
        usual = Usual(out, charged / guessed)
    few = estimate(new_requests, Estimator(model.card), usual)
    whole = few.scaled(max(0, n_all - len(stored)))
    built = [request.info[2] for request, _ in new_requests]
    if draw.n_train > 0 and (fewer := Counter(one.why_fewer for one in built if one.why_fewer)):
        words = examples_words([one.k_used for one in built], draw.n_train, fewer)
        whole = replace(whole, fewer_examples=words)
    if not question.settings.batch or not isinstance(model, ChatModel):
        return whole
    share = model.provider.batch_price  # batches cost less
    return whole if share is None else whole.at_share(share)


def _stored(
    context: AskContext, parts: Sequence[PartItems], folder: Path
) -> Iterator[tuple[int, Answer]]:
    """The answers of the journal that a run takes, those that are asked again left out; with each
    how many tokens its prompt was guessed to take. Pictures are read only of items that some model
    was asked about.
    """
    ids, model, shelf = (
        stored_ids(folder),
        context.model,
        PictureCache(context.model.picture_limits),
    )
    again, estimator = context.settings.asks_again(), Estimator(context.model.card)
    known = ids | {name.rpartition("#")[0] for name in ids if context.settings.circular}
    with AnswerJournal(folder) as journal, suppress(DataError):  # running tells what is broken
        for part in ask_parts(context.task, context.block, parts, context.images, context.draw):
            prompts = context.prompts(part)
            asked = replace(part, items=tuple(item for item in part.items if item.id in known))
            for request in PartRequests(context, asked, (), "", prompts).requests():
                pictures = [shelf.prepare(picture) for picture in request.pictures]
                answer = journal.get(request_key(request, pictures, model.address))
                if answer is not None and not (again and _outcome(request, answer) in again):
                    yield estimator.guess(request, pictures), answer


def _some_sheet(context: AskContext, part_question: PartQuestion) -> PartRequests:
    """Of a few items that can be read: running, not planning, tells which cannot."""
    few = part_question.items[:: max(1, len(part_question.items) // N_LOOKED)][:N_LOOKED]
    some = replace(part_question, items=tuple(item for item in few if _can_show(context, item)))
    once = replace(context.draw, repeats=1)
    plain = replace(context, draw=once, settings=replace(context.settings, circular=False))
    return PartRequests(plain, some, (), "", plain.prompts(some))


def _can_show(context: AskContext, item: Item) -> bool:
    try:
        for picture in context.shown(item):
            context.look(picture)
    except DataError:
        return False
    return True


def _what_a_mock_sees(
    sheets: Sequence[PartRequests], shelf: PictureCache
) -> dict[str, tuple[str, ...]]:
    """SHA-256 of the pictures as they are sent → what is true of them, as it is shown."""
    truths: dict[str, tuple[str, ...]] = {}
    for sheet in sheets:
        for item in sheet.part_question.items:
            key = "+".join(shelf.prepare(picture).sha256 for picture in sheet.context.shown(item))
            names, truth = sheet.part_question.question.names, str(item.label)
            answers_here: tuple[str, ...] = (names.get(truth, truth),)
            if sheet.part_question.question.kind == "traits":
                answers_here = tuple(names[label] for label in item.labels)
            elif sheet.part_question.question.kind == "same":
                answers_here = ("yes" if truth == SAME else "no",)
            truths[key] = (*truths.get(key, ()), *answers_here)
    return truths
