"""What is in the feature cache, how large is it, and how is it emptied?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fieldmark.data import MEMORY
from fieldmark.embed._rows import (
    count_rows,
    delete_features,
    is_features,
    number,
    read_about,
)
from fieldmark.errors import DataError


@dataclass(frozen=True, slots=True)
class ModelCache:
    """The features of one model fingerprint."""

    model: str
    fingerprint: str
    n_features: int
    n_bytes: int
    dim: int
    images_per_s: float | None
    """how fast all of them together were computed"""
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
                    number(about.get("dim"), int) or 0,
                    number(about.get("images_per_s"), float),
                    folder,
                )
            )
    return sorted(found, key=lambda each: (-each.n_bytes, each.model))


def speed_of(cache: Path, fingerprint: str) -> float | None:
    """Images per second over all features of this model; None: none was computed here."""
    about = read_about(cache / "features" / fingerprint) or {}
    return number(about.get("images_per_s"), float)


def clean_cache(cache: Path, model: str = "") -> list[ModelCache]:
    """Deletes the features of the models whose name contains `model` ("" = all); returns them."""
    gone = cached_models(cache, model)
    try:
        for each in gone:
            delete_features(each.folder)
        if not model and cache.is_dir():
            (cache / MEMORY).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{cache}  cannot be cleaned: {error.strerror or error}.") from error
    return gone
