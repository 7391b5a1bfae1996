"""Adapter: what stands between a class that somebody else wrote and the contract of a model?

Anything with `transform`, `embed_images` and `dim` will do, and `embed_texts` makes it a dual
encoder. What it lacks is supplied, what it gets wrong is said in one line when it is loaded, not
hours later.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.errors import ModelError, naming_model
from fieldmark.models._backbone import Features

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

NEEDED = {
    "transform": "a method: an RGB PIL image in, an array out",
    "embed_images": "a method: stacked transform results in, features (n × dim) out",
    "dim": "the length of a feature, a whole number above 0",
}


_NOT_ALIKE = 0.03
"""share of its length by which a feature may differ with the size of the batch (bf16: 0.8 %)"""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a model of the user's turned out to rest on."""

    key: str
    """of what is known without loading it: code, options, versions of libraries"""
    folder: Path
    """of its own file"""
    files: tuple[tuple[Path, str], ...]
    """that its code names, with their content"""
    is_known: bool
    """does its source tell which files it reads?"""
    precision: str
    """the arithmetic, where the model asked for one"""
    decode: str = ""
    """how its photos are read, where the model asked"""


TEST_TEXTS = (
    "",
    "a photo of Lynx lynx.",
    "A PHOTO OF Lynx lynx.",
    "Animalia Chordata Mammalia Carnivora Felidae Lynx lynx with common name Eurasian lynx",
    "  two  spaces,\ta tab\nand a line ",
    "Ångström's naïve pöchard × Ο αετός, 雪豹 (снежный барс) 🐆",
    "don't; it's 12.5 °C & <b>50&nbsp;%</b>",
    "Paraphyllanthoclavarioides-pseudopolychromaticus",
    " ".join(f"word{number}" for number in range(200)),
)
"""for tokenisers: cases, blanks, scripts, marks, a word nobody knows, and more than fits"""
LOGIT_SCALE = 100.0
"""where a class gives none: the most that CLIP's training allows, and what most of them end at"""


def wrap(built: Any, name: str) -> UserBackbone:
    """The object behind the contract, as far as that can be checked without using it."""
    _check(built, name)
    if not hasattr(built, "embed_texts"):
        return UserBackbone(built, name)
    if not type(built).__module__.startswith("fieldmark."):
        _check_dual(built, name)
    return UserDual(built, name)


class UserBackbone:
    """Someone's object, with what the contract wants around it; other attributes are the object's
    own.
    """

    basis: Basis | None = None
    """None for a ready model of ours"""
    load_again: Callable[..., Any] | None = None
    """not that of the object: another process must wrap it too"""

    def __init__(self, inner: Any, name: str) -> None:
        self.inner = inner
        self.name = name
        self._behaviour: np.ndarray | None = None
        self._fingerprint = ""

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "inner":
            raise AttributeError(attribute)
        return getattr(self.inner, attribute)

    @property
    def dim(self) -> int:
        return operator.index(self.inner.dim)

    @property
    def fingerprint(self) -> str:
        """Of code, options, libraries, precision and the files that the code names. An author's
        own `fingerprint` stands for the files; the code counts all the same.
        """
        return self._fingerprint or str(self.inner.fingerprint)

    @property
    def decode(self) -> str:
        """How its photos are read: as `TorchBackbone` does, or by its own `transform`."""
        kinds = type(self.inner).__mro__
        is_ours = any(kind.__module__.startswith("fieldmark.models.") for kind in kinds)
        decode = getattr(self.inner, "decode", "")
        return decode if is_ours and decode in ("cpu", "gpu") else "reference"

    def behaviour(self) -> np.ndarray | None:
        """float32, test pictures × dim: its features when it was loaded. They tell of a change
        that nothing else shows.
        """
        return self._behaviour

    def stand_apart(self, fingerprint: str) -> None:
        """Takes another fingerprint: one that did otherwise has had this one."""
        self._fingerprint = fingerprint

    def set_identity(self, fingerprint: str, basis: Basis) -> None:
        """Takes what it turned out to be, once it has been built and has looked."""
        self._fingerprint, self.basis = fingerprint, basis

    def look(self) -> None:
        """Embeds the test pictures: what cannot see is refused, what is loaded late is loaded."""
        import numpy as np

        arrays = []
        for picture in test_pictures():
            size = f"{picture.width} × {picture.height} px"
            with naming_model(self.name, f"transform of a test picture of {size}"):
                arrays.append(self.transform(picture))
        shapes = sorted({array.shape for array in arrays})
        if len(shapes) > 1:
            raise ModelError(
                f"model {self.name!r}: transform gave arrays of the shapes {shapes[0]} and "
                f"{shapes[1]}, expected one shape for all images."
            )
        batch = np.stack(arrays)
        with naming_model(self.name, "embed_images"):
            self._behaviour = together = self.embed_images(batch).pooled
        with naming_model(self.name, "embed_images of a single image"):
            (alone,) = self.embed_images(batch[:1]).pooled
        gap, length = np.linalg.norm(alone - together[0]), np.linalg.norm(together[0])
        if np.isfinite(gap) and gap > _NOT_ALIKE * length:
            raise ModelError(
                f"model {self.name!r}: embed_images gives an image other features alone than in a "
                "batch. Features must not depend on other images or on chance: does a network "
                "lack `.eval()`?"
            )

    def transform(self, image: Image.Image) -> np.ndarray:
        import numpy as np

        return np.asarray(self.inner.transform(image))

    def embed_images(self, batch: np.ndarray, *, patches: bool = False) -> Features:
        """Also takes a bare array, or (pooled, patches), from the inner object."""
        import numpy as np

        if len(batch) == 0:
            return Features(np.zeros((0, self.dim), np.float32))
        takes = "patches" in inspect.signature(self.inner.embed_images).parameters
        result = self.inner.embed_images(batch, **({"patches": patches} if takes else {}))
        if isinstance(result, Features):
            pooled, tokens = result.pooled, result.patches
        else:
            pooled, tokens = result if isinstance(result, tuple) else (result, None)
        pooled = np.ascontiguousarray(pooled, dtype=np.float32)
        if pooled.shape != (len(batch), self.dim):
            raise ModelError(
                f"model {self.name!r}: embed_images gave shape {pooled.shape} for {len(batch)} "
                f"images, expected {(len(batch), self.dim)} (`dim` is {self.dim})."
            )
        return Features(pooled, None if tokens is None else np.asarray(tokens, np.float32))


class UserDual(UserBackbone):
    """One that embeds texts too. Only `embed_texts` is needed; the rest has defaults."""

    @property
    def text_fingerprint(self) -> str:
        """The model's own where it brings one, beside what `fingerprint` knows of it; else just
        that.
        """
        of_texts = str(getattr(self.inner, "text_fingerprint", ""))
        if of_texts and self._fingerprint:
            return draws.digest("user text", self._fingerprint, of_texts).hex()
        return of_texts or self.fingerprint

    @property
    def logit_scale(self) -> float:
        return float(getattr(self.inner, "logit_scale", LOGIT_SCALE))

    @property
    def logit_bias(self) -> float | None:
        bias = getattr(self.inner, "logit_bias", None)
        return None if bias is None else float(bias)

    @property
    def text_limit(self) -> int | None:
        limit = getattr(self.inner, "text_limit", None)
        return None if limit is None else operator.index(limit)

    @property
    def projectors(self) -> tuple[str, ...]:
        return tuple(getattr(self.inner, "projectors", ()))

    def projected(self, projector: str) -> UserBackbone:
        name = f"{self.name}{'&' if '?' in self.name else '?'}projector={projector}"
        twin = wrap(self.inner.projected(projector), name)
        if self._fingerprint:
            twin.stand_apart(draws.digest("projector", self._fingerprint, projector).hex())
        return twin

    def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        count = getattr(self.inner, "count_tokens", None)
        if count is None:
            return None
        counts = [operator.index(number) for number in count(list(texts))]
        if len(counts) != len(texts):
            raise ModelError(
                f"model {self.name!r}: count_tokens gave {len(counts)} numbers for {len(texts)} "
                "texts, expected one for each."
            )
        return counts

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        import numpy as np

        if len(texts) == 0:
            return np.zeros((0, self.dim), np.float32)
        features = np.ascontiguousarray(self.inner.embed_texts(list(texts)), dtype=np.float32)
        if features.shape != (len(texts), self.dim):
            raise ModelError(
                f"model {self.name!r}: embed_texts gave shape {features.shape} for {len(texts)} "
                f"texts, expected {(len(texts), self.dim)} (`dim` is {self.dim})."
            )
        bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
        if len(bad):
            raise ModelError(
                f"model {self.name!r}: embed_texts gave a number that is not finite for the text "
                f"{texts[bad[0]][:40]!r}."
            )
        return features

    def look(self) -> None:
        import numpy as np

        super().look()
        with naming_model(self.name, "embed_texts"):
            features = self.embed_texts(TEST_TEXTS)
        with naming_model(self.name, "count_tokens"):
            self.count_tokens(TEST_TEXTS)
        assert self._behaviour is not None
        self._behaviour = np.concatenate([self._behaviour, features])


def _check(built: Any, name: str) -> None:
    for attribute, meaning in NEEDED.items():
        value = getattr(built, attribute, None)
        is_good = _is_dim(value) if attribute == "dim" else callable(value)
        if is_good:
            continue
        what = "has no" if value is None else f"has an unusable {value!r} as"
        raise ModelError(
            f"model {name!r}: {type(built).__name__} {what} `{attribute}`, expected {meaning}."
        )
    fingerprint = getattr(built, "fingerprint", "none")
    if not isinstance(fingerprint, str) or not fingerprint:
        raise ModelError(
            f"model {name!r}: `fingerprint` is {fingerprint!r}, expected text that changes with "
            "the weights (or none at all: then one is made from code, files and state)."
        )


def _check_dual(built: Any, name: str) -> None:
    for attribute, (is_good, meaning) in DUAL.items():
        value = getattr(built, attribute, None)
        if value is None and attribute != "embed_texts":
            continue
        if not is_good(value):
            raise ModelError(
                f"model {name!r}: {type(built).__name__} has an unusable {value!r} as "
                f"`{attribute}`, expected {meaning}."
            )


def _is_scale(value: Any) -> bool:
    return _is_number(value) and float(value) > 0


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, ValueError):
        return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_dim(value: Any) -> bool:
    try:
        return operator.index(value) > 0
    except TypeError:
        return False


DUAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    "embed_texts": (callable, "a method: a list of texts in, features (n × dim) out"),
    "count_tokens": (callable, "a method: a list of texts in, how many tokens each needs"),
    "logit_scale": (_is_scale, "a number above 0 that cosines are multiplied by"),
    "logit_bias": (_is_number, "a number, or None where the model has none"),
    "text_limit": (_is_dim, "how many tokens it reads, or None where there is no limit"),
    "text_fingerprint": (_is_text, "text that changes with what embeds texts"),
}


@lru_cache(maxsize=1)
def test_pictures() -> tuple[Image.Image, ...]:
    """Noise, a gradient, a tall and a wide picture; always the same."""
    import numpy as np
    import PIL.Image

    rows, columns = np.mgrid[0:480, 0:640]
    planes = (rows * columns // 7, rows * 3 + columns, rows - columns * 2)
    pattern = np.stack([plane % 256 for plane in planes], axis=-1).astype(np.uint8)
    slope = np.stack([rows // 2, columns * 2 // 5, 255 - rows // 2], axis=-1).astype(np.uint8)
    noise = draws.generator("test picture").integers(0, 256, (256, 256, 3), dtype=np.uint8)
    arrays = (noise, slope[:257, :331], pattern[:, :240], pattern[:224])
    return tuple(PIL.Image.fromarray(np.ascontiguousarray(array)) for array in arrays)
