"""NeWT: the 164 natural world tasks.

Each row of `newt2021_labels.csv` is an image of exactly one task with two classes. In the table

    label       the class's name within its task (`text_label` of the file; not unique over tasks)
    class_name  the same in words, bound to the label, never to its position
    newt_label  the file's 0 or 1
    species, stage   of the twelve ml_age tasks: "Cooper's hawk", adult or not_adult

Van Horn et al., Benchmarking Representation Learning for Natural World Image Collections, 2021.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    checksum_findings,
    counted,
    image_findings,
    name_some,
    stray_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data.read.table import is_given, read_annotations, refuse_odd
from fieldmark.errors import UnknownName

if TYPE_CHECKING:
    from fieldmark.world import World


__all__ = ["INFO", "check", "make", "newt_tasks", "table", "task_name"]

LABELS_FILE = "newt2021_labels.csv"
IMAGE_FOLDER = "newt2021_images"
FILE_COLUMNS = (
    "id", "task_cluster", "task_subcluster", "task", "label", "text_label", "split", "height",
    "width",
)  # fmt: skip
_ADDRESS = "https://ml-inat-competition-datasets.s3.amazonaws.com/newt"

INFO = Info(
    title="NeWT: Natural World Tasks",
    licence="none stated; photos keep the terms of their sources (iNaturalist, Macaulay Library, "
    "NABirds, FGVC contests)",
    citation="Van Horn, Cole, Beery, Wilber, Belongie, Mac Aodha. Benchmarking Representation "
    "Learning for Natural World Image Collections. CVPR 2021. arXiv:2103.16483",
    homepage="https://github.com/visipedia/newt",
    layout=f"ROOT/{LABELS_FILE}\nROOT/{IMAGE_FOLDER}/ID.jpg",
    sources=(
        Source(
            url=f"{_ADDRESS}/newt2021_images.tar.gz",
            filename="newt2021_images.tar.gz",
            md5="b04a56a5b1ffda87f16e6d4f81f9d38e",
        ),
        Source(
            url=f"{_ADDRESS}/newt2021_labels.csv.tar.gz",
            filename="newt2021_labels.csv.tar.gz",
            md5="4cb26d0ee085904887b1ca14dcb893e7",
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of the labels file."""
    path = need(root / LABELS_FILE, "the labels of NeWT", "newt")
    frame = read_annotations(path, FILE_COLUMNS, nulls=("", "nan"))
    refuse_odd(
        path,
        frame,
        {
            "id": (is_given, "an id"),
            "task": (is_given, "a task"),
            "text_label": (is_given, "a label in words"),
            "label": (pl.col("label").is_in(["0", "1"]), "0 or 1"),
            "split": (pl.col("split").is_in(["train", "test"]), "train or test"),
        },
    )
    names = {task: canonical_name(task) for task in frame.get_column("task").unique()}
    frame = frame.with_columns(pl.col("task").replace(names))
    frame = frame.join(_words(frame), on=["task", "text_label"], how="left", maintain_order="left")
    is_age = pl.col("task").str.starts_with(AGE_PREFIX)
    columns = [
        "id",
        pl.format(f"{IMAGE_FOLDER}/{{}}.jpg", "id").alias("image"),
        "split",
        pl.col("text_label").alias("label"),
        "task",
        pl.col("task_cluster").alias("cluster"),
        pl.col("task_subcluster").alias("sub_cluster"),
        "text_label",
        "class_name",
        pl.col("label").cast(pl.Int64).alias("newt_label"),
        "species",
        pl.when(is_age).then("text_label").alias("stage"),
        pl.col("height", "width").cast(pl.Int64, strict=False),
    ]
    return finish_table(frame.select(columns), path)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Missing and stray files, tasks that are missing or have one class, labels that contradict."""
    rows = table(root)
    yield from checksum_findings(root, INFO.sources[1:2])
    yield from _task_findings(rows)
    yield from _label_findings(rows)
    named = {f"{name}.jpg" for name in rows.get_column("id")}
    yield from stray_findings(root / IMAGE_FOLDER, named, IMAGE_FOLDER)
    yield from image_findings(root, rows.get_column("image"))


def make(root: Path, world: World, size: int) -> None:
    """All 164 tasks in the exact layout, at least two images per class and split."""
    from fieldmark.data._newt_make import write_newt

    write_newt(root, world, size)


# --- reading ---


def _words(frame: pl.DataFrame) -> pl.DataFrame:
    """What each class of each task is called; by its label, so no order can mix them up."""
    pairs = frame.select("task", "text_label").unique().sort("task", "text_label").rows()
    known = newt_tasks()
    return pl.DataFrame(
        {
            "task": [task for task, _ in pairs],
            "text_label": [label for _, label in pairs],
            "class_name": [class_name(task, label) for task, label in pairs],
            "species": [known[task].species if task in known else None for task, _ in pairs],
        },
        schema=dict.fromkeys(("task", "text_label", "class_name", "species"), pl.String),
    )


# --- checking ---


def _task_findings(rows: pl.DataFrame) -> Iterator[Finding]:
    present = set(rows.get_column("task"))
    missing = [task for task in newt_tasks() if task not in present]
    if missing:
        n = f"{len(missing)} of {len(newt_tasks())} tasks"
        yield Finding("warning", f"{n} are missing: {name_some(missing)}.")
    unknown = sorted(present - set(newt_tasks()))
    if unknown:
        n = counted(len(unknown), "task")
        yield Finding("warning", f"{n} that NeWT does not have: {name_some(unknown)}.")
    sides = rows.group_by("task", "split").agg(n=pl.col("label").n_unique()).filter(pl.col("n") < 2)
    single = sorted(f"{task} ({split})" for task, split, _ in sides.rows())
    if single:
        yield Finding("error", f"tasks with one class only: {name_some(single)}.")


def _label_findings(rows: pl.DataFrame) -> Iterator[Finding]:
    pairs = rows.select("task", "text_label", "newt_label").unique()
    mixed = pairs.filter(pl.struct("task", "text_label").is_duplicated())
    crowded = pairs.filter(pl.struct("task", "newt_label").is_duplicated())
    tasks = sorted({*mixed.get_column("task"), *crowded.get_column("task")})
    if tasks:
        text = f"label and text_label contradict each other in {name_some(tasks)}."
        yield Finding("error", text)
    undescribed = [
        f"{task}: {label}"
        for task, label in pairs.select("task", "text_label").unique().sort("*").rows()
        if task in newt_tasks()
        and class_name(task, label) not in dict(newt_tasks()[task].classes).values()
    ]
    if undescribed:
        n = counted(len(undescribed), "label")
        yield Finding("note", f"{n} without a readable name: {name_some(undescribed)}.")


# --- the 164 tasks ---
#
# `newt_tasks.csv` has two rows a task: the class without the sign first (regular, not_adult, …),
# then the one with it; for two species, by name. `text_label` is what the labels file says and is
# unique only within its task; `class_name` is what a person or a language model is shown.

AGE_PREFIX = "ml_age_"

# A public table of class names has the keys of another task here.
_ALIASES = {
    ("ml_tag_molting_waterfowl", "has_red_eyes"): "molting",
    ("ml_tag_molting_waterfowl", "not_red_eyes"): "not_molting",
}


@dataclass(frozen=True, slots=True)
class NewtTask:
    name: str
    cluster: str
    sub_cluster: str | None
    classes: tuple[tuple[str, str], ...]
    """(text_label, class_name), the class without the sign first"""

    def describes(self, words: str) -> bool:
        """Is one of its classes called so?"""
        return words in dict(self.classes).values()

    @property
    def species(self) -> str | None:
        """The species whose age is asked for, in words: "Cooper's hawk"; None for other tasks."""
        if not self.name.startswith(AGE_PREFIX):
            return None
        return dict(self.classes)["adult"].removeprefix("adult ")


@cache
def newt_tasks() -> dict[str, NewtTask]:
    """All 164 by name, in the order of cluster, sub-cluster and name."""
    tasks: dict[str, NewtTask] = {}
    path = Path(__file__).with_name("newt_tasks.csv")
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            known = tasks.get(row["task"])
            classes = (*(known.classes if known else ()), (row["text_label"], row["class_name"]))
            sub_cluster = row["sub_cluster"] or None
            tasks[row["task"]] = NewtTask(row["task"], row["cluster"], sub_cluster, classes)
    return tasks


def fold(text: str) -> str:
    """Text in which the kind of apostrophe and of case do not count: one task has a curly one."""
    return text.replace("’", "'").casefold()


@cache
def _names_by_fold() -> dict[str, str]:
    return {fold(name): name for name in newt_tasks()}


def canonical_name(text: str) -> str:
    """The task's name as this package spells it; names it does not know stay as they are."""
    return _names_by_fold().get(fold(text), text)


def task_name(text: str, where: str = "") -> str:
    """The task a user means; an unknown one is refused with the closest names."""
    name = canonical_name(text)
    if name not in newt_tasks():
        raise UnknownName("NeWT task", text, newt_tasks(), "fieldmark tasks newt", where)
    return name


def class_name(task: str, text_label: str) -> str:
    """A label of a task in words; of labels nobody has described, the label itself, readable."""
    known = newt_tasks().get(canonical_name(task))
    text_label = _ALIASES.get((known.name, text_label), text_label) if known else text_label
    names = {fold(label): words for label, words in known.classes} if known else {}
    return names.get(fold(text_label), text_label.replace("_", " "))
