"""Unpacking: an archive can neither escape its folder nor fill the disk, and appears as a whole.

Files are written into a scratch folder below `ROOT/.fieldmark/`, with a journal of those that are
whole, so that a killed run goes on where it was. Names that are absolute or climb up, devices, and
links that lead out are refused with the archive as a whole. Links are made last: nothing is ever
written through one. Only a complete scratch folder is moved to its place, and only then
`NAME.unpacked` says so. Files of other content that are in the way are moved aside, never lost.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from fieldmark.data.get.archive import Member, open_archive
from fieldmark.data.get.download import make_folder, size
from fieldmark.data.get.state import FolderState
from fieldmark.errors import DataError

BLOCK = 1 << 18
LEAST_BYTES = 100_000_000
MOST_RATIO = 50
MOST_FILES = 5_000_000
LEAST_FILES = 10_000
BYTES_PER_FILE = 40
"""no real archive describes a file in fewer packed bytes"""


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive as it lies on disk, and where its files belong."""

    name: str
    paths: tuple[Path, ...]
    """the parts, in order; mostly one"""
    folder: Path
    identity: str
    """checksums, or what else tells this archive from a later one of the same name"""
    strip: int = 0
    unpacked_bytes: int | None = None
    n_files: int | None = None

    @property
    def n_packed(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    @property
    def most_bytes(self) -> int:
        if self.unpacked_bytes is not None:
            return int(self.unpacked_bytes * 1.1) + 1_000_000
        return max(LEAST_BYTES, MOST_RATIO * self.n_packed)

    @property
    def most_files(self) -> int:
        if self.n_files is not None:
            return int(self.n_files * 1.1) + 100
        return min(MOST_FILES, max(LEAST_FILES, self.n_packed // BYTES_PER_FILE))


@dataclass(slots=True)
class _Scratch:
    """What is being unpacked, and what of it is whole already (name → size)."""

    archive: Archive
    tree: Path
    journal: Path
    whole: dict[str, int] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)
    n_bytes: int = 0
    n_files: int = 0

    def refuse(self, text: str) -> DataError:
        shutil.rmtree(self.tree, ignore_errors=True)
        self.journal.unlink(missing_ok=True)
        return DataError(f"{self.archive.paths[0]}  {text}: nothing of it was unpacked.")


def extract(archive: Archive, tree: Path, journal: Path, on_bytes: Callable[[int], None]) -> None:
    """Unpacks into `tree`; `journal` then lists every file with its CRC-32 and size."""
    scratch = _Scratch(archive, tree, journal)
    _go_on(scratch)
    make_folder(tree)
    with journal.open("a", encoding="utf-8") as log:
        try:
            with open_archive(archive.paths, archive.name, on_bytes) as members:
                for member in members:
                    _extract(scratch, member, log)
            _make_links(scratch)
        except OSError as error:
            raise DataError(
                f"{tree}  cannot be written ({error.strerror or error}): mend this and run the "
                "same command again, it goes on from here."
            ) from error


def _extract(scratch: _Scratch, member: Member, log: IO[str]) -> None:
    name = _safe_name(scratch, member.name)
    if not name or _is_litter(name):
        return
    scratch.n_files += 1
    if scratch.n_files > scratch.archive.most_files:
        raise scratch.refuse(f"holds more than {scratch.archive.most_files:,} files")
    path = scratch.tree / name
    if member.kind == "folder":
        path.mkdir(parents=True, exist_ok=True)
    elif member.kind == "file":
        _write(scratch, member, name, log)
    elif member.kind == "twin":
        _copy_twin(scratch, member, name, log)
    elif member.kind == "link":
        scratch.links.append((name, member.leads_to))
    else:
        raise scratch.refuse(f"holds {member.name!r}, which is neither file, folder nor link")


def _write(scratch: _Scratch, member: Member, name: str, log: IO[str]) -> None:
    path = scratch.tree / name
    # Taken out of the list: a second member of this name replaces the first, as tar does.
    if scratch.whole.pop(name, None) == member.size and path.is_file():
        _count(scratch, member.size)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    crc = n = 0
    with member.open() as source, path.open("wb") as file:
        while block := source.read(BLOCK):
            _count(scratch, len(block))
            file.write(block)
            crc, n = zlib.crc32(block, crc), n + len(block)
    if n != member.size:
        raise EOFError(f"{member.name} is cut off")
    _note(log, crc, n, name)


def _copy_twin(scratch: _Scratch, member: Member, name: str, log: IO[str]) -> None:
    """A hard link becomes a file of its own."""
    first = scratch.tree / (_safe_name(scratch, member.leads_to) or ".")
    if not first.is_file():
        raise scratch.refuse(f"holds a link {member.name!r} to {member.leads_to!r}, not in it")
    _count(scratch, first.stat().st_size)
    path = scratch.tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path != first:
        shutil.copyfile(first, path)
    _note(log, zlib.crc32(path.read_bytes()), path.stat().st_size, name)


def _make_links(scratch: _Scratch) -> None:
    for name, leads_to in scratch.links:
        path = scratch.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        if path.exists() or not leads_to or PurePosixPath(leads_to).is_absolute():
            raise scratch.refuse(f"holds a link {name!r} to {leads_to!r}, which is not allowed")
        path.symlink_to(leads_to)
    home = scratch.tree.resolve()
    for name, leads_to in scratch.links:
        try:
            is_inside = (scratch.tree / name).resolve(strict=True).is_relative_to(home)
        except (OSError, RuntimeError):
            is_inside = False
        if not is_inside:
            raise scratch.refuse(f"holds a link {name!r} to {leads_to!r}, which leads out of it")


def _count(scratch: _Scratch, n: int) -> None:
    scratch.n_bytes += n
    if scratch.n_bytes > scratch.archive.most_bytes:
        raise scratch.refuse(
            f"holds more than {size(scratch.archive.most_bytes)}, packed into "
            f"{size(scratch.archive.n_packed)}"
        )


def _safe_name(scratch: _Scratch, name: str) -> str:
    """The name below the folder; "" for the folder itself. Refuses what would leave it."""
    parts = PurePosixPath(name.replace("\\", "/") if os.name == "nt" else name).parts
    is_odd = "\0" in name or ".." in parts or name.startswith(("/", "\\"))
    if is_odd or re.match(r"[A-Za-z]:[\\/]", name):
        raise scratch.refuse(f"holds {name!r}, a name that leads out of it")
    return "/".join(parts[scratch.archive.strip :])


def _is_litter(name: str) -> bool:
    """What some desktops add to archives; `._x.jpg` passes for an image and is none."""
    last = name.rpartition("/")[2]
    return name.startswith("__MACOSX/") or last.startswith("._") or last == ".DS_Store"


# --- the journal ---


def _go_on(scratch: _Scratch) -> None:
    """Takes over what an earlier run wrote from the same archive; else starts afresh."""
    times = [path.stat().st_mtime_ns for path in scratch.archive.paths]
    head = json.dumps({"archive": scratch.archive.identity, "written": times}) + "\n"
    lines = _lines(scratch.journal)
    if lines[:1] == [head] and scratch.tree.is_dir():
        scratch.whole.update((name, n) for _, n, name in map(parse_line, lines[1:]))
    else:
        shutil.rmtree(scratch.tree, ignore_errors=True)
        lines = [head]
    make_folder(scratch.journal.parent)
    scratch.journal.write_text("".join(lines), encoding="utf-8")


def _lines(journal: Path) -> list[str]:
    """Whole lines only: the last may be cut off."""
    if not journal.is_file():
        return []
    text = journal.read_text(encoding="utf-8", errors="surrogateescape")
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def parse_line(line: str) -> tuple[int, int, str]:
    """CRC-32, size and name; a damaged line names nothing that could be there."""
    try:
        crc, n, name = line.split(" ", 2)
        return int(crc, 16), int(n), str(json.loads(name))
    except ValueError:
        return 0, -1, "?"


def _note(log: IO[str], crc: int, n: int, name: str) -> None:
    log.write(f"{crc:08x} {n} {json.dumps(name)}\n")
    log.flush()


BLOCK = 1 << 20


def unpack(archive: Archive, state: FolderState, on_bytes: Callable[[int], None]) -> int:
    """Unpacks an archive into its folder; how many files were moved aside for it."""
    tree = state.scratch(archive.name)
    journal, placing = state.file(archive.name, "journal"), state.file(archive.name, "placing")
    if not placing.is_file():
        extract(archive, tree, journal, on_bytes)
        journal.replace(placing)
    aside = state.folder / "replaced" / tree.name
    try:
        n_aside = _place(tree, archive.folder, aside) if tree.is_dir() else 0
    except OSError as error:
        raise DataError(
            f"{archive.folder}  cannot be written ({error.strerror or error}): mend this and run "
            "the same command again, it goes on from here."
        ) from error
    shutil.rmtree(tree, ignore_errors=True)
    placing.replace(state.file(archive.name, "unpacked"))
    return n_aside


def is_unpacked(archive: Archive, state: FolderState) -> bool:
    """Was this very archive unpacked, and are its folders still there?"""
    done = state.file(archive.name, "unpacked")
    if not done.is_file():
        return False
    with done.open(encoding="utf-8") as lines:
        try:
            if json.loads(next(lines, "{}")).get("archive") != archive.identity:
                return False
        except (ValueError, AttributeError):
            return False
    seen: set[str] = set()
    for _, _, name in _files(done):
        folder = name.rpartition("/")[0]
        if folder not in seen and not (archive.folder / name).is_file():
            return False
        seen.add(folder)
    return True


def unpacked_faults(
    archive: Archive, state: FolderState, on_bytes: Callable[[int], None]
) -> list[str]:
    """Files that are missing or not as they were unpacked. Reads all of them."""
    done = state.file(archive.name, "unpacked")
    return [
        name
        for crc, n, name in _files(done)
        if not _is_same(archive.folder / name, crc, n, on_bytes)
    ]  # fmt: skip


def _files(done: Path) -> Iterator[tuple[int, int, str]]:
    with done.open(encoding="utf-8") as lines:
        next(lines, "")
        yield from map(parse_line, lines)


def _is_same(path: Path, crc: int, n: int, on_bytes: Callable[[int], None]) -> bool:
    if not path.is_file() or path.stat().st_size != n:
        return False
    actual = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            actual = zlib.crc32(block, actual)
            on_bytes(len(block))
    return actual == crc


def _place(tree: Path, folder: Path, aside: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    n_aside = 0
    for entry in sorted(tree.iterdir()):
        target = folder / entry.name
        if entry.is_dir() and not entry.is_symlink() and target.is_dir():
            n_aside += _place(entry, target, aside / entry.name)
            continue
        if target.is_symlink() or target.exists():
            n_aside += _make_way(entry, target, aside)
        shutil.move(entry, target)
    return n_aside


def _make_way(entry: Path, target: Path, aside: Path) -> int:
    """Takes away what stands there; 1 if it was another file, which is kept."""
    if entry.is_file() and target.is_file() and filecmp.cmp(entry, target, shallow=False):
        target.unlink()
        return 0
    aside.mkdir(parents=True, exist_ok=True)
    kept = aside / target.name
    serial = 1
    while kept.exists() or kept.is_symlink():
        serial += 1
        kept = aside / f"{target.name}.{serial}"
    shutil.move(target, kept)
    return 1
