"""What do the checks of all datasets have in common?

Lines about images and classes for `fieldmark data check`. Every image's bytes are read once; none
is decoded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from fieldmark.data._bytes import locate, read_bytes, split_reference
from fieldmark.data._dataset import Finding, Source
from fieldmark.data._image import quick_check
from fieldmark.errors import DataError

ANNOTATIONS = (".csv", ".json", ".jsonl", ".tsv", ".txt", ".yaml")
"""what tables of labels end in; Parquet files hold the images too"""
LARGEST_BYTES = 512 * 2**20


def checksum_findings(root: Path, sources: Iterable[Source]) -> list[Finding]:
    """Files of the published size whose content is not the published one: damaged, or edited.

    A file of another size is another table, which the counts tell; large archives are left to
    `data get --verify`.
    """
    findings = []
    for source in sources:
        known = source.md5 or source.sha256
        path = root / source.filename
        if not known or not source.filename or not path.is_file():
            continue
        size = path.stat().st_size
        if size > LARGEST_BYTES or (source.n_bytes or size) != size:
            continue
        kind = "md5" if source.md5 else "sha256"
        if file_digest(path, kind) != known:
            text = f"{source.filename} is not the published file ({kind} {known})."
            findings.append(Finding("warning" if source.n_bytes else "note", text))
    return findings


def annotation_digests(root: Path) -> dict[str, str]:
    """SHA-256 of every table of labels, two folders deep, by its path: for comparing copies."""
    files = (path for level in ("*", "*/*", "*/*/*") for path in root.glob(level))
    wanted = [path for path in files if path.suffix.lower() in ANNOTATIONS and path.is_file()]
    small = [path for path in wanted if path.stat().st_size <= LARGEST_BYTES]
    return {
        path.relative_to(root).as_posix(): file_digest(path, "sha256") for path in sorted(small)
    }


def file_digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def name_some(names: Sequence[str], most: int = 3) -> str:
    """The first few in quotes and how many more: `'a', 'b', 'c' and 9 more`."""
    return _first_few([repr(each) for each in names], most)


def _first_few(texts: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


def counted(n: int, noun: str, plural: str = "") -> str:
    """`1 class`, `2 classes`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def image_findings(root: Path, images: Iterable[str]) -> list[Finding]:
    """Images that are missing, or whose bytes cannot be a whole image."""
    distinct = sorted(set(images), key=_place)
    missing = [each for each in distinct if not _is_there(root, each)]
    gone = set(missing)
    present = [each for each in distinct if each not in gone]
    with ThreadPoolExecutor(8) as pool:
        reasons = list(pool.map(lambda each: _reason(root, each), present))
    broken = [f"{each!r} ({why})" for each, why in zip(present, reasons, strict=True) if why]
    n = counted(len(distinct), "image")
    findings = []
    if missing:
        findings.append(
            Finding("error", f"{len(missing)} of {n} are missing: {name_some(missing)}.")
        )
    if broken:
        findings.append(
            Finding("error", f"{len(broken)} of {n} cannot be read: {_first_few(broken)}.")
        )
    return findings


def class_findings(table: pl.DataFrame) -> list[Finding]:
    """Labels that no classifier could learn from, or be scored on."""
    findings = []
    n_without = table.get_column("label").null_count()
    if n_without:
        verb = "has" if n_without == 1 else "have"
        findings.append(Finding("warning", f"{counted(n_without, 'row')} {verb} no label."))
    counts = table.drop_nulls("label").group_by("label").len().sort("label")
    if len(counts) < 2:
        names = name_some(counts.get_column("label").to_list()) or "none"
        findings.append(Finding("error", f"at least two classes are needed, found: {names}."))
    single = counts.filter(pl.col("len") == 1).get_column("label").to_list()
    if single:
        findings.append(
            Finding(
                "warning",
                f"{counted(len(single), 'class', 'classes')} of {len(counts)} with one image only: "
                f"{name_some(single)}.",
            )
        )
    return findings + _split_findings(table)


def _split_findings(table: pl.DataFrame) -> list[Finding]:
    by_split = {
        str(split): set(rows.get_column("label").drop_nulls())
        for (split,), rows in table.drop_nulls("split").group_by("split", maintain_order=True)
    }
    unseen = sorted(
        by_split.get("test", set()) - by_split.get("train", by_split.get("test", set()))
    )
    if not unseen:
        return []
    n = counted(len(unseen), "class", "classes")
    return [Finding("warning", f"{n} of test without a training image: {name_some(unseen)}.")]


def _place(image: str) -> tuple[str, int, str]:
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
