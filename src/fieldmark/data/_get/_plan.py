"""What must be fetched for a dataset, what is here, what takes a person, and is there room?"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from fieldmark.data._dataset import Source
from fieldmark.data._get._archive import is_archive
from fieldmark.data._get._http import url_fault
from fieldmark.data._get._job import Job
from fieldmark.data._get._tally import size
from fieldmark.data._get._unpack import Bundle
from fieldmark.errors import DataError, UsageError

KINDS = ("annotations", "images")
SPARE = 1.05
"""unpacked photos take a little more than packed ones: blocks, folders"""
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".parquet", ".xlsx", ".xml")
WORDS = ("annotation", "labels", "metadata", "split")


@dataclass(frozen=True, slots=True)
class Item:
    """One source, as it concerns a folder."""

    source: Source
    job: Job | None
    """None: there is no file to wait for, only steps"""

    @property
    def is_manual(self) -> bool:
        return not self.source.url

    @property
    def name(self) -> str:
        return file_name(self.source)


def make_plan(sources: Iterable[Source], root: Path, only: str = "") -> list[Item]:
    """The sources of one kind, or all, in their order."""
    items = []
    for source in sources:
        name = file_name(source)
        if only and name and kind_of(source) != only:
            continue
        _refuse_odd(source, name)
        urls = tuple(each for each in (source.url, *source.mirrors) if each)
        facts = (source.n_bytes, source.md5, source.sha256)
        items.append(Item(source, Job(root / name, urls, *facts) if name else None))
    return items


def kind_of(source: Source) -> str:
    """
    >>> kind_of(Source(filename="newt2021_labels.csv.tar.gz")), kind_of(Source(filename="a.zip"))
    ('annotations', 'images')
    """
    if source.kind:
        return source.kind
    name = file_name(source).lower()
    says_so = name.endswith(TABLES) or any(word in name for word in WORDS)
    return "annotations" if says_so else "images"


def file_name(source: Source) -> str:
    return source.filename or PurePosixPath(unquote(urlsplit(source.url).path)).name


def bundles(items: Sequence[Item]) -> dict[str, list[Item]]:
    """The archives to unpack: name → the items that make it, in order."""
    found: dict[str, list[Item]] = {}
    for item in items:
        name = item.source.part_of or item.name
        if item.job is not None and item.source.unpack and is_archive(name):
            found.setdefault(name, []).append(item)
    return found


def bundle_of(name: str, items: Sequence[Item], root: Path) -> Bundle:
    first = items[0].source
    jobs = [item.job for item in items if item.job is not None]
    facts = [job.sha256 or job.md5 or f"{job.target.name} {job.n_bytes or ''}" for job in jobs]
    return Bundle(
        name,
        tuple(job.target for job in jobs),
        root / first.unpack,
        identity=" ".join(facts),
        strip=first.strip,
        unpacked_bytes=first.unpacked_bytes,
        n_files=first.n_files,
    )


def check_room(
    root: Path, to_fetch: Sequence[Job], to_unpack: Sequence[tuple[str, list[Item]]],
    size_of: Callable[[Job], int | None],
) -> int:  # fmt: skip
    """Bytes left to fetch, as far as known. Refuses when they and what they unpack to do not fit.

    `size_of` asks a server where no size is stated.
    """
    sizes = {job.target: _size(job, size_of) for job in to_fetch}
    rest = sum(max(0, n - _n_here(job)) for job in to_fetch if (n := sizes[job.target]))
    unpacked = 0.0
    for _, items in to_unpack:
        jobs = [item.job for item in items if item.job is not None]
        packed = sum(sizes.get(job.target) or _stat_size(job.target) for job in jobs)
        unpacked += items[0].source.unpacked_bytes or packed * SPARE
    free = shutil.disk_usage(_existing(root)).free
    if rest + unpacked > free:
        raise DataError(
            f"{root}  needs {size(rest)} to fetch and about {size(unpacked)} unpacked, but only "
            f"{size(free)} are free on that disk: make room, or choose another folder with --out."
        )
    return rest


def _size(job: Job, size_of: Callable[[Job], int | None]) -> int | None:
    return job.n_bytes if job.n_bytes is not None else size_of(job)


def _n_here(job: Job) -> int:
    return _stat_size(job.part)


def _stat_size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.absolute().parents) if each.exists())


def _refuse_odd(source: Source, name: str) -> None:
    """A dataset of a user's may be wrong, too."""
    for folder in (name, source.unpack):
        path = PurePosixPath(folder)
        if path.is_absolute() or ".." in path.parts:
            raise UsageError(f"source {name!r}: {folder!r} is outside of the dataset's folder.")
    if source.kind and source.kind not in KINDS:
        raise UsageError(f"source {name!r}: kind {source.kind!r}, expected {' or '.join(KINDS)}.")
    for url in (source.url, *source.mirrors):
        if url and (why := url_fault(url)):
            raise UsageError(f"source {name!r}: {url!r} is {why}.")
    if source.url and not name:
        raise UsageError(f"source {source.url!r}: a filename is needed.")
