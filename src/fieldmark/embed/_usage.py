"""What is in the feature cache, how large is it, and how is it emptied?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fieldmark.data import ImageRef
from fieldmark.embed._content import Contents
from fieldmark.embed._rows import (
    count_rows,
    delete_features,
    is_features,
    read_about,
    read_keys,
)
from fieldmark.errors import DataError

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class ModelCache:
    """The features of one model fingerprint."""

    model: str
    fingerprint: str
    n_features: int
    n_bytes: int
    dim: int
    images_per_s: float | None
    """how fast they were computed the last time"""
    folder: Path


def cached_models(cache: Path, model: str = "") -> list[ModelCache]:
    """Every model with features in the cache (those whose name contains `model`), largest first."""
    found = []
    for folder in sorted((cache / "features").glob("*")):
        about = read_about(folder) or {}
        name = str(about.get("model", "unknown"))
        if is_features(folder) and model in name:
            n_bytes = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
            found.append(
                ModelCache(
                    name,
                    folder.name,
                    count_rows(folder),
                    n_bytes,
                    _number(about.get("dim"), int) or 0,
                    _number(about.get("images_per_s"), float),
                    folder,
                )
            )
    return sorted(found, key=lambda each: (-each.n_bytes, each.model))


def speed_of(cache: Path, fingerprint: str) -> float | None:
    """Images per second when features of this model were last computed; None: never here."""
    about = read_about(cache / "features" / fingerprint) or {}
    return _number(about.get("images_per_s"), float)


def _number(value: object, kind: Callable[[Any], N]) -> N | None:
    """A damaged `model.json` is a cache file like others: what it says may be nonsense."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind(value) if is_number else None


def count_missing(
    contents: Contents, known: ModelCache | None, root: Path, items: Sequence[ImageRef]
) -> int:
    """How many features would have to be computed, as far as can be told without reading images.

    A file whose content is not known counts as missing.
    """
    if known is None:
        return len(set(items))
    keys, have = contents.keys(root, items), read_keys(known.folder)
    return sum(keys.get(ref) not in have for ref in set(items))


def clean_cache(cache: Path, model: str = "") -> list[ModelCache]:
    """Deletes the features of the models whose name contains `model` ("" = all); returns them."""
    gone = cached_models(cache, model)
    try:
        for each in gone:
            delete_features(each.folder)
        if not model and cache.is_dir():
            (cache / "content.db").unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{cache}  cannot be cleaned: {error.strerror or error}.") from error
    return gone
