"""NeWT: the 164 natural world tasks.

Each row of `newt2021_labels.csv` is an image of exactly one task with two classes. In the table

    label       the class's name within its task (`text_label` of the file; not unique over tasks)
    class_name  the same in words, bound to the label, never to its position
    newt_label  the file's 0 or 1
    species, stage   of the twelve ml_age tasks: "Cooper's hawk", adult or not_adult

Van Horn et al., Benchmarking Representation Learning for Natural World Image Collections, 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from fieldmark.data._check import (
    as_findings,
    checksum_findings,
    image_findings,
    name_some,
    named_findings,
    stray_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data.read.table import is_given, read_annotations, refuse_odd
from fieldmark.data.sets.newt.synthetic import make
from fieldmark.data.sets.newt.tasks import (
    AGE_PREFIX,
    FILE_COLUMNS,
    IMAGE_FOLDER,
    LABELS_FILE,
    canonical_name,
    class_name,
    newt_tasks,
    task_name,
)

__all__ = ["INFO", "check", "make", "newt_tasks", "table", "task_name"]

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
            md5="b04a56a5b1ffda87f16e6d4f81f9d38e",
        ),
        Source(
            url=f"{_ADDRESS}/newt2021_labels.csv.tar.gz",
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


# --- reading ---


def _words(frame: pl.DataFrame) -> pl.DataFrame:
    """What each class of each task is called; by its label, so no order can mix them up."""
    pairs = frame.select("task", "text_label").unique().sort("task", "text_label").rows()
    tasks = newt_tasks()
    return pl.DataFrame(
        {
            "task": [task for task, _ in pairs],
            "text_label": [label for _, label in pairs],
            "class_name": [class_name(task, label) for task, label in pairs],
            "species": [tasks[task].species if task in tasks else None for task, _ in pairs],
        },
        schema=dict.fromkeys(("task", "text_label", "class_name", "species"), pl.String),
    )


# --- checking ---


def _task_findings(rows: pl.DataFrame) -> Iterator[Finding]:
    present = set(rows.get_column("task"))
    missing = [task for task in newt_tasks() if task not in present]
    text = f"{len(missing)} of {len(newt_tasks())} tasks are missing"
    yield from named_findings("warning", missing, text)
    unknown = sorted(present - set(newt_tasks()))
    yield from named_findings("warning", unknown, "that NeWT does not have", "task")
    sides = rows.group_by("task", "split").agg(n=pl.col("label").n_unique()).filter(pl.col("n") < 2)
    single = sorted(f"{task} ({split})" for task, split, _ in sides.rows())
    yield from named_findings("error", single, "tasks with only one class")


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
    yield from named_findings("note", undescribed, "without a readable name", "label")
