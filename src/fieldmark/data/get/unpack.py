"""Unpacking: an archive can neither escape its folder nor fill the disk, and appears as a whole.

`tarfile` with its filter "data", or `zipfile`, writes into a scratch folder below
`ROOT/.fieldmark/`. Names that are absolute or climb up, devices, links that lead out, and more
bytes or files than the archive may hold are refused with the archive as a whole. Symbolic links are
made last: nothing is ever written through one. Only a complete scratch folder is moved to its
place, and only then `NAME.unpacked` lists its files. Whatever cut it off, the next run unpacks that
archive from its start. Files of other content that are in the way are moved aside, never lost.
https://docs.python.org/3/library/tarfile.html#extraction-filters
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from fieldmark.data._synthetic import MARK
from fieldmark.data.get.archive import MOST_TRAILING_BYTES, open_archive
from fieldmark.data.get.download import make_folder, size
from fieldmark.data.get.state import FOLDER, FolderState
from fieldmark.errors import DataError
from fieldmark.files import replacing

BLOCK = 1 << 20
LEAST_BYTES = 100_000_000
MOST_RATIO = 50
MOST_FILES = 5_000_000
LEAST_FILES = 10_000
BYTES_PER_FILE = 40
"""no real archive describes a file in fewer packed bytes"""
LONGEST_LINK = 4096
"""bytes: the longest path that Linux takes"""
LONGEST_NAME = 1024
LONGEST_PART = 255
"""bytes that file systems take for the name of one file or folder"""
MOST_FOLDERS = 100
"""in one another"""
HEADER_BYTES = 2048
"""of one member of a tar file, with its long name"""
RESERVED = (FOLDER, MARK.lower())
"""names that only this package gives: what was downloaded, and what is synthetic"""


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
    def most_stream_bytes(self) -> int:
        """With headers and litter."""
        return self.most_bytes + HEADER_BYTES * self.most_files + MOST_TRAILING_BYTES

    @property
    def most_files(self) -> int:
        if self.n_files is not None:
            return int(self.n_files * 1.1) + 100
        return min(MOST_FILES, max(LEAST_FILES, self.n_packed // BYTES_PER_FILE))


def unpack(archive: Archive, state: FolderState, on_bytes: Callable[[int], None]) -> int:
    """Unpacks an archive into its folder; how many files were moved aside for it."""
    tree, done = state.scratch(archive.name), state.file(archive.name, "unpacked")
    try:
        shutil.rmtree(tree, ignore_errors=True)
        make_folder(tree)
        _Extraction(archive, tree).run(on_bytes)
        with replacing(done) as listing:
            # The archive it was, then CRC-32, size and name of every file.
            listing.write(f"{json.dumps({'archive': archive.identity})}\n".encode())
            for folder, _, names in os.walk(tree):
                for path in (Path(folder, name) for name in names):
                    if not path.is_symlink():
                        name = json.dumps(path.relative_to(tree).as_posix())
                        listing.write(f"{_crc(path):08x} {path.stat().st_size} {name}\n".encode())
            n_aside = _place(tree, archive.folder, state.folder / "replaced" / tree.name)
    except OSError as error:
        raise DataError(
            f"{error.filename or archive.folder}  cannot be written ({error.strerror or error}): "
            "fix this and run the same command again."
        ) from error
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return n_aside


@dataclass(slots=True)
class _Extraction:
    """What was met of an archive so far."""

    archive: Archive
    tree: Path
    links: dict[str, str] = field(default_factory=dict)
    n_bytes: int = 0
    n_files: int = 0

    def run(self, on_bytes: Callable[[int], None]) -> None:
        archive, most = self.archive, self.archive.most_stream_bytes
        try:
            with open_archive(archive.paths, archive.name, on_bytes, most) as content:
                if isinstance(content, zipfile.ZipFile):
                    for member in content.infolist():
                        self._from_zip(content, member)
                else:
                    for tar, info in content:
                        self._from_tar(tar, info)
            self._make_links()
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            name = Path(error.filename).name
            raise self._refuse(f"contains a file and a folder of one name ({name!r})") from error

    def _from_tar(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        name = self._counted(info.name, info.size)
        if not name:
            return
        if info.issym():
            self.links[name] = info.linkname
            return
        leads_to = self._inside(info.linkname) if info.islnk() else ""
        if info.islnk() and not (self.tree / leads_to).is_file():
            raise self._refuse(f"contains a link {info.name!r} to {info.linkname!r}, not in it")
        renamed = info.replace(name=name, linkname=leads_to or info.linkname, deep=False)
        try:
            tar.extract(renamed, self.tree, set_attrs=False, filter="data")
        except tarfile.FilterError as error:
            raise self._refuse(f"contains {info.name!r}, which is not allowed ({error})") from error

    def _from_zip(self, zipped: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        if info.flag_bits & 1:
            raise zipfile.BadZipFile(f"{info.filename} needs a password")
        name, kind = self._counted(info.filename, info.file_size), info.external_attr >> 16
        if not name:
            return
        if stat.S_ISLNK(kind):
            is_path = info.file_size < LONGEST_LINK
            self.links[name] = zipped.read(info).decode(errors="replace") if is_path else ""
        elif stat.S_IFMT(kind) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise self._refuse(f"contains {name!r}, which is neither file, folder nor link")
        else:
            info.filename = f"{name}/" if info.is_dir() else name
            zipped.extract(info, self.tree)

    def _make_links(self) -> None:
        for name, leads_to in self.links.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() or not leads_to or PurePosixPath(leads_to).is_absolute():
                raise self._refuse(f"contains link {name!r} to {leads_to!r}, which is not allowed")
            path.symlink_to(leads_to)
        home = self.tree.resolve()
        for name, leads_to in self.links.items():
            try:
                is_inside = (self.tree / name).resolve(strict=True).is_relative_to(home)
            except (OSError, RuntimeError):  # leads nowhere, or in a circle
                is_inside = False
            if not is_inside:
                raise self._refuse(
                    f"contains link {name!r} to {leads_to!r}, which points outside it"
                )

    def _counted(self, name: str, n_bytes: int) -> str:
        """The safe name of one more member; "" where there is nothing to write."""
        inside = self._inside(name)
        if not inside or _is_litter(inside):
            return ""
        self.n_files, self.n_bytes = self.n_files + 1, self.n_bytes + n_bytes
        if self.n_files > self.archive.most_files:
            raise self._refuse(f"contains more than {self.archive.most_files:,} files")
        if self.n_bytes > self.archive.most_bytes:
            packed, most = size(self.archive.n_packed), size(self.archive.most_bytes)
            raise self._refuse(f"contains more than {most}, packed into {packed}")
        return inside

    def _inside(self, name: str) -> str:
        """The name below the folder; "" for the folder itself. Refuses what would leave it."""
        parts = PurePosixPath(name.replace("\\", "/") if os.name == "nt" else name).parts
        is_odd = "\0" in name or ".." in parts or name.startswith(("/", "\\"))
        if is_odd or re.match(r"[A-Za-z]:[\\/]", name):
            raise self._refuse(f"contains {name[:80]!r}, a name that points outside it")
        longest = max((len(os.fsencode(part)) for part in parts), default=0)
        if len(name) > LONGEST_NAME or len(parts) > MOST_FOLDERS or longest > LONGEST_PART:
            raise self._refuse(
                f"contains {name[:80]!r}…, a name of {len(name):,} letters and {len(parts):,} parts"
            )
        if any(part.lower() in RESERVED for part in parts):
            raise self._refuse(f"contains {name[:80]!r}, a name that is reserved")
        return "/".join(parts[self.archive.strip :])

    def _refuse(self, text: str) -> DataError:
        return DataError(f"{self.archive.paths[0]}  {text}: nothing of it was unpacked.")


def _is_litter(name: str) -> bool:
    """What some desktops add to archives; `._x.jpg` passes for an image and is none."""
    last = name.rpartition("/")[2]
    return name.startswith("__MACOSX/") or last.startswith("._") or last == ".DS_Store"


# --- into its place ---


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


# --- the list of what was unpacked ---


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
    wrong = []
    for crc, n, name in _files(state.file(archive.name, "unpacked")):
        path = archive.folder / name
        if not path.is_file() or path.stat().st_size != n or _crc(path, on_bytes) != crc:
            wrong.append(name)
    return sorted(wrong)


def _files(done: Path) -> Iterator[tuple[int, int, str]]:
    """CRC-32, size and name; a damaged line names nothing that could be there."""
    with done.open(encoding="utf-8") as lines:
        next(lines, "")
        for line in lines:
            try:
                crc, n, name = line.split(" ", 2)
                yield int(crc, 16), int(n), str(json.loads(name))
            except ValueError:
                yield 0, -1, "?"


def _crc(path: Path, on_bytes: Callable[[int], None] | None = None) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            crc = zlib.crc32(block, crc)
            if on_bytes:
                on_bytes(len(block))
    return crc
