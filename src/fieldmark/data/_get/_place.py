"""How do unpacked files get to their place, all or none as far as anybody can tell?

`ROOT/.fieldmark/` holds what is going on. An archive's files are in a scratch tree until all are
there; then they are moved, and only then `NAME.unpacked` says so. Killed at any moment, the next
run goes on. Files of other content that are in the way are moved aside, never lost.
"""

from __future__ import annotations

import filecmp
import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from fieldmark.data._get._state import State
from fieldmark.data._get._unpack import Bundle, extract, parse_line
from fieldmark.errors import DataError

BLOCK = 1 << 20


def unpack(bundle: Bundle, state: State, saw: Callable[[int], None]) -> int:
    """Unpacks an archive into its folder; how many files were moved aside for it."""
    tree = state.scratch(bundle.name)
    journal, placing = state.file(bundle.name, "journal"), state.file(bundle.name, "placing")
    if not placing.is_file():
        extract(bundle, tree, journal, saw)
        journal.replace(placing)
    aside = state.folder / "replaced" / tree.name
    try:
        n_aside = _place(tree, bundle.folder, aside) if tree.is_dir() else 0
    except OSError as error:
        raise DataError(
            f"{bundle.folder}  cannot be written ({error.strerror or error}): mend this and run "
            "the same command again, it goes on from here."
        ) from error
    shutil.rmtree(tree, ignore_errors=True)
    placing.replace(state.file(bundle.name, "unpacked"))
    return n_aside


def is_unpacked(bundle: Bundle, state: State) -> bool:
    """Was this very archive unpacked, and are its folders still there?"""
    done = state.file(bundle.name, "unpacked")
    if not done.is_file():
        return False
    with done.open(encoding="utf-8") as lines:
        try:
            if json.loads(next(lines, "{}")).get("archive") != bundle.identity:
                return False
        except (ValueError, AttributeError):
            return False
    seen: set[str] = set()
    for _, _, name in _files(done):
        folder = name.rpartition("/")[0]
        if folder not in seen and not (bundle.folder / name).is_file():
            return False
        seen.add(folder)
    return True


def unpacked_faults(bundle: Bundle, state: State, saw: Callable[[int], None]) -> list[str]:
    """Files that are missing or not as they were unpacked. Reads all of them."""
    done = state.file(bundle.name, "unpacked")
    return [
        name
        for crc, n, name in _files(done)
        if not _is_same(bundle.folder / name, crc, n, saw)
    ]  # fmt: skip


def _files(done: Path) -> Iterator[tuple[int, int, str]]:
    with done.open(encoding="utf-8") as lines:
        next(lines, "")
        yield from map(parse_line, lines)


def _is_same(path: Path, crc: int, n: int, saw: Callable[[int], None]) -> bool:
    if not path.is_file() or path.stat().st_size != n:
        return False
    found = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found = zlib.crc32(block, found)
            saw(len(block))
    return found == crc


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
