"""Classical image features (colour histograms, HOG, local binary patterns, moments), untrained.

Each function takes height × width × 3 bytes and returns one vector. Counts are turned into square
roots of shares (the Hellinger map), so that a linear probe compares histograms as distributions.
Orientation histograms after Dalal & Triggs 2005, binary patterns after Ojala et al. 2002.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldmark import draws
from fieldmark.errors import UsageError
from fieldmark.models._backbone import Features, Recipe

if TYPE_CHECKING:
    from PIL import Image


Vector = np.ndarray
Pixels = np.ndarray

N_ORIENTATIONS = 9
N_CELLS = 8
N_CHANCE = 64
N_SECTORS = 32


def colour(pixels: Pixels) -> Vector:
    """Histograms of the colour cube, hue, saturation and brightness, and moments: whole picture
    and middle.
    """
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    high, low = planes.max(axis=0), planes.min(axis=0)
    spread = (high - low).astype(np.float64)
    quarter = (planes >> 6).astype(np.intp)
    # Which of 24 parts of the colour circle a pixel lies in.
    red, green, blue = planes.astype(np.float64)
    safe = np.maximum(spread, 1.0)
    sixth = np.where(high == green, (blue - red) / safe + 2, (red - green) / safe + 4)
    sixth = np.where(high == red, (green - blue) / safe, sixth)
    bins = {
        64: quarter[0] * 16 + quarter[1] * 4 + quarter[2],
        24: np.asarray(np.floor(sixth * 4).astype(np.intp) % 24),
        8: (spread * 8 / (high + 1.0)).astype(np.intp),
        16: (high >> 4).astype(np.intp),
    }
    height, width = high.shape
    whole = (slice(None), slice(None))
    middle = (slice(height // 4, -(height // 4)), slice(width // 4, -(width // 4)))
    parts = []
    for part in (whole, middle):
        for n_bins, index in bins.items():
            weights = spread[part].ravel() if n_bins == 24 else None  # grey pixels have no hue
            parts.append(_share(np.bincount(index[part].ravel(), weights, minlength=n_bins)))
        # Mean, spread and skewness of each channel, and how red goes with green and blue.
        values = planes[(slice(None), *part)].reshape(3, -1) / 255
        mean = values.mean(axis=1)
        centred = values - mean[:, None]
        squares = centred * centred
        spreads = np.sqrt(squares.mean(axis=1))
        skews = np.cbrt((squares * centred).mean(axis=1))
        products = [(centred[0] * centred[other]).mean() for other in (1, 2)]
        parts.append(np.concatenate([mean, spreads, skews, products]))
    return np.concatenate(parts)


def _share(counts: np.ndarray) -> Vector:
    return np.asarray(np.sqrt(counts / max(float(counts.sum()), 1e-12)))


def texture(pixels: Pixels) -> Vector:
    """Gradient orientations in 8 × 8 cells, and binary patterns at two scales."""
    grey = np.asarray(pixels @ np.array([0.299, 0.587, 0.114]))
    half = grey[: grey.shape[0] // 2 * 2, : grey.shape[1] // 2 * 2]
    half = (half[::2, ::2] + half[1::2, ::2] + half[::2, 1::2] + half[1::2, 1::2]) / 4
    return np.concatenate([_orientations(grey), _patterns(grey, 2), _patterns(half, 1)])


def _orientations(grey: np.ndarray) -> Vector:
    """Unsigned orientation histograms, each cell scaled by the energy of its 3 × 3 surroundings."""
    dy, dx = np.gradient(grey)
    strength = np.hypot(dx, dy)
    angle = np.arctan2(dy, dx) / np.pi % 1.0
    position = angle * N_ORIENTATIONS
    lower = position.astype(np.intp)
    upper_share = position - lower
    cell = _cells(*grey.shape) * N_ORIENTATIONS
    n_bins = N_CELLS * N_CELLS * N_ORIENTATIONS
    total = np.zeros(n_bins)
    for shift, weight in ((0, 1 - upper_share), (1, upper_share)):
        index = cell + (lower + shift) % N_ORIENTATIONS
        total += np.bincount(index.ravel(), weights=(strength * weight).ravel(), minlength=n_bins)
    cells = total.reshape(N_CELLS, N_CELLS, N_ORIENTATIONS)
    energy = np.pad((cells**2).sum(axis=2), 1)
    around = sum(
        energy[row : row + N_CELLS, column : column + N_CELLS]
        for row in range(3)
        for column in range(3)
    )
    scaled = cells / np.sqrt(around + 1e-3)[:, :, None]
    return np.asarray(np.minimum(scaled, 0.4).ravel())


@lru_cache(maxsize=8)
def _cells(height: int, width: int) -> np.ndarray:
    """The number of the cell that each pixel lies in."""
    rows, columns = np.arange(height) * N_CELLS // height, np.arange(width) * N_CELLS // width
    return np.asarray(rows[:, None] * N_CELLS + columns[None, :])


def _patterns(grey: np.ndarray, n_parts: int) -> Vector:
    """Uniform local binary patterns: one histogram for each of n × n parts of the picture."""
    centre = grey[1:-1, 1:-1]
    height, width = centre.shape
    code = np.zeros(centre.shape, np.uint8)
    ring = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
    for bit, (row, column) in enumerate(ring):
        neighbour = grey[row : row + height, column : column + width]
        code |= (neighbour >= centre).astype(np.uint8) << np.uint8(bit)
    kinds = _uniform_kinds()[code]
    n_kinds = 59
    part = (np.arange(height) * n_parts // height)[:, None] * n_parts + np.arange(
        width
    ) * n_parts // width
    counts = np.bincount((part * n_kinds + kinds).ravel(), minlength=n_parts**2 * n_kinds)
    parts = [_share(cell) for cell in counts.reshape(n_parts**2, n_kinds)]
    return np.concatenate(parts)


@lru_cache(maxsize=1)
def _uniform_kinds() -> np.ndarray:
    """58 patterns with at most two changes around the ring, and one kind for all the others."""
    changes = [bin(code ^ ((code >> 1) | (code & 1) << 7)).count("1") for code in range(256)]
    uniform = [code for code in range(256) if changes[code] <= 2]
    kinds = np.full(256, len(uniform), np.intp)
    kinds[uniform] = np.arange(len(uniform))
    return kinds


def pixels(image: Pixels) -> Vector:
    """The picture itself, from -1 to 1."""
    return np.asarray(image.astype(np.float64).ravel() / 127.5 - 1)


def shape(pixels: Pixels) -> Vector:
    """What differs from the border's usual colour: a coarse mask, its moments, and how far it
    reaches where.
    """
    values = pixels.astype(np.float64) / 255
    border = np.concatenate([values[0], values[-1], values[1:-1, 0], values[1:-1, -1]])
    distance = np.abs(values - np.median(border, axis=0)).sum(axis=2)
    mask = distance / max(float(distance.max()), 1e-9)
    rows, columns = np.linspace(-1, 1, mask.shape[0])[:, None], np.linspace(-1, 1, mask.shape[1])
    total = max(float(mask.sum()), 1e-9)
    y, x = float((mask * rows).sum() / total), float((mask * columns).sum() / total)
    powers = [(p, q) for p in range(4) for q in range(4) if 2 <= p + q <= 3]
    moments = [(mask * (rows - y) ** p * (columns - x) ** q).sum() / total for p, q in powers]
    coarse = _coarse(mask, 12)
    summary = np.array([mask.mean(), mask.std(), y, x, *moments])
    return np.concatenate([summary, _reach(mask, rows - y, columns - x), coarse])


def _coarse(mask: np.ndarray, n_side: int) -> Vector:
    rows = np.arange(mask.shape[0]) * n_side // mask.shape[0]
    columns = np.arange(mask.shape[1]) * n_side // mask.shape[1]
    index = (rows[:, None] * n_side + columns).ravel()
    sums = np.bincount(index, weights=mask.ravel(), minlength=n_side**2)
    return np.asarray(sums / np.maximum(np.bincount(index, minlength=n_side**2), 1))


def _reach(mask: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> Vector:
    """Mean distance from the centre of mass, by direction, weighted by the mask."""
    sector = ((np.arctan2(rows, columns) / (2 * np.pi) + 0.5) * N_SECTORS).astype(
        np.intp
    ) % N_SECTORS
    weights = np.bincount(sector.ravel(), weights=mask.ravel(), minlength=N_SECTORS)
    reach = mask * np.hypot(rows, columns)
    sums = np.bincount(sector.ravel(), weights=reach.ravel(), minlength=N_SECTORS)
    return np.asarray(sums / np.maximum(weights, 1e-9))


def together(pixels_128: Pixels) -> Vector:
    """All of them, each block scaled to the same weight, so that the longest does not drown the
    others.
    """
    half = _reduced(pixels_128, 2)
    blocks = [
        colour(half),
        texture(pixels_128),
        pixels(_reduced(pixels_128, max(1, pixels_128.shape[0] // 16))),
        shape(half),
    ]
    return np.concatenate([block / max(float(np.linalg.norm(block)), 1e-9) for block in blocks])


def _reduced(image: Pixels, step: int) -> Pixels:
    height, width = image.shape[0] // step * step, image.shape[1] // step * step
    tiles = image[:height, :width].reshape(height // step, step, width // step, step, 3)
    return np.asarray(tiles.mean(axis=(1, 3)).round().astype(np.uint8))


def chance(pixels: Pixels) -> Vector:
    """Noise that depends on the picture's bytes and says nothing else about it."""
    seed = hashlib.blake2b(np.ascontiguousarray(pixels).tobytes(), digest_size=16).hexdigest()
    return draws.generator("classical/chance", seed).standard_normal(N_CHANCE)


# --- Linear image–text model (canonical correlation analysis): pictures and words in one space.
# A picture is what `classical/all` measures of it, a text is the sum of its words, a word is
# itself and its character n-grams (as in fastText: Bojanowski et al. 2017), hashed into a fixed
# number of places. One matrix maps each side into the common space. Both were fitted once, by
# `benchmarks/fit_words.py`, and lie beside this file; what they know is the synthetic world. No
# torch, nothing to fetch.

VERSION = 1
WEIGHTS = Path(__file__).with_name("words.npz")
SIZE_PX = 128
N_PLACES = 2048
GRAM_LENGTHS = (3, 4, 5)
GRAM_WEIGHT = 0.5
MOST_WORDS = 65_536
"""remembered at once"""

RECIPE = Recipe((SIZE_PX, SIZE_PX), fit="squash", interpolation="box")


def measure(pixels: np.ndarray) -> np.ndarray:
    """What a picture is here, before the matrix."""
    return together(pixels).astype(np.float32)


def words_of(text: str) -> list[str]:
    """The different words of a text, in lower case and alphabetical order: neither their order nor
    how often they come counts.

    >>> words_of("Photo of a spotted-finch, a photo.")
    ['a', 'finch', 'of', 'photo', 'spotted']
    """
    return sorted(set(re.findall(r"\w+", text.lower())))


@lru_cache(maxsize=MOST_WORDS)
def places_of(word: str) -> tuple[tuple[int, float], ...]:
    """Where a word and its n-grams are counted, and with which weight and sign."""
    marked = f"<{word}>"
    grams = [
        marked[start : start + length]
        for length in GRAM_LENGTHS
        for start in range(len(marked) - length + 1)
    ]
    hashes = [(zlib.crc32(f"word {word}".encode()), 1.0)]
    hashes += [(zlib.crc32(gram.encode()), GRAM_WEIGHT) for gram in grams]
    return tuple(
        (number % N_PLACES, weight if number >> 31 else -weight) for number, weight in hashes
    )


class WordsModel:
    """A dual encoder of two matrices; no picture or text knows of any other."""

    batch_size = 64
    logit_bias: float | None = None
    text_limit: int | None = None
    projectors: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.name = "classical/words"
        content = WEIGHTS.read_bytes()
        with np.load(WEIGHTS) as held:
            self._image_centre, self._text_centre = held["image_centre"], held["text_centre"]
            self._image_map = held["image_map"] * held["image_step"]
            self._text_map = held["text_map"] * held["text_step"]
            self.logit_scale = float(held["logit_scale"])
        self._known: dict[str, np.ndarray] = {}
        self.dim = self._image_map.shape[1]
        parts = (VERSION, hashlib.blake2b(content, digest_size=16).hexdigest())
        self.fingerprint = draws.digest("words", *parts, RECIPE.describe()).hex()
        self.text_fingerprint = draws.digest("words text", *parts).hex()

    def transform(self, image: Image.Image) -> np.ndarray:
        return RECIPE(image)

    def embed_images(self, batch: np.ndarray) -> Features:
        pooled = np.zeros((len(batch), self.dim), np.float32)
        for row, pixels in zip(pooled, batch, strict=True):
            row[:] = (measure(pixels) - self._image_centre) @ self._image_map
        return Features(pooled)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(re.findall(r"\w+", text)) for text in texts]

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        features = np.tile(-self._text_centre, (len(texts), 1))
        for row, text in zip(features, texts, strict=True):
            for word in words_of(text):
                row += self._word(word)
        return features

    def _word(self, word: str) -> np.ndarray:
        if len(self._known) > MOST_WORDS:
            self._known.clear()
        if word not in self._known:
            columns, weights = zip(*places_of(word), strict=True)
            self._known[word] = np.array(weights, np.float32) @ self._text_map[list(columns)]
        return self._known[word]

    def projected(self, projector: str) -> WordsModel:
        raise UsageError(f"model {self.name!r} has no projector {projector!r}: it has only one.")
