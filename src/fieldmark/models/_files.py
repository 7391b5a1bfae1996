"""Which of the user's own files is a model made of, and have they changed?

A model's code or weights may be files that someone edits; their bytes then belong to the model's
identity.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from fieldmark.models._name import ModelName


def option_files(name: ModelName) -> list[Path]:
    """The files that a user's options name, if any: their content is part of the model."""
    paths = [Path(name.options[key]).expanduser() for key in sorted(name.options)]
    return [path.resolve() for path in paths if path.is_file()]


def hash_path(path: Path) -> str:
    """A hash of a file's bytes, or of the files directly in a folder; read again only when they
    change.
    """
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    stamps = tuple((str(each), each.stat().st_mtime_ns, each.stat().st_size) for each in files)
    return _hash_files(stamps)


@lru_cache(maxsize=256)
def _hash_files(stamps: tuple[tuple[str, int, int], ...]) -> str:
    total = hashlib.blake2b(digest_size=8)
    for text, _, _ in stamps:
        with Path(text).open("rb") as stream:
            content = hashlib.file_digest(stream, hashlib.blake2b).digest()
        total.update(Path(text).name.encode() + b"\0" + content)
    return total.hexdigest()
