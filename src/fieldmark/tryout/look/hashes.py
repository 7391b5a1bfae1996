"""Perceptual hash (dHash) and picture statistics: what does a photo look like, in a few numbers?

A look is computed, cached and resumed as features are: `Looker` is a backbone like any other. It
holds a difference hash of 256 bits, brightness, contrast, colourfulness and sharpness, and the
photo as 32 × 32 grey pixels, with which a match of hashes is verified. Hashes of 64 bits match by
chance: 20,000 photos hold two pairs within 10 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldmark import draws
from fieldmark.models import Features, Recipe

if TYPE_CHECKING:
    from PIL import Image

VERSION = 1
SIZE_PX = 128
HASH_PX = 16
"""16 × 16 comparisons of neighbours: 256 bits, kept as 16 numbers of 16 bits"""
GREY_PX = 32
_BLOCK = 4096
_N_WORDS = HASH_PX * HASH_PX // 16
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


class Looker:
    """A backbone whose features are the look of a photo."""

    name = "look"
    batch_size = 64
    dim = _N_WORDS + 4 + GREY_PX * GREY_PX

    def __init__(self) -> None:
        self._recipe = Recipe((SIZE_PX, SIZE_PX), fit="squash", interpolation="box")
        self.fingerprint = draws.digest("look", VERSION, self._recipe.describe()).hex()

    def transform(self, image: Image.Image) -> np.ndarray:
        return self._recipe(image)

    def embed_images(self, batch: np.ndarray) -> Features:
        return Features(np.stack([_measure(pixels) for pixels in batch]))


def _measure(pixels_hwc: np.ndarray) -> np.ndarray:
    colour_hwc = pixels_hwc.astype(np.float32)
    grey_hw = colour_hwc @ _LUMA
    laplacian = (
        4 * grey_hw[1:-1, 1:-1]
        - grey_hw[:-2, 1:-1]
        - grey_hw[2:, 1:-1]
        - grey_hw[1:-1, :-2]
        - grey_hw[1:-1, 2:]
    )
    colourfulness = float((colour_hwc.max(axis=2) - colour_hwc.min(axis=2)).mean())
    numbers = (grey_hw.mean(), grey_hw.std(), colourfulness, laplacian.std())
    small = _shrink(grey_hw, GREY_PX, GREY_PX)
    return np.concatenate([_hash_words(grey_hw), numbers, small.ravel()]).astype(np.float32)


def _hash_words(grey_hw: np.ndarray) -> np.ndarray:
    """Is each of 16 × 17 patches brighter than the one on its left?"""
    # dHash: gradients survive other brightness, contrast and size.
    patches = _shrink(grey_hw, HASH_PX, HASH_PX + 1)
    bits = (patches[:, 1:] > patches[:, :-1]).reshape(-1, 16)
    return np.asarray(bits @ (1 << np.arange(16)))


def _shrink(grey_hw: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Area averages of a grid of about equal patches."""
    height, width = grey_hw.shape
    tops = np.arange(rows) * height // rows
    lefts = np.arange(columns) * width // columns
    # Sums of the rows from one edge to the next, then of the columns: no patch is copied out.
    sums = np.add.reduceat(np.add.reduceat(grey_hw, tops, axis=0), lefts, axis=1)
    n_rows, n_columns = np.diff(tops, append=height), np.diff(lefts, append=width)
    return np.asarray(sums / np.outer(n_rows, n_columns))


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of n photos."""

    hash_nw: np.ndarray
    """uint64, n × 4"""
    brightness_n: np.ndarray
    """0 to 255, as the next two"""
    contrast_n: np.ndarray
    colourfulness_n: np.ndarray
    """mean difference of the strongest and the weakest channel: near 0 for infrared photos"""
    sharpness_n: np.ndarray
    """spread of the Laplacian of the reduced photo; compare it within a set of photos only"""
    grey_np: np.ndarray
    """the 32 × 32 grey pixels"""

    @property
    def is_plain_n(self) -> np.ndarray:
        """Black, white or empty frames: their hashes say nothing."""
        n_bits = np.bitwise_count(self.hash_nw).sum(axis=1)
        share_n = n_bits / (HASH_PX * HASH_PX)
        return np.asarray((self.contrast_n < 5) | (share_n < 0.1) | (share_n > 0.9))

    def correlation(self, first_k: np.ndarray, second_k: np.ndarray) -> np.ndarray:
        """Of the grey pixels of pairs of photos, their means removed."""
        parts = [np.empty(0, np.float32)]
        for start in range(0, len(first_k), _BLOCK):  # the pixels of all pairs fill gigabytes
            pair = [self.grey_np[rows[start : start + _BLOCK]] for rows in (first_k, second_k)]
            a_kp, b_kp = (rows - rows.mean(axis=1, keepdims=True) for rows in pair)
            norms = np.sqrt((a_kp**2).sum(axis=1) * (b_kp**2).sum(axis=1))
            parts.append((a_kp * b_kp).sum(axis=1) / np.maximum(norms, 1e-9))
        return np.concatenate(parts)


def read_looks(features_nd: np.ndarray) -> Looks:
    """The looks that a Looker's features hold."""
    hash_words = np.ascontiguousarray(features_nd[:, :_N_WORDS].astype(np.uint16))
    begin, grey = _N_WORDS, _N_WORDS + 4
    # Copies: a view would keep the grey pixels of all photos for as long as one number of them.
    numbers = (features_nd[:, column].copy() for column in range(begin, grey))
    brightness, contrast, colourfulness, sharpness = numbers
    return Looks(
        hash_words.view(np.uint64),
        brightness,
        contrast,
        colourfulness,
        sharpness,
        features_nd[:, grey:],
    )
