"""Linear image–text model (canonical correlation analysis): pictures and words in one space.

A picture is what `classical/all` measures of it, a text is the sum of its words, a word is itself
and its character n-grams (as in fastText: Bojanowski et al. 2017), hashed into a fixed number of
places. One matrix maps each side into the common space. Both were fitted once, by
`benchmarks/fit_words.py`, and lie beside this file; what they know is the synthetic world. No
torch, nothing to fetch.
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
from fieldmark.models._classical import picture

if TYPE_CHECKING:
    from PIL import Image

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
    return picture.together(pixels).astype(np.float32)


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
            places, weights = zip(*places_of(word), strict=True)
            self._known[word] = np.array(weights, np.float32) @ self._text_map[list(places)]
        return self._known[word]

    def projected(self, projector: str) -> WordsModel:
        raise UsageError(f"model {self.name!r} has no projector {projector!r}: it has one only.")
