"""Plan of a dataset's download, carried out: what is needed, here, by hand; is there room?"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from fieldmark.data._check import counted
from fieldmark.data._dataset import Source
from fieldmark.data.get.archive import is_archive
from fieldmark.data.get.download import ByteCounter, fetch_all, size, size_here
from fieldmark.data.get.http import ask_sizes, url_fault
from fieldmark.data.get.state import FolderState, locked_folder
from fieldmark.data.get.unpack import Archive, is_unpacked, unpack, unpacked_faults
from fieldmark.data.get.verify import Download, DownloadResult, Pace, fault
from fieldmark.errors import DataError, ModelError, UsageError
from fieldmark.progress import Progress, Silent

KINDS = ("annotations", "images")
SPARE = 1.05
"""unpacked photos take a little more than packed ones: blocks, folders"""
ABSURD_BYTES = 10**15
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".txt", ".parquet", ".xlsx", ".xml")
WORDS = ("annotation", "labels", "metadata", "split")


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One source, as it concerns a folder."""

    source: Source
    file: Download | None
    """None: there is no file to wait for, only steps"""

    @property
    def is_manual(self) -> bool:
        return not self.source.url

    @property
    def name(self) -> str:
        return self.source.filename


def make_plan(sources: Iterable[Source], root: Path, only: str = "") -> list[PlannedFile]:
    """The sources of one kind, or all, in their order."""
    items = []
    for source in sources:
        name = source.filename
        if only and name and kind_of(source) != only:
            continue
        _refuse_odd(source, name)
        urls = tuple(url for url in (source.url, *source.mirrors) if url)
        checks = (source.n_bytes, source.md5, source.sha256)
        items.append(PlannedFile(source, Download(root / name, urls, *checks) if name else None))
    return items


def kind_of(source: Source) -> str:
    """
    >>> kind_of(Source(filename="newt2021_labels.csv.tar.gz")), kind_of(Source(filename="a.zip"))
    ('annotations', 'images')
    """
    if source.kind:
        return source.kind
    name = source.filename.lower()
    says_so = name.endswith(TABLES) or any(word in name for word in WORDS)
    return "annotations" if says_so else "images"


def archives_of(plan: Sequence[PlannedFile], root: Path) -> dict[Archive, list[PlannedFile]]:
    """The archives to unpack, each with the files that make it, in order."""
    by_name: dict[str, list[PlannedFile]] = {}
    for item in plan:
        name = item.source.part_of or item.name
        if item.file is not None and item.source.unpack and is_archive(name):
            by_name.setdefault(name, []).append(item)
    return {_archive(name, items, root): items for name, items in by_name.items()}


def _archive(name: str, items: Sequence[PlannedFile], root: Path) -> Archive:
    source = items[0].source
    files = [item.file for item in items if item.file is not None]
    identity = [
        file.sha256 or file.md5 or f"{file.target.name} {file.n_bytes or ''}" for file in files
    ]
    return Archive(
        name,
        tuple(file.target for file in files),
        root / source.unpack,
        identity=" ".join(identity),
        strip=source.strip,
        unpacked_bytes=source.unpacked_bytes,
        n_files=source.n_files,
    )


def check_room(root: Path, to_fetch: Sequence[Download], to_unpack: Sequence[Archive]) -> int:
    """Bytes left to fetch, as far as known. Refuses when they and what they unpack to do not fit.

    A server is asked where no size is stated.
    """
    sizes = {file.target: file.n_bytes for file in to_fetch}
    unknown = [file for file in to_fetch if file.n_bytes is None]
    stated = ask_sizes([file.urls[0] for file in unknown])
    # An absurd size is no reason to fetch nothing: that source fails alone, when its turn comes.
    sizes |= {
        file.target: n
        for file, n in zip(unknown, stated, strict=True)
        if n is not None and n < ABSURD_BYTES
    }
    rest = sum(max(0, n - size_here(file.part)) for file in to_fetch if (n := sizes[file.target]))
    unpacked = 0.0
    for archive in to_unpack:
        packed = sum(sizes.get(path) or size_here(path) for path in archive.paths)
        unpacked += archive.unpacked_bytes or packed * SPARE
    existing = next(path for path in (root, *root.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if rest + unpacked > free:
        raise DataError(
            f"{root}  needs {size(rest)} to fetch and about {size(unpacked)} unpacked, but only "
            f"{size(free)} are free on that disk: make room, or choose another folder with --out."
        )
    return rest


def refuse_outside(source: Source, name: str) -> None:
    """A dataset of a user's may be wrong, too."""
    for folder in (name, source.unpack):
        path = PurePosixPath(folder)
        if path.is_absolute() or ".." in path.parts:
            raise UsageError(f"source {name!r}: {folder!r} is outside of the dataset's folder.")


def _refuse_odd(source: Source, name: str) -> None:
    refuse_outside(source, name)
    if source.kind and source.kind not in KINDS:
        raise UsageError(f"source {name!r}: kind {source.kind!r}, expected {' or '.join(KINDS)}.")
    for url in (source.url, *source.mirrors):
        if url and (why := url_fault(url)):
            raise UsageError(f"source {name!r}: {url!r} is {why}.")
    if source.url and not name:
        raise UsageError(f"source {source.url!r}: a filename is needed.")


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a dataset, and how."""

    only: str = ""
    """annotations or images; "" = all"""
    verify: bool = False
    """read again what is here; fetch nothing"""
    remove_archives: bool = False
    """delete archives once they are unpacked"""
    offline: bool = False
    """fetch nothing; unpack what is here"""
    pace: Pace = field(default_factory=Pace)

    def refuse_offline(self, to_fetch: Sequence[Download]) -> None:
        if to_fetch and self.offline:
            raise ModelError(
                f"{to_fetch[0].target}  is not here and --offline forbids fetching it: leave out "
                "--offline, or put the file there."
            )


@dataclass(frozen=True, slots=True)
class FileState:
    """One file of a dataset after `get`."""

    file: str
    state: str
    """here, fetched, failed, damaged (`verify`), missing (`verify`), by hand"""
    n_bytes: int | None = None
    reason: str = ""
    steps: str = ""
    """what a person must do, where that is the only way"""


def get_sources(
    sources: Sequence[Source], root: Path, choice: Choice, progress: Progress | None = None
) -> list[FileState]:
    """Fetches, checks and unpacks what is not here yet; one line per source, in their order."""
    plan = make_plan(sources, root, choice.only)
    if choice.only and sources and not plan:
        raise UsageError(
            f"--only {choice.only}: no source contains those alone; leave out --only to fetch all."
        )
    if all(item.file is None for item in plan):
        return [FileState("", "by hand", steps=item.source.steps) for item in plan]
    counter = ByteCounter(progress or Silent())
    with locked_folder(root) as state:
        work = _DatasetDownload(root, state, plan, archives_of(plan, root), choice, counter)
        return work.verify() if choice.verify else work.get()


@dataclass(slots=True)
class _DatasetDownload:
    root: Path
    state: FolderState
    plan: list[PlannedFile]
    archives: dict[Archive, list[PlannedFile]]
    choice: Choice
    counter: ByteCounter
    results: dict[str, FileState] = field(default_factory=dict)

    def get(self) -> list[FileState]:
        self._look()
        files = [
            item.file
            for item in self.plan
            if item.file is not None and not item.is_manual and item.name not in self.results
        ]
        coming = {*self.results, *map(self.state.name, files)}
        to_unpack = [
            archive
            for archive, items in self.archives.items()
            if all(item.name in coming for item in items) and not is_unpacked(archive, self.state)
        ]
        self.choice.refuse_offline(files)
        rest = check_room(self.root, files, to_unpack)
        if files:
            self.counter.start("fetch", rest)
            fetch_all(files, self.choice.pace, self.counter, self._note)
        for archive in to_unpack:
            self._unpack(archive)
        return self._all()

    def verify(self) -> list[FileState]:
        """Reads again what is here. What is wrong is set aside or forgotten: `get` mends it."""
        for archive in self.archives:
            if self.state.file(archive.name, "unpacked").is_file():
                self._verify_unpacked(archive)
        for item in self.plan:
            if item.file is None:
                continue
            is_told = item.name in self.results
            if item.file.target.is_file():
                why = self._check(item.file)
                if why or not is_told:
                    self._set(item, "damaged" if why else "here", why)
            elif not is_told:
                self._set(item, "by hand" if item.is_manual else "missing", "")
        return self._all()

    # --- what is here ---

    def _look(self) -> None:
        """Files that are here and right need nothing; nor do archives that were unpacked."""
        for archive, items in self.archives.items():
            if is_unpacked(archive, self.state):
                for item in items:
                    self._set(item, "here", "unpacked")
        for item in self.plan:
            file = item.file
            if file is None or item.name in self.results or not file.target.is_file():
                continue
            why = "" if self.state.knows(file) else self._check(file)
            if not why:
                self._set(item, "here", "")
            elif item.is_manual:
                self._set(item, "failed", why)

    def _check(self, file: Download) -> str:
        """Reads a finished file; a wrong one loses its name."""
        why = fault(file, file.target)
        if why:
            self.state.right.pop(self.state.name(file), None)
            file.target.replace(file.bad)
            return f"{why}; kept as {file.bad.name}"
        self.state.remember(file)
        return ""

    def _verify_unpacked(self, archive: Archive) -> None:
        self.counter.start(f"read {archive.name}", archive.unpacked_bytes or 0)
        wrong = unpacked_faults(archive, self.state, self.counter.add)
        if wrong:
            self.state.forget(archive.name, "unpacked")
        shown = ", ".join(map(repr, wrong[:3]))
        why = f"missing or changed since unpacking: {counted(len(wrong), 'file')} ({shown})"
        for item in self.archives[archive]:
            self._set(item, "damaged" if wrong else "here", why if wrong else "unpacked")

    # --- what is done about it ---

    def _note(self, result: DownloadResult) -> None:
        item = next(item for item in self.plan if item.file == result.file)
        if result.state == "fetched":
            self.state.remember(result.file)
            self.counter.progress.say(f"{item.name}  fetched.")
        self._set(item, result.state, result.reason)

    def _unpack(self, archive: Archive) -> None:
        states = [self.results.get(item.name) for item in self.archives[archive]]
        if any(state is None or state.state not in ("here", "fetched") for state in states):
            return
        self.counter.start(f"unpack {archive.name}", archive.n_packed)
        n_aside = unpack(archive, self.state, self.counter.add)
        if n_aside:
            where = self.state.folder / "replaced"
            text = f"{archive.name}  replaced {n_aside} other files, which are now in {where}."
            self.counter.progress.say(text)
        if self.choice.remove_archives:
            for path in archive.paths:
                path.unlink(missing_ok=True)

    # --- small things ---

    def _set(self, item: PlannedFile, state: str, reason: str) -> None:
        file = item.file
        n_bytes = file.target.stat().st_size if file is not None and file.target.is_file() else None
        self.results[item.name] = FileState(item.name, state, n_bytes, reason)

    def _all(self) -> list[FileState]:
        states = []
        for item in self.plan:
            state = self.results.get(item.name, FileState(item.name, "by hand"))
            is_open = state.state in ("by hand", "failed")
            states.append(replace(state, steps=item.source.steps) if is_open else state)
        return states


def announce(states: Sequence[FileState], say: Callable[[str], None]) -> None:
    """The lines a person needs: what failed and why, and what only a person can do."""
    for state in states:
        if state.state in ("failed", "damaged") or (state.state == "missing" and state.reason):
            say(f"{state.file}  {state.state}: {state.reason}.")
    steps = dict.fromkeys(state.steps for state in states if state.steps)
    if steps:
        say("to be done by hand:")
    for number, text in enumerate(steps, 1):
        for line, text_line in enumerate(text.strip().splitlines()):
            say(f"  {number}. {text_line}" if line == 0 else f"     {text_line}")
