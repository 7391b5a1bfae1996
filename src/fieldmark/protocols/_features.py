"""Features (embeddings) of rows: what does a backbone say of the items of a task?

Every image that any row needs is embedded once; the frames of a clip become one vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from fieldmark.data import ImageRef
from fieldmark.embed import DeviceWorkers, Embedded, EmbedOptions, devices_for, embed
from fieldmark.errors import DataError
from fieldmark.progress import Progress
from fieldmark.protocols._question import Workspace, refs_of

if TYPE_CHECKING:
    from fieldmark.models import Backbone


def embed_options(workspace: Workspace) -> EmbedOptions:
    """How images and texts are embedded in this command."""
    settings = workspace.settings
    devices = devices_for(settings.device)
    workers: DeviceWorkers = workspace.once(("workers", devices), lambda: DeviceWorkers(devices))
    return EmbedOptions(
        settings.cache,
        settings.n_threads,
        settings.batch_size,
        settings.bad_images,
        workspace.contents,
        workers,
        leases=bool(workspace.shared.get("leases")),
    )


@dataclass(frozen=True, slots=True)
class RowFeatures:
    """Features by item id."""

    features: np.ndarray
    """float32, rows × dim"""
    row_of: dict[str, int]
    """id → row, for the items that can be read"""
    bad: dict[str, str]
    """image → why it cannot be read"""
    keys: dict[ImageRef, bytes]
    """what stands for the content of each image"""

    def readable(self, rows: pl.DataFrame, none_of: str) -> pl.DataFrame:
        """The rows that have features; `none_of` begins the error when none has."""
        kept = rows.filter(pl.col("id").is_in(list(self.row_of)))
        if kept.is_empty():
            image, why = next(iter(self.bad.items()))
            problem = f"{none_of.format(len(rows))} images can be read (first: {image} {why})."
            raise DataError(problem)
        return kept

    def matrix(self, rows: pl.DataFrame) -> np.ndarray:
        return self.features[[self.row_of[item] for item in rows["id"]]]


def embed_rows(
    model: Backbone,
    root: Path,
    rows: pl.DataFrame,
    options: EmbedOptions,
    progress: Progress,
    pool: Literal["mean", "max"] = "mean",
) -> RowFeatures:
    """Features of the rows; a clip's frames that cannot be read are left out of it."""
    refs = refs_of(rows)
    flat = [ref for images in refs for ref in images]
    embedded = embed(model, root, flat, options, progress)
    sizes = np.array([len(images) for images in refs])
    features, is_ok = embedded.features, embedded.is_ok
    if (sizes != 1).any():
        features, is_ok = _pooled(embedded, sizes, pool)
    ids = rows.get_column("id").to_list()
    row_of = {item: row for row, item in enumerate(ids) if is_ok[row]}
    return RowFeatures(features, row_of, embedded.bad, embedded.keys)


def _pooled(
    embedded: Embedded, sizes: np.ndarray, pool: Literal["mean", "max"]
) -> tuple[np.ndarray, np.ndarray]:
    """One vector per clip: the mean or the largest value over its readable frames."""
    features = np.full((len(sizes), embedded.features.shape[1]), np.nan, np.float32)
    is_ok = np.zeros(len(sizes), bool)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for row, (start, stop) in enumerate(pairwise(starts)):
        frames = embedded.features[start:stop][embedded.is_ok[start:stop]]
        if len(frames):
            features[row] = frames.mean(axis=0) if pool == "mean" else frames.max(axis=0)
            is_ok[row] = True
    return features, is_ok
