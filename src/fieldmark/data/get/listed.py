"""Bulk download of images that a dataset's own table lists: thousands of small files, some gone.

A dataset may offer `listed_sources(root)`, which reads its annotations once they are here. What
became of its files is told folder by folder, and `.fieldmark/report.csv` lists those that failed
and why: a dead link keeps no other image away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fieldmark.data._check import counted
from fieldmark.data._dataset import Dataset, Source
from fieldmark.data.get.download import ByteCounter, fetch_all
from fieldmark.data.get.http import url_fault
from fieldmark.data.get.plan import (
    Choice,
    FileState,
    get_sources,
    make_plan,
    refuse_outside,
)
from fieldmark.data.get.state import locked_folder
from fieldmark.data.get.urls import REPORT, is_here, write_report
from fieldmark.data.get.verify import Download, DownloadResult
from fieldmark.progress import Progress, Silent

ListedSources = Callable[[Path], Sequence[Source]]
STATES = ("failed", "damaged", "missing", "fetched", "here")
"""of a folder: the first that any of its files has"""
OPEN = STATES[:3]
SHOWN = 3


class ListedFile(NamedTuple):
    """One file of the list, and what became of it."""

    file: str
    url: str
    state: str
    reason: str = ""


def get_dataset(
    dataset: Dataset, root: Path, choice: Choice, progress: Progress | None = None
) -> list[FileState]:
    """Fetches the files that a dataset names, and then those that its annotations list."""
    sources = dataset.INFO.sources
    listed: ListedSources | None = getattr(dataset, "listed_sources", None)
    if listed is None:
        return get_sources(sources, root, choice, progress)
    is_named = bool(make_plan(sources, root, choice.only))
    states = get_sources(sources, root, choice, progress) if is_named else []
    is_complete = all(state.state in ("here", "fetched") for state in states)
    if choice.only == "annotations" or not is_complete:
        return states
    return [*states, *get_listed(listed(root), root, choice, progress)]


def get_listed(
    sources: Sequence[Source], root: Path, choice: Choice, progress: Progress | None = None
) -> list[FileState]:
    """Fetches what is not here yet, or reads again what is; one state per folder."""
    with locked_folder(root) as memory:
        listed = _List(root, sources, choice)
        files = listed.verify() if choice.verify else listed.fetch(progress or Silent())
        report = memory.folder / REPORT
        rows = [(file.file, file.url, file.reason) for file in files if file.state in OPEN]
        write_report(report, ("file", "url", "reason"), rows)
    folders: dict[str, list[ListedFile]] = {}
    for file in files:
        folders.setdefault(file.file.rpartition("/")[0], []).append(file)
    return [_state(root, folder, inside, report) for folder, inside in folders.items()]


class _List:
    """The files that can be fetched, and those whose address says that they cannot."""

    def __init__(self, root: Path, sources: Sequence[Source], choice: Choice) -> None:
        self.root, self.choice = root, choice
        self.names = [source.filename for source in sources]
        self.downloads: dict[str, Download] = {}
        self.results: dict[str, ListedFile] = {}
        for name, source in zip(self.names, sources, strict=True):
            refuse_outside(source, name)
            urls = tuple(url for url in (source.url, *source.mirrors) if not url_fault(url))
            file = Download(
                root / name, urls, source.n_bytes, source.md5, source.sha256, origin=name
            )
            self.downloads[name] = file
            if not urls and not file.target.is_file():
                why = url_fault(source.url)
                self.results[name] = ListedFile(name, source.url, "failed", why)

    def fetch(self, progress: Progress) -> list[ListedFile]:
        todo = []
        for name, file in self.downloads.items():
            if name in self.results:
                continue
            if is_here(file):
                self._set(file, "here")
            elif file.urls:
                todo.append(file)
            else:
                self._set(file, "failed", f"is not the listed one, kept as {file.bad.name}")
        self.choice.refuse_offline(todo)
        progress.start("files", len(todo))

        def done(result: DownloadResult) -> None:
            self._set(result.file, result.state, result.reason)
            progress.advance()

        fetch_all(todo, self.choice.pace, ByteCounter(progress), done)
        return [self.results[name] for name in self.names]

    def verify(self) -> list[ListedFile]:
        for file in self.downloads.values():
            if not file.target.is_file():
                self._set(file, "missing", "is not here")
            elif is_here(file):
                self._set(file, "here")
            else:
                self._set(file, "damaged", f"is not the listed one, kept as {file.bad.name}")
        return [self.results[name] for name in self.names]

    def _set(self, file: Download, state: str, reason: str = "") -> None:
        url = next(iter(file.urls), "")
        self.results[file.origin] = ListedFile(file.origin, url, state, reason)


def _state(root: Path, folder: str, files: Sequence[ListedFile], report: Path) -> FileState:
    open_files = [file for file in files if file.state in OPEN]
    paths = (root / file.file for file in files)
    n_bytes = sum(path.stat().st_size for path in paths if path.is_file())
    reason = ""
    if open_files:
        shown = "; ".join(f"{file.file} {file.reason}" for file in open_files[:SHOWN])
        more = "" if len(open_files) <= SHOWN else "; …"
        n = f"{len(open_files):,} of {counted(len(files), 'file')}"
        reason = f"{n}, listed in {report} ({shown}{more})"
    state = min((file.state for file in files), key=STATES.index)
    return FileState(f"{folder or '.'}/ ({counted(len(files), 'file')})", state, n_bytes, reason)
