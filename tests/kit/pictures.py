"""Small pictures for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from fieldmark.data import MARK


def mark_drawn(folder: Path) -> Path:
    """Says of a folder what `make` says of its own: a mock may be asked about it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("Drawn by a test.\n")
    return folder


def write_image(path: Path, seed: int, size: tuple[int, int] = (24, 20)) -> Path:
    """A small picture whose colour follows the seed; other seeds, other bytes."""
    rng = np.random.default_rng(seed)
    base = np.array([60 * (seed % 4), 200 - 50 * (seed % 3), 40 + 30 * (seed % 5)])
    pixels = np.clip(base + rng.integers(0, 30, (*size[::-1], 3)), 0, 255).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path
