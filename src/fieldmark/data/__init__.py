"""Files on disk → a table: one module per layout, each with where to get it and how to cite it.

A file of `sets/` is a dataset (`kabr.py` is `kabr`); `get/` fetches the published files, `read/`
holds the readers that several layouts share. Importing the package is cheap: polars, numpy and
Pillow are loaded when a dataset or an image is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fieldmark import exports
from fieldmark.errors import DataError, FieldmarkError, UsageError
from fieldmark.registry import Registry, is_file_reference, load_reference, short_name

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.data._bytes import (
        PackedFile,
        archive_order,
        is_packed,
        read_bytes,
        split_reference,
    )
    from fieldmark.data._check import annotation_digests, rows_seen
    from fieldmark.data._content import (
        ABSENT,
        MEMORY,
        Content,
        Contents,
        absorb_contents,
        content_key,
        item_key,
        read_content,
        read_stamped,
        snapshot_contents,
    )
    from fieldmark.data._dataset import (
        COLUMNS,
        SPLITS,
        Dataset,
        Finding,
        Info,
        Source,
        finish_table,
        label_ids,
        need,
    )
    from fieldmark.data._image import (
        Box,
        ImageHeader,
        ImageRef,
        crop_box,
        crop_image,
        is_of_file,
        load_image,
        open_encoded,
        open_header,
        open_image,
        quick_check,
        read_header,
    )
    from fieldmark.data._synthetic import MARK, is_as_drawn, is_synthetic, write_mark
    from fieldmark.data.read.folders import is_image
    from fieldmark.data.read.sources import (
        ImageSource,
        ListedImage,
        dataset_source,
        expand_ranges,
        find_sources,
    )
    from fieldmark.world import World

__all__ = [
    "ABSENT",
    "COLUMNS",
    "DATASETS",
    "MARK",
    "MEMORY",
    "SPLITS",
    "Box",
    "Content",
    "Contents",
    "Dataset",
    "Finding",
    "ImageHeader",
    "ImageRef",
    "ImageSource",
    "Info",
    "ListedImage",
    "PackedFile",
    "Source",
    "absorb_contents",
    "annotation_digests",
    "archive_order",
    "content_key",
    "crop_box",
    "crop_image",
    "dataset_source",
    "expand_ranges",
    "find_sources",
    "finish_table",
    "is_as_drawn",
    "is_image",
    "is_of_file",
    "is_packed",
    "is_synthetic",
    "item_key",
    "label_ids",
    "load_dataset",
    "load_image",
    "need",
    "open_encoded",
    "open_header",
    "open_image",
    "quick_check",
    "read_bytes",
    "read_content",
    "read_header",
    "read_stamped",
    "read_table",
    "register_dataset",
    "rows_seen",
    "snapshot_contents",
    "split_reference",
    "write_mark",
]


DATASETS = Registry("dataset", "fieldmark.data.sets", "fieldmark datasets", joint="_")
"""names have underscores, as task files and FIELDMARK_DATA_CORNELL_BIRD write them"""


def load_dataset(name: str, where: str = "") -> Dataset:
    """The dataset of that name: the package's, a registered one, or `path/to/file.py:NAME`."""
    entry = load_reference(name) if is_file_reference(name) else DATASETS.get(name, where)
    missing = [part for part in ("INFO", "table") if not hasattr(entry, part)]
    if missing:
        raise UsageError(f"dataset {name!r} lacks {', '.join(missing)}: it needs INFO and table.")
    dataset: Any = _LoadedDataset(entry)
    return cast("Dataset", dataset)


class _LoadedDataset:
    """What a dataset's author need not write: a plain `check`, and the mark of what was drawn."""

    def __init__(self, entry: Any) -> None:
        self._entry, self.__doc__ = entry, entry.__doc__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def check(self, root: Path, **options: Any) -> list[Finding]:
        if hasattr(self._entry, "check"):
            return list(self._entry.check(root, **options))
        from fieldmark.data._check import check_table

        return check_table(root, lambda: self._entry.table(root, **options))

    def make(self, root: Path, world: World, size: int) -> None:
        from fieldmark.data._synthetic import write_mark

        if not hasattr(self._entry, "make"):
            title = self._entry.INFO.title
            raise UsageError(f"dataset {title!r} has no make(root, world, size) that draws it.")
        self._entry.make(root, world, size)
        write_mark(root, world)


def read_table(name: str, root: Path, options: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """The table of a dataset, checked against the contract; a file of the user's that fails is told
    in one line.
    """
    try:
        table: pl.DataFrame = load_dataset(name).table(root, **(options or {}))
    except Exception as error:
        if isinstance(error, FieldmarkError) or not is_file_reference(name):
            raise
        raise DataError(
            f"dataset {short_name(name)!r} failed in table(): {type(error).__name__}: "
            f"{error} (--debug shows where)."
        ) from error
    from fieldmark.data._dataset import COLUMNS

    missing = [column for column in COLUMNS if column not in getattr(table, "columns", ())]
    if missing:
        raise DataError(
            f"dataset {short_name(name)!r}: what table() returns lacks the columns "
            f"{', '.join(missing)}: expected the result of finish_table(frame, root)."
        )
    return table


def register_dataset(name: str, dataset: Dataset) -> None:
    """Adds a dataset under a name of its own: a module or object with INFO and table."""
    DATASETS.register(name, dataset)


__getattr__ = exports(__name__)
