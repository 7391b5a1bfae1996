"""Is a user's copy of a dataset the published one, and do its splits fit together?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from fieldmark.data._annotations import size_findings, split_counts
from fieldmark.data._check import counted, name_some
from fieldmark.data._dataset import Finding


def published_findings(
    rows: pl.DataFrame, published: Mapping[str, int], n_classes: int = 0
) -> list[Finding]:
    """A note where counts differ; copies made by fieldmark and subsets always do.

    `published` maps a split to its images, "images" those of a dataset without splits; `n_classes`
    0 = not compared.
    """
    found = {**split_counts(rows), "images": len(rows)}
    expected = dict(published)
    if n_classes:
        expected["classes"] = n_classes
        found["classes"] = rows.get_column("label").n_unique()
    return size_findings(found, expected)


def split_findings(
    root: Path, rows: pl.DataFrame, folders: Mapping[str, str], unseen_level: str = "warning"
) -> Iterator[Finding]:
    """Splits without images, and classes that only one split has; `folders`: split → folder.

    `unseen_level` is how classes without a training image are told: the published data may have
    such classes itself.
    """
    by_split = {
        str(split): set(part.get_column("label").drop_nulls())
        for (split,), part in rows.drop_nulls("split").group_by("split", maintain_order=True)
    }
    for split, folder in folders.items():
        if split not in by_split:
            text = f"no images of split {split!r}: expected them in {root / folder}."
            yield Finding("warning", text)
    train = by_split.pop("train", set())
    if not train or not by_split:
        return
    for split, labels in by_split.items():
        unseen = sorted(labels - train)
        # `class_findings` tells this of test.
        if unseen and split != "test":
            n = counted(len(unseen), "class", "classes")
            text = f"{n} of {split} without a training image: {name_some(unseen)}."
            yield Finding(unseen_level, text)
    unasked = sorted(train.difference(*by_split.values()))
    if unasked:
        n = counted(len(unasked), "class", "classes")
        yield Finding("note", f"{n} of train that no other split shows: {name_some(unasked)}.")
