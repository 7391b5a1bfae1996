"""Which of the user's own files is a model made of, and have they changed?

A model's weights may be files or folders that someone edits, and libraries that compute with them
are updated; content and versions belong to the model's identity.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from fieldmark import draws
from fieldmark.code import Digest, file_digest
from fieldmark.models._name import ModelName

DISTRIBUTIONS = {
    "open_clip": "open_clip_torch",
    "timm": "timm",
    "torch": "torch",
    "torchvision": "torchvision",
    "transformers": "transformers",
}
"""packages whose code decides what a network computes, and the names they are installed under"""


def path_digest(path: Path, digest: Digest = file_digest) -> str:
    """A hash of a file's bytes, or of all files below a folder with their names in it; hidden ones
    do not count.
    """
    if not path.is_dir():
        return digest(path).hex()
    names: dict[str, bytes] = {}
    met: set[str] = set()
    for place, folders, files in os.walk(path, followlinks=True):
        real = os.path.realpath(place)
        kept = [each for each in folders if each[0] != "." and each != "__pycache__"]
        folders[:] = kept if real not in met else []
        met.add(real)
        paths = [Path(place, each) for each in files if each[0] != "."]
        names |= {each.relative_to(path).as_posix(): digest(each) for each in paths}
    return draws.digest(*(part for name in sorted(names) for part in (name, names[name]))).hex()


def options_content(name: ModelName, digest: Digest = file_digest) -> list[tuple[str, str]]:
    """The options in order; a file or folder counts by its content, not by its place."""
    contents = []
    for key, text in sorted(name.options.items()):
        path = Path(text).expanduser()
        contents.append((key, f"content {path_digest(path, digest)}" if path.exists() else text))
    return contents


@lru_cache(maxsize=64)
def library_version(package: str) -> str:
    """The installed version, without an import; "" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTIONS.get(package, package))
    except PackageNotFoundError:
        return ""
