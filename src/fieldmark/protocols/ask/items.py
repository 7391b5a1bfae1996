"""Items of a prompt: how do the rows and images of a task become what is asked of a chat model?

The bytes that are sent are those whose content the run belongs to: an image that was changed since
the run began fails. Whether all can be read is known before the first request is paid for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from fieldmark.chat import (
    AskRules,
    Detail,
    Item,
    Picture,
    PromptQuestion,
    draw_pairs,
    make_question,
)
from fieldmark.data import Contents, ImageRef, content_key, read_bytes
from fieldmark.embed import checking
from fieldmark.errors import DataError, plain_reason
from fieldmark.progress import Progress
from fieldmark.protocols._question import refs_of
from fieldmark.protocols._score import NO, YES
from fieldmark.protocols.ask.block import AskBlock
from fieldmark.tasks import Task
from fieldmark.tasks.split import Draw, PartItems, draw_test
from fieldmark.words import first_few

SAME = "same"


@dataclass(frozen=True, slots=True)
class PartQuestion:
    """One question with its items: a part, or all traits at once."""

    question: PromptQuestion
    items: tuple[Item, ...]
    examples: tuple[Item, ...]
    rows: Mapping[str, tuple[str | None, str | None]]
    """item id → target and unit, as they are stored"""


def ask_parts(
    task: Task, block: AskBlock, parts: Sequence[PartItems], images: Images, draw: Draw
) -> list[PartQuestion]:
    """The question of each part; all traits are one question."""
    if block.kind == "traits":
        return [_ask_traits(task, block, parts, images, draw)]
    return [_ask_part(task, block, part, images, draw) for part in parts]


def _ask_part(
    task: Task, block: AskBlock, part: PartItems, images: Images, draw: Draw
) -> PartQuestion:
    """The question of one part, with its test items and the pool of its examples."""
    test = draw_test(task, part, draw, 0)
    name = f"{task.task}/{part.name}" if part.name else task.task
    if block.kind == SAME:
        return _pairs(name, block, test, images, draw)
    named = block.names if isinstance(block.names, str) else ""
    naming = dict.fromkeys(("target", named, block.scientific, block.common, *block.lineage))
    columns = [name for name in naming if name in part.test.columns]
    every = pl.concat([part.train, part.test]).unique(columns)
    question = make_question(name, rules_of(block), every.to_dicts())
    pool = part.train.filter(~pl.col("id").is_in(test["id"].to_list()))
    return PartQuestion(question, _items(test, images), _items(pool, images), targets_of(test))


def _ask_traits(
    task: Task, block: AskBlock, parts: Sequence[PartItems], images: Images, draw: Draw
) -> PartQuestion:
    """One question about all traits of an image; each part reads its own trait from the answer."""
    names = [part.name for part in parts]
    question = make_question(task.task, rules_of(block), [], traits=names)
    test = _with_traits([draw_test(task, part, draw, 0) for part in parts], names)
    train = _with_traits([part.train for part in parts], names)
    return PartQuestion(question, _items(test, images, names), _items(train, images, names), {})


def rules_of(block: AskBlock) -> AskRules:
    return AskRules(**block.model_dump())


def _items(rows: pl.DataFrame, images: Images, traits: Sequence[str] = ()) -> tuple[Item, ...]:
    items = []
    for row, refs in zip(rows.iter_rows(named=True), refs_of(rows), strict=True):
        holds = tuple(trait for trait in traits if row[trait] in YES)
        label = None if traits else row["target"]
        items.append(Item(row["id"], tuple(map(images.picture, refs)), label, holds))
    return tuple(items)


def targets_of(rows: pl.DataFrame) -> dict[str, tuple[str | None, str | None]]:
    """Item id → target and unit, as they are stored."""
    return {row[0]: (row[1], row[2]) for row in rows.select("id", "target", "unit").iter_rows()}


def _pairs(
    name: str, block: AskBlock, rows: pl.DataFrame, images: Images, draw: Draw
) -> PartQuestion:
    """Every picture that has a mate is compared once, with its mate or with a stranger."""
    question = make_question(name, rules_of(block), [])
    every = {item.id: item for item in _items(rows, images)}
    label = {item.id: str(item.label) for item in every.values()}
    unit = dict(rows.select("id", "unit").iter_rows())
    items, targets = [], dict[str, tuple[str | None, str | None]]()
    for pair in draw_pairs(label, label, draw.seed, name, "pairs"):
        pictures = (*every[pair.query].pictures[:1], *every[pair.other].pictures[:1])
        items.append(Item(pair.id, pictures, pair.label))
        targets[pair.id] = (pair.label, unit[pair.query])
    if not items:
        raise DataError(
            f"task {name!r}: none of {len(rows):,} test images shows an individual that another "
            "one shows too: pairs need two pictures of one, add images or raise n_test."
        )
    return PartQuestion(question, tuple(items), (), targets)


def _with_traits(frames: Sequence[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame:
    """One row per image, with every trait as text; null where it is not known."""
    traits = [pl.col(name).cast(pl.String).str.to_lowercase() for name in names]
    rows = pl.concat([frame.select("id", "image", "crop", *traits) for frame in frames])
    return rows.unique("id", maintain_order=True)


def read_trait(labels: Sequence[str] | None, trait: str) -> str | None:
    """Yes or no for one trait of a list of those that hold."""
    return None if labels is None else (YES[0] if trait in labels else NO[0])


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """The images of a dataset as one run reads them."""

    root: Path
    contents: Contents = field(default_factory=lambda: Contents(None))
    detail: Detail = ""
    """OpenAI's hint, sent with every picture"""

    def picture(self, ref: ImageRef) -> Picture:
        return Picture(_Reader(self, ref.image), ref.image, ref.crop, self.detail)

    def read(self, image: str) -> bytes:
        try:
            data = read_bytes(self.root, image)
        except DataError as error:
            raise DataError(f"{image}  {plain_reason(error)}.") from error
        content = self.contents.known(self.root, [image]).get(image)
        if content is not None and content.key != content_key(data):
            raise DataError(f"{image}  was changed during the run.")
        return data

    def find_broken(self, images: Collection[str], progress: Progress) -> dict[str, str]:
        """Image → why it cannot be read."""
        contents = self.contents.learn(self.root, images, checking(progress))
        return {image: content.problem for image, content in contents.items() if content.problem}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Equal for the same image of the same run, so that it is prepared once."""

    images: Images
    image: str

    def __call__(self) -> bytes:
        return self.images.read(self.image)


def judge_broken(
    root: Path, broken: Mapping[str, str], n: int, bad_images: str, progress: Progress
) -> None:
    """Refuses broken images, or says that they are left out."""
    if not broken:
        return
    shown = first_few([f"{image} ({why})" for image, why in broken.items()], 3, "; ")
    if bad_images == "skip":
        progress.say(f"{root}  {len(broken)} of {n} images left out: {shown}.")
        return
    raise DataError(
        f"{root}  {len(broken)} of {n} images cannot be read: {shown}. Nothing was asked. "
        "Repair or remove them, or pass --bad-images skip to leave them out and count them."
    )
