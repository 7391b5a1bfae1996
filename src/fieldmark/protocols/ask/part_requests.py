"""Requests and answers of a run: what is to be asked, and what came back of it so far?

`PartRequests` are one question with its items: that of a part, or that of all traits at once. They
are set up for a whole run before anything is sent, so that broken images are known first; the
requests themselves are made one at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fieldmark.chat import (
    ChatModel,
    Estimator,
    FewShot,
    Item,
    Limits,
    LocalModel,
    Picture,
    PictureSize,
    Prompts,
    Request,
    limits_of,
    plan_prompts,
    spread,
)
from fieldmark.errors import DataError
from fieldmark.progress import Progress
from fieldmark.protocols._predictions import PartPredictions
from fieldmark.protocols.ask.answers import ParsedAnswer, rows_of_part, summed_up
from fieldmark.protocols.ask.block import AskBlock
from fieldmark.protocols.ask.items import (
    SAME,
    Images,
    PartQuestion,
    ask_parts,
    judge_broken,
    targets_of,
)
from fieldmark.protocols.ask.reread import reading_of
from fieldmark.protocols.ask.sending import AskOptions
from fieldmark.protocols.ask.settings import AskSettings
from fieldmark.tasks import Task
from fieldmark.tasks.split import Draw, PartItems


@dataclass(frozen=True, slots=True, eq=False)
class AskContext:
    """What the sheets of a run have in common."""

    task: Task
    block: AskBlock
    model: ChatModel | LocalModel
    images: Images
    draw: Draw
    settings: AskSettings
    look: Callable[[Picture], PictureSize]
    """how pictures are measured for prompts"""

    def prompts(self, part_question: PartQuestion) -> Prompts:
        settings, draw = self.settings, self.draw
        few = FewShot(
            part_question.examples, draw.n_train, draw.sampling, bool(settings.shared_prefix)
        )
        sending, estimator = (
            settings.sending(draw.seed, None, self.model),
            Estimator(self.model.card),
        )
        limits = limits_of(self.model, sending, estimator, self.look)
        asking = settings.asking(draw.seed, self.model)
        return plan_prompts(part_question.question, asking, few, limits, list(part_question.items))

    def shown(self, item: Item) -> Sequence[Picture]:
        """The pictures of an item that are sent: some of the frames of a clip."""
        if self.block.kind == SAME:
            return item.pictures
        return spread(item.pictures, self.settings.value("frames"))


@dataclass(slots=True, eq=False)
class PartRequests:
    """One question, its items, and the answers so far."""

    context: AskContext
    part_question: PartQuestion
    parts: Sequence[PartItems]
    """whose predictions come from it, as far as they are wanted"""
    payer: str
    """the part that holds the price: of traits the first of all, wanted or not"""
    prompts: Prompts
    broken: dict[str, str] = field(default_factory=dict)
    """image → why it is left out"""
    answers: list[ParsedAnswer] = field(default_factory=list)
    n_asked: int = 0
    n_answered: int = 0
    """of them; another thread may count these than those"""
    is_all_asked: bool = False
    began: float = 0.0

    @property
    def is_complete(self) -> bool:
        return self.is_all_asked and self.n_answered == self.n_asked

    def requests(self) -> Iterator[Request]:
        """One at a time, so that only pictures in flight are in memory."""
        context, self.began = self.context, time.monotonic()
        for item in self.part_question.items:
            is_circular = context.settings.circular
            turns = self.prompts.turns(item) if is_circular else (self.prompts.build(item),)
            for repeat in range(context.draw.repeats):
                for built in turns:
                    if not built.fits:
                        why = self.prompts.why_too_long(item)
                        self.answers.append(ParsedAnswer.not_sent(item, built, repeat, why))
                        continue
                    name = f"{item.id}#{built.rotation}" if is_circular else item.id
                    # With one seed for all repeats an endpoint would say the same every time.
                    seed = context.draw.seed + repeat
                    settings = context.settings.sending(seed, built.schema, context.model)
                    info = (self, item, built, repeat)
                    self.n_asked += 1
                    yield Request(
                        name, built.messages, context.model.settings(settings), repeat, info
                    )
        self.is_all_asked = True

    def predictions(self) -> Iterator[PartPredictions]:
        """Of each part that is wanted; a price is told once."""
        answers = sorted(self.answers, key=ParsedAnswer.place)
        took = (time.monotonic() - self.began) / max(1, len(self.parts))
        n_train = min((answer.built.k_used for answer in answers), default=0)
        is_traits = self.context.block.kind == "traits"
        for part in self.parts:
            trait = part.name if is_traits else ""
            part_question = (
                replace(self.part_question, rows=targets_of(part.test))
                if is_traits
                else self.part_question
            )
            notes = summed_up(answers) if part.name == self.payer else {}
            notes |= reading_of(answers, trait)
            if self.broken:
                notes |= {"n_bad_images": len(self.broken), "bad_images": dict(self.broken)}
            frame = rows_of_part(part_question, answers, trait)
            yield PartPredictions(part.name, frame, n_train, notes, took, part.groups)


def make_requests(
    context: AskContext,
    parts: Sequence[PartItems],
    part_names: Collection[str],
    options: AskOptions,
    progress: Progress,
) -> list[PartRequests]:
    """The sheets of the wanted parts. Broken images are refused here, or left out of them. All
    traits are one question, whichever are wanted.
    """
    chosen = [part for part in parts if part.name in part_names]
    is_traits = context.block.kind == "traits"
    asked_parts, of_each = (parts, [chosen]) if is_traits else (chosen, [[part] for part in chosen])
    questions = ask_parts(context.task, context.block, asked_parts, context.images, context.draw)
    drafts = list(zip(questions, of_each, strict=True))
    shown = {
        picture.name: None
        for part_question, _ in drafts
        for item in part_question.items
        for picture in context.shown(item)
    }
    broken = context.images.find_broken(list(shown), progress)
    sheets = [
        _sheet(context, part_question, chosen, parts[0].name, broken)
        for part_question, chosen in drafts
    ]
    every = {image: why for sheet in sheets for image, why in sheet.broken.items()}
    n = len(shown.keys() | every.keys())
    judge_broken(context.images.root, every, n, options.bad_images, progress)
    for sheet in sheets:
        if not sheet.part_question.items:
            image, why = next(iter(sheet.broken.items()))
            raise DataError(
                f"task {sheet.part_question.question.task!r}: none of the test images can be read "
                f"(first: {image} {why})."
            )
    return sheets


def drawn_examples(
    task: Task,
    parts: Sequence[PartItems],
    draw: Draw,
    settings: AskSettings,
    broken: Collection[str],
) -> set[str]:
    """The ids of all examples that prompts may show, were there room for as many as are asked for;
    those with a broken image are passed over, as they are in the prompts. Reads nothing.
    """
    block, images = task.block("ask"), Images(Path())
    if not draw.n_train:
        return set()
    part_questions = ask_parts(task, block, parts, images, draw)
    ids: set[str] = set()
    for part in part_questions:
        whole = [
            example
            for example in part.examples
            if not any(p.name in broken for p in spread(example.pictures, settings.value("frames")))
        ]
        few = FewShot(whole, draw.n_train, draw.sampling, bool(settings.shared_prefix))
        prompts = plan_prompts(
            part.question, settings.asking(draw.seed), few, Limits(), list(part.items)
        )
        for item in part.items:
            ids.update(example.id for example in prompts.shots(item).examples)
    return ids


def _sheet(
    context: AskContext,
    part_question: PartQuestion,
    members: Sequence[PartItems],
    first_part: str,
    broken: Mapping[str, str],
) -> PartRequests:
    bad_images = {
        picture.name: broken[picture.name]
        for item in part_question.items
        for picture in context.shown(item)
        if picture.name in broken
    }
    part_question = replace(
        part_question, items=tuple(_readable(context, part_question.items, bad_images))
    )
    prompts = context.prompts(part_question)
    late = _unmeasured(prompts, part_question.items) if context.draw.n_train else {}
    part_question = replace(
        part_question, items=tuple(item for item in part_question.items if item.id not in late)
    )
    bad_images |= dict(map(_image_and_reason, (late | prompts.pool.broken).values()))
    payer = first_part if context.block.kind == "traits" else members[0].name
    return PartRequests(context, part_question, members, payer, prompts, bad_images)


def _readable(
    context: AskContext, items: Sequence[Item], broken: Mapping[str, str]
) -> Iterator[Item]:
    """Clips without their broken frames; of pairs, those whose two pictures can be read."""
    for item in items:
        shown = context.shown(item)
        kept = tuple(picture for picture in shown if picture.name not in broken)
        if len(kept) == len(shown):
            yield item
        elif kept and context.block.kind != SAME:
            yield replace(item, pictures=kept)


def _unmeasured(prompts: Prompts, items: Sequence[Item]) -> dict[str, str]:
    """Draws the examples of all items: broken ones are noted in the pool. Item id → why it cannot
    be measured itself.
    """
    late: dict[str, str] = {}
    for item in items:
        try:
            prompts.shots(item)
        except DataError as error:
            late[item.id] = str(error)
    return late


def _image_and_reason(error: str) -> tuple[str, str]:
    """`a.jpg  is empty.` → a.jpg, is empty."""
    image, _, reason = error.partition("  ")
    return image, (reason or error).rstrip(".")
