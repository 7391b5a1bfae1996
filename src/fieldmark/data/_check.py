"""Findings of `fieldmark data check`: what the checks of all datasets have in common.

Lines about files, images, classes and splits. Every image's bytes are read once; none is decoded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import polars as pl

from fieldmark.data._bytes import locate, read_bytes, split_reference
from fieldmark.data._dataset import Finding, Source
from fieldmark.data._image import quick_check
from fieldmark.errors import DataError
from fieldmark.words import counted as counted
from fieldmark.words import first_few

P = ParamSpec("P")

ANNOTATIONS = (".csv", ".json", ".jsonl", ".tsv", ".txt", ".yaml")
"""what tables of labels end in; Parquet files hold the images too"""
LARGEST_BYTES = 512 * 2**20


def as_findings(check: Callable[P, Iterable[Finding]]) -> Callable[P, list[Finding]]:
    """The shell of a `check`: a dataset that cannot be read at all is its one finding."""

    @wraps(check)
    def checked(*args: P.args, **options: P.kwargs) -> list[Finding]:
        try:
            return list(check(*args, **options))
        except DataError as error:
            return [Finding("error", str(error))]

    return checked


@as_findings
def check_table(root: Path, read: Callable[[], pl.DataFrame]) -> Iterator[Finding]:
    """Of any dataset: rows without labels, classes too small to use, images that cannot be read."""
    rows = read()
    yield from class_findings(rows)
    yield from image_findings(root, rows.get_column("image"))


# --- words ---


def name_some(names: Sequence[str], most: int = 3) -> str:
    """The first few in quotes and how many more: `'a', 'b', 'c' and 9 more`."""
    return first_few([repr(name) for name in names], most)


def rows_seen(rows: pl.DataFrame) -> str:
    """`288 photos, 12 classes, 16 train + 8 test each`, of rows with an id, a label and a split."""
    phrases = [counted(rows.get_column("id").n_unique(), "photo")]
    n_classes = rows.get_column("label").drop_nulls().n_unique()
    if not n_classes:
        return phrases[0]
    by_split: dict[str, list[int]] = {}
    sizes_of = rows.drop_nulls("label").group_by("split", "label").len().sort("split")
    for split, _, n in sizes_of.iter_rows():
        by_split.setdefault(split or "", []).append(n)
    order = ["train", "val", "test"]
    sizes = []
    for split in sorted(by_split, key=lambda name: order.index(name) if name in order else 3):
        counts = by_split[split]
        fewest, most = min(counts) if len(counts) == n_classes else 0, max(counts)
        span = f"{most:,}" if fewest == most else f"{fewest:,}–{most:,}"
        sizes.append(f"{span} {split}".rstrip())
    return ", ".join(
        [*phrases, counted(n_classes, "class", "classes"), f"{' + '.join(sizes)} each"]
    )


def named_findings(level: str, names: Iterable[str], text: str, *noun: str) -> Iterator[Finding]:
    """The text and the first few of the names, if there are any; with a noun, how many they are."""
    named = list(names)
    if named:
        n = f"{counted(len(named), *noun)} " if noun else ""
        yield Finding(level, f"{n}{text}: {name_some(named)}.")


def count_findings(level: str, n: int, text: str, *noun: str) -> Iterator[Finding]:
    """How many there are, if any, and the text."""
    if n:
        yield Finding(level, f"{counted(n, *noun)} {text}.")


# --- files ---


def checksum_findings(root: Path, sources: Iterable[Source]) -> Iterator[Finding]:
    """Files of the published size whose content is not the published one: damaged, or edited.

    A file of another size is another table, which the counts tell; large archives are left to
    `data get --verify`.
    """
    for source in sources:
        published = source.md5 or source.sha256
        path = root / source.filename
        if not published or not source.filename or not path.is_file():
            continue
        size = path.stat().st_size
        if size > LARGEST_BYTES or (source.n_bytes or size) != size:
            continue
        kind = "md5" if source.md5 else "sha256"
        if file_digest(path, kind) != published:
            text = f"{source.filename} is not the published file ({kind} {published})."
            yield Finding("warning" if source.n_bytes else "note", text)


def annotation_digests(root: Path) -> dict[str, str]:
    """SHA-256 of every table of labels, two folders deep, by its path: for comparing copies."""
    files = (path for level in ("*", "*/*", "*/*/*") for path in root.glob(level))
    tables = [path for path in files if path.suffix.lower() in ANNOTATIONS and path.is_file()]
    small = [path for path in tables if path.stat().st_size <= LARGEST_BYTES]
    return {
        path.relative_to(root).as_posix(): file_digest(path, "sha256") for path in sorted(small)
    }


def file_digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def image_findings(root: Path, images: Iterable[str]) -> list[Finding]:
    """Images that are missing, or whose bytes cannot be a whole image."""
    distinct = sorted(set(images), key=_reading_order)
    missing = [image for image in distinct if not _is_there(root, image)]
    gone = set(missing)
    present = [image for image in distinct if image not in gone]
    with ThreadPoolExecutor(8) as pool:
        reasons = list(pool.map(lambda image: _reason(root, image), present))
    broken = [f"{image!r} ({why})" for image, why in zip(present, reasons, strict=True) if why]
    n = counted(len(distinct), "image")
    findings = list(named_findings("error", missing, f"{len(missing)} of {n} are missing"))
    if broken:
        text = f"{len(broken)} of {n} cannot be read: {first_few(broken, 3)}."
        findings.append(Finding("error", text))
    return findings


def _reading_order(image: str) -> tuple[str, int, str]:
    """Rows of a parquet file in their order, so that each of its blocks is read once."""
    name, inner = split_reference(image)
    row = inner.partition("::")[0]
    return name, int(row) if row.isdecimal() else -1, inner


def _is_there(root: Path, image: str) -> bool:
    try:
        return locate(root, split_reference(image)[0]).is_file()
    except (DataError, ValueError):
        return True  # a name that cannot be a path here: reading it says why


def _reason(root: Path, image: str) -> str | None:
    try:
        return quick_check(read_bytes(root, image))
    except DataError as error:
        return str(error).partition("  ")[2].rstrip(".")


def stray_findings(
    folder: Path, named: set[str], shown: str, by: str = "row", level: str = "note"
) -> Iterator[Finding]:
    """Files of an image folder that no row names; `shown` is what the folder is called."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    strays = sorted(name for name in names if name not in named and not name.startswith("."))
    yield from named_findings(level, strays, f"in {shown} that no {by} names", "file")


# --- counts ---


def published_findings(
    rows: pl.DataFrame, published: Mapping[str, int], n_classes: int = 0
) -> Iterator[Finding]:
    """A note where counts differ; copies made by fieldmark and subsets always do.

    `published` maps a split to its images, "images" those of a dataset without splits; `n_classes`
    0 = not compared.
    """
    expected = {**published, "classes": n_classes} if n_classes else dict(published)
    n_rows = {
        **split_counts(rows),
        "images": len(rows),
        "classes": rows.get_column("label").n_unique(),
    }
    yield from size_findings(n_rows, expected, "size")


def size_findings(
    counts: Mapping[str, int], published: Mapping[str, int], what: str
) -> Iterator[Finding]:
    odd = [
        f"{name} {counts.get(name, 0):,} of {n:,}"
        for name, n in published.items()
        if counts.get(name, 0) != n
    ]
    if odd:
        yield Finding("note", f"not the published {what}: {', '.join(odd)}.")


def set_findings(rows: pl.DataFrame, published: Mapping[str, tuple[int, int]]) -> Iterator[Finding]:
    """As above for each value of the column `set`: set → its images and classes."""
    for name, (n_images, n_classes) in published.items():
        part = rows.filter(pl.col("set") == name)
        for finding in published_findings(part, {"images": n_images}, n_classes):
            yield Finding(finding.level, f"{name}: {finding.text}")


def split_counts(rows: pl.DataFrame) -> dict[str, int]:
    return {
        str(split): n
        for split, n in rows.drop_nulls("split").group_by("split").len().sort("split").rows()
    }


# --- classes and splits ---


def labels_by_split(rows: pl.DataFrame) -> dict[str, set[str]]:
    return {
        str(split): set(part.get_column("label").drop_nulls())
        for (split,), part in rows.drop_nulls("split").group_by("split", maintain_order=True)
    }


def class_findings(table: pl.DataFrame, single_level: str = "warning") -> Iterator[Finding]:
    """Labels that no classifier could learn from, or be scored on.

    `single_level` is how classes of one image are told: a test set may well have such.
    """
    n_without = table.get_column("label").null_count()
    if n_without:
        verb = "has" if n_without == 1 else "have"
        yield Finding("warning", f"{counted(n_without, 'row')} {verb} no label.")
    counts = table.drop_nulls("label").group_by("label").len().sort("label")
    if len(counts) < 2:
        names = name_some(counts.get_column("label").to_list()) or "none"
        yield Finding("error", f"at least two classes are needed, found: {names}.")
    single = counts.filter(pl.col("len") == 1).get_column("label")
    text = f"of {len(counts)} with only one image"
    yield from named_findings(single_level, single, text, "class", "classes")
    by_split = labels_by_split(table)
    if "train" in by_split:
        yield from _unseen_findings("test", by_split.get("test", set()) - by_split["train"])


def rank_findings(
    rows: pl.DataFrame, ranks: Sequence[str], level: str = "warning"
) -> Iterator[Finding]:
    """Empty ranks, and common names that do not tell two classes apart."""
    holes = rows.filter(pl.any_horizontal(pl.col(ranks).is_null()))
    if len(holes):
        shown = holes.get_column("label").drop_nulls().unique().sort().to_list()
        text = f"{counted(len(holes), 'image')} with an empty rank: {name_some(shown)}."
        yield Finding(level, text)
    pairs = rows.select("common_name", "label").drop_nulls().unique()
    shared = pairs.filter(pl.col("common_name").is_duplicated()).get_column("common_name")
    yield from named_findings("note", sorted(set(shared)), "of several classes", "common name")


def split_findings(
    root: Path, rows: pl.DataFrame, folders: Mapping[str, str], unseen_level: str = "warning"
) -> Iterator[Finding]:
    """Splits without images, and classes that only one split has; `folders`: split → folder.

    `unseen_level` is how classes without a training image are told: the published data may have
    such classes itself.
    """
    by_split = labels_by_split(rows)
    for split, folder in folders.items():
        if split not in by_split:
            text = f"no images of split {split!r}: expected them in {root / folder}."
            yield Finding("warning", text)
    train = by_split.pop("train", set())
    if not train or not by_split:
        return
    for split, labels in by_split.items():
        if split != "test":  # `class_findings` tells this of test
            yield from _unseen_findings(split, labels - train, unseen_level)
    unasked = sorted(train.difference(*by_split.values()))
    text = "of train that no other split shows"
    yield from named_findings("note", unasked, text, "class", "classes")


def _unseen_findings(split: str, unseen: set[str], level: str = "warning") -> Iterator[Finding]:
    text = f"of {split} without a training image"
    yield from named_findings(level, sorted(unseen), text, "class", "classes")


def training_findings(
    rows: pl.DataFrame, noun: tuple[str, str], item: str, level: str = "warning"
) -> Iterator[Finding]:
    """Too few classes in train, or classes that it lacks; `noun` is what a class is called."""
    trained = labels_by_split(rows).get("train", set())
    if len(trained) < 2:
        names = name_some(sorted(trained)) or "none"
        yield Finding("error", f"at least two {noun[1]} are needed in train, found: {names}.")
        return
    unseen = sorted(set(rows.get_column("label").drop_nulls()) - trained)
    yield from named_findings(level, unseen, f"without a training {item}", *noun)


def torn_findings(rows: pl.DataFrame, noun: str, level: str = "warning") -> Iterator[Finding]:
    """Units that lie in more than one split: what is learnt of one answers for it in the test."""
    by_unit = rows.group_by("unit").agg(n=pl.col("split").n_unique()).filter(pl.col("n") > 1)
    torn = sorted(by_unit.get_column("unit"))
    yield from named_findings(level, torn, "in more than one split", noun)
