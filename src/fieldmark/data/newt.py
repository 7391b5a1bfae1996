"""What is in NeWT, the 164 natural world tasks?

Each row of `newt2021_labels.csv` is an image of exactly one task with two classes. In the table

    label       the class's name within its task (`text_label` of the file; not unique over tasks)
    class_name  the same in words, bound to the label, never to its position
    newt_label  the file's 0 or 1
    species, stage   of the twelve ml_age tasks: "Cooper's hawk", adult or not_adult

Van Horn et al., Benchmarking Representation Learning for Natural World Image Collections, 2021.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import checksum_findings, counted, image_findings, name_some
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data._newt_tasks import (
    AGE_PREFIX,
    canonical_name,
    class_name,
    newt_tasks,
    task_name,
)
from fieldmark.errors import DataError, at

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
    frame = _read(path)
    _refuse_odd_values(path, frame)
    names = {each: canonical_name(each) for each in frame.get_column("task").unique()}
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


def check(root: Path) -> list[Finding]:
    """Missing and stray files, tasks that are missing or have one class, labels that contradict."""
    try:
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *checksum_findings(root, INFO.sources[1:2]),
        *_task_findings(rows),
        *_label_findings(rows),
        *_stray_findings(root, rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """All 164 tasks in the exact layout, at least two images per class and split."""
    from fieldmark.data._newt_make import write_newt

    write_newt(root, world, size)


# --- reading ---


def _read(path: Path) -> pl.DataFrame:
    try:
        frame = pl.read_csv(path, infer_schema=False, null_values=["", "nan"])
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0]
        raise DataError(f"{path}  cannot be read as a table: {line}") from error
    missing = [each for each in FILE_COLUMNS if each not in frame.columns]
    if missing:
        raise DataError(
            f"{path}  lacks the columns {name_some(missing)}: expected {', '.join(FILE_COLUMNS)}."
        )
    return frame


def _refuse_odd_values(path: Path, frame: pl.DataFrame) -> None:
    rules = {
        "id": (pl.col("id").is_not_null(), "an id"),
        "task": (pl.col("task").is_not_null(), "a task"),
        "text_label": (pl.col("text_label").is_not_null(), "a label in words"),
        "label": (pl.col("label").is_in(["0", "1"]), "0 or 1"),
        "split": (pl.col("split").is_in(["train", "test"]), "train or test"),
    }
    for column, (rule, expected) in rules.items():
        is_odd = frame.select(~rule.fill_null(False)).to_series()
        if is_odd.any():
            row = is_odd.arg_max() or 0
            found = frame.get_column(column)[row]
            raise DataError(at(path, row + 2, f"{column} is {found!r}: expected {expected}."))


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


def _task_findings(rows: pl.DataFrame) -> list[Finding]:
    present = set(rows.get_column("task"))
    findings = []
    missing = [each for each in newt_tasks() if each not in present]
    if missing:
        n = f"{len(missing)} of {len(newt_tasks())} tasks"
        findings.append(Finding("warning", f"{n} are missing: {name_some(missing)}."))
    unknown = sorted(present - set(newt_tasks()))
    if unknown:
        n = counted(len(unknown), "task")
        findings.append(Finding("warning", f"{n} that NeWT does not have: {name_some(unknown)}."))
    sides = rows.group_by("task", "split").agg(n=pl.col("label").n_unique()).filter(pl.col("n") < 2)
    single = sorted(f"{task} ({split})" for task, split, _ in sides.rows())
    if single:
        findings.append(Finding("error", f"tasks with one class only: {name_some(single)}."))
    return findings


def _label_findings(rows: pl.DataFrame) -> list[Finding]:
    pairs = rows.select("task", "text_label", "newt_label").unique()
    mixed = pairs.filter(pl.struct("task", "text_label").is_duplicated())
    crowded = pairs.filter(pl.struct("task", "newt_label").is_duplicated())
    tasks = sorted({*mixed.get_column("task"), *crowded.get_column("task")})
    findings = []
    if tasks:
        text = f"label and text_label contradict each other in {name_some(tasks)}."
        findings.append(Finding("error", text))
    undescribed = [
        f"{task}: {label}"
        for task, label in pairs.select("task", "text_label").unique().sort("*").rows()
        if task in newt_tasks() and class_name(task, label) not in _described(task)
    ]
    if undescribed:
        n = counted(len(undescribed), "label")
        text = f"{n} without a readable name: {name_some(undescribed)}."
        findings.append(Finding("note", text))
    return findings


def _described(task: str) -> set[str]:
    return {words for _, words in newt_tasks()[task].classes}


def _stray_findings(root: Path, rows: pl.DataFrame) -> list[Finding]:
    folder = root / IMAGE_FOLDER
    known = set(rows.get_column("id"))
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    strays = [each.name for each in found if each.stem not in known or each.suffix != ".jpg"]
    if not strays:
        return []
    n = counted(len(strays), "file")
    return [Finding("note", f"{n} in {IMAGE_FOLDER} that no row names: {name_some(strays)}.")]
