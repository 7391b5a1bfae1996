"""Provenance mark: was what lies in a folder drawn by fieldmark, or is it a real dataset?

`make` of every dataset leaves `SYNTHETIC.txt` beside what it drew (`load_dataset` sees to that).
The mark covers its folder and all folders below it, for as long as it is there: real photos that
somebody adds later are called synthetic too, until the mark is removed. The other way round,
drawings could pass for photos. Equal makes write equal marks.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.files import hash_file

if TYPE_CHECKING:
    from fieldmark.world import World

MARK = "SYNTHETIC.txt"


def write_mark(root: Path, world: World) -> None:
    """Says of everything in the folder that it was drawn, and which files that were."""
    about = f"Drawn by fieldmark, seed {world.seed}, difficulty {world.difficulty}: no real photos."
    text = f"{about}\nfiles: {_content(root)}\n"
    (root / MARK).write_text(text, encoding="utf-8", newline="\n")


def is_synthetic(root: Path) -> bool:
    """Does the folder, or one that holds it, have the mark?"""
    folder = root.absolute()
    return any((above / MARK).is_file() for above in (folder, *folder.parents))


def is_as_drawn(root: Path) -> bool:
    """Does the folder hold just the files that its mark speaks of? Reads all of them."""
    mark = root / MARK
    if not mark.is_file():
        return False
    text = mark.read_text(encoding="utf-8", errors="replace")
    return text.partition("files: ")[2].strip() == _content(root)


def _content(root: Path) -> str:
    """How many files there are, and a hash of their names and bytes."""
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    files.pop(MARK, None)
    hasher = hashlib.blake2b(digest_size=16)
    for name in sorted(files):
        hasher.update(name.encode("utf-8", "surrogatepass") + b"\0" + hash_file(files[name]))
    return f"{len(files)} {hasher.hexdigest()}"
