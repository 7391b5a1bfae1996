"""Classes of a part: which are offered, under which texts, and where in the taxonomy do they stand?

A class is a label of the task; its names come from the columns that the block names, from the most
frequent value where rows of one class disagree. Classes are those of all rows of the part, so that
drawing fewer test images offers no fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import polars as pl

from fieldmark.errors import UsageError, meant
from fieldmark.protocols._dual import long_words, too_long_for_clip
from fieldmark.protocols.zero_shot.block import ZeroShotBlock
from fieldmark.source_lines import read_text
from fieldmark.tasks import Task
from fieldmark.tasks.split import PartItems, need_column
from fieldmark.taxa import RANKS, ClassNames, names_of, plain, scientific_name

PROTOCOL_KEY = "zero_shot"


@dataclass(frozen=True, slots=True)
class ClassTexts:
    """The classes of a part by label, in name order."""

    names: dict[str, ClassNames]
    texts: list[str]
    """what stands for each class, before any template"""
    strange: tuple[str, ...] = ()
    """taxa asked for that no class is or belongs to"""

    @property
    def notes(self) -> list[str]:
        """What a reader of the run should know."""
        notes = [shared_words(*shared) for shared in self.shared[:3]]
        if self.strange:
            notes.append(f"taxa that no class belongs to: {', '.join(self.strange[:5])}")
        return notes

    @property
    def labels(self) -> list[str]:
        return list(self.names)

    @property
    def shared(self) -> list[tuple[str, list[str]]]:
        """Texts that several classes have, with these: no model can tell them apart."""
        by_text: dict[str, list[str]] = {}
        for label, text in zip(self.names, self.texts, strict=True):
            by_text.setdefault(text, []).append(label)
        return [(text, labels) for text, labels in by_text.items() if len(labels) > 1]


def class_columns(block: ZeroShotBlock) -> tuple[str, ...]:
    """The columns of the data that classes get their names from."""
    named = (block.names, block.scientific, block.common, *block.lineage)
    return tuple(filter(None, named))


def rank_columns(block: ZeroShotBlock) -> dict[str, str]:
    """Rank → its column: seven columns in order, or fewer that are named as the ranks."""
    if len(block.lineage) == len(RANKS):
        return dict(zip(RANKS, block.lineage, strict=True))
    return {rank: column for column in block.lineage if (rank := _rank(column)) in RANKS}


def _rank(column: str) -> str:
    return "class" if column == "cls" else column


def class_texts(task: Task, block: ZeroShotBlock, part: PartItems) -> ClassTexts:
    """The classes of the part that its taxa leave, with their texts."""
    columns = class_columns(block)
    for column in columns:
        need_column(task, part.test, column, PROTOCOL_KEY)
    rows = pl.concat([part.train, part.test]) if len(part.train) else part.test
    by_class = rows.group_by("target").agg(
        _most_frequent(column) for column in dict.fromkeys(columns)
    )
    ranks, names = rank_columns(block), {}
    for row in by_class.sort("target").iter_rows(named=True):
        label = row[block.names] if block.names else None
        names[row["target"]] = names_of(
            label or row["target"],
            row.get(block.scientific),
            row.get(block.common),
            {rank: row[column] for rank, column in ranks.items()},
        )
    kept, strange = _within(task, part, names, taxa_of(task, block))
    return ClassTexts(
        kept, [class_names.text(block.text) for class_names in kept.values()], strange
    )


def text_warnings(task: Task, parts: Sequence[PartItems]) -> list[str]:
    """Classes that no model can tell apart, and texts that CLIP does not read to their end."""
    block: ZeroShotBlock = task.block(PROTOCOL_KEY)
    where, longest = task.line_of(PROTOCOL_KEY), max(templates_of(block), key=len)
    lines: list[str] = []
    texts: set[str] = set()
    for part in parts:
        classes = class_texts(task, block, part)
        texts.update(longest.replace("{}", text) for text in classes.texts)
        lines += [f"{where}  {shared_words(*shared)}." for shared in classes.shared]
    if long := too_long_for_clip(sorted(texts)):
        lines.append(f"{where}  {long_words(long, len(texts), 'class texts')}")
    return lines


def shared_words(text: str, labels: Sequence[str]) -> str:
    """That no model can tell classes apart."""
    names = " and ".join(map(repr, labels[:2]))
    more = f" and {len(labels) - 2} more" if len(labels) > 2 else ""
    return f"classes {names}{more} have the same text {text!r}: no model can tell them apart"


def _most_frequent(column: str) -> pl.Expr:
    value = pl.col(column).cast(pl.String).str.strip_chars().replace("", None)
    return value.drop_nulls().mode().sort().first().alias(column)


def taxa_of(task: Task, block: ZeroShotBlock) -> tuple[str, ...]:
    """The taxa that classes must belong to; () = no restriction."""
    if len(block.taxa) != 1 or not block.taxa[0].endswith(".txt"):
        return block.taxa
    given = Path(block.taxa[0])
    beside = Path(task.line_of(PROTOCOL_KEY).rpartition(":")[0]).parent / given
    path = given if given.is_file() or not beside.is_file() else beside
    lines = [plain(line.partition("#")[0]) for line in read_text(path).splitlines()]
    taxa = tuple(dict.fromkeys(filter(None, lines)))
    if not taxa:
        raise UsageError(f"{path}  contains no taxon: expected one a line.")
    return taxa


def _within(
    task: Task, part: PartItems, names: dict[str, ClassNames], taxa: Sequence[str]
) -> tuple[dict[str, ClassNames], tuple[str, ...]]:
    """The classes that are, or belong to, one of the taxa; and the taxa that no class does."""
    if not taxa:
        return names, ()
    by_class = {label: _memberships(class_names) for label, class_names in names.items()}
    members = set().union(*by_class.values())
    spelt = {taxon: {plain(taxon).lower(), scientific_name(taxon).lower()} for taxon in taxa}
    strange = tuple(taxon for taxon, class_names in spelt.items() if not class_names & members)
    chosen = set().union(*spelt.values())
    kept = {label: class_names for label, class_names in names.items() if by_class[label] & chosen}
    if len(kept) < 2:
        where = f"task {task.task!r}" + (f", part {part.name!r}" if part.name else "")
        hint = (
            f" {strange[0]!r} is not the name of any.{meant(strange[0], members)}"
            if strange
            else ""
        )
        raise UsageError(
            f"{task.line_of(PROTOCOL_KEY)}  taxa leave {len(kept)} of {len(names)} classes of "
            f"{where}: at least two are needed.{hint}"
        )
    return kept, strange


def _memberships(names: ClassNames) -> set[str]:
    """Every name by which a list of taxa may mean the class."""
    ranks = names.ranks or {}
    higher = [name for rank, name in ranks.items() if rank != "species"]
    every = (names.label, names.scientific, names.common, *higher)
    return {plain(name).lower() for name in every if name}


@cache
def openai_templates() -> tuple[str, ...]:
    """The 80 prompts of CLIP's ImageNet evaluation. arXiv:2103.00020"""
    file = resources.files("fieldmark.protocols.zero_shot") / "openai_templates.txt"
    return tuple(file.read_text(encoding="utf-8").splitlines())


def templates_of(block: ZeroShotBlock) -> tuple[str, ...]:
    if block.templates == "openai":
        return openai_templates()
    return ("{}",) if block.templates == "none" else block.templates
