"""How do made documents get where a task reads its documents from?"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.groups import load_document_task
from fieldmark.lmms.read.schema import DocumentTask
from lmms.families.files import PLATES
from lmms.families.kit import TASKS, Document, Family, picture


def trusted(*data: Path) -> Trust:
    return Trust.of(TASKS, *data)


def redirected(family: Family, folder: Path) -> dict[str, Any]:
    """Keys that point a task at its made documents instead of at the hub."""
    path = write_documents(family, folder)
    files: Any = {family.split: str(path)} if family.builder == "parquet" else str(path)
    return {
        "dataset_path": family.builder,
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
    }


def load(family: Family, folder: Path, **more: Any) -> DocumentTask:
    overrides = {**redirected(family, folder), **more}
    return load_document_task(TASKS / family.file, trusted(folder), overrides)


def write_documents(family: Family, folder: Path) -> Path:
    path = folder / f"{family.task}.{family.builder}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    if family.builder == "csv":
        _write_csv(path, family.documents)
    elif family.builder == "json":
        path.write_text("\n".join(map(json.dumps, family.documents)), encoding="utf-8")
    else:
        write_parquet(path, family.documents)
    return path


def write_parquet(path: Path, documents: tuple[Document, ...]) -> None:
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_list(list(documents)).to_parquet(str(path))


def _write_csv(path: Path, documents: tuple[Document, ...]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(documents[0]))
        writer.writeheader()
        writer.writerows(documents)


def write_plates(folder: Path) -> None:
    for number, name in enumerate(PLATES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(500 + number).save(path)


def same_pixels(ours: Any, theirs: Any) -> bool:
    """Pictures or the paths of their files."""
    if not isinstance(ours, Image.Image) or not isinstance(theirs, Image.Image):
        return type(ours) is type(theirs) and ours == theirs
    return ours.mode == theirs.mode and np.array_equal(np.asarray(ours), np.asarray(theirs))
