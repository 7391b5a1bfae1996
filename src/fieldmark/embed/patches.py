"""Patch features (patch tokens): how do a model's patches become one feature of the image?

Pooled, they take the place of an image's feature: mean and maximum over the patches, side by side.
The mean says what the picture is made of, the maximum what occurs in it anywhere, such as a fin
that covers a few patches only. They are pooled before they are stored, under a fingerprint of their
own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmark import draws
from fieldmark.embed.work import decode_of
from fieldmark.errors import ModelError

if TYPE_CHECKING:
    from PIL import Image

    from fieldmark.models import Backbone, Features

VERSION = 1


def patch_name(model: str) -> str:
    """What the pooled patches of a model are called in the cache."""
    return f"{model} patches"


def patch_fingerprint(fingerprint: str) -> str:
    """Where the pooled patches of a model with this fingerprint are kept."""
    return draws.digest("patches mean max", VERSION, fingerprint).hex()


class PatchFeatures:
    """A backbone whose feature is what its patches say: their mean and maximum."""

    def __init__(self, model: Backbone) -> None:
        self.inner: Any = model
        self.name = patch_name(model.name)
        self.wants_full_batches = getattr(model, "wants_full_batches", False)
        self.fingerprint = patch_fingerprint(model.fingerprint)
        self.decode = decode_of(model)
        again = getattr(model, "load_again", None)
        self.load_again = partial(_load_patch_features, again) if again else None

    @cached_property
    def batch_size(self) -> int:
        return int(getattr(self.inner, "batch_size", 16))

    @cached_property
    def dim(self) -> int:
        """Measured with one grey image, where the model is here."""
        if hasattr(self.inner, "kept_dim"):
            return int(self.inner.kept_dim(self.fingerprint))
        import PIL.Image

        grey = PIL.Image.new("RGB", (256, 256), (128, 128, 128))
        return int(self.embed_images(np.stack([self.transform(grey)])).pooled.shape[1])

    @property
    def preprocess(self) -> Any:
        return self.inner.preprocess

    @property
    def device(self) -> Any:
        return getattr(self.inner, "device", "cpu")

    def transform(self, image: Image.Image) -> np.ndarray:
        return np.asarray(self.inner.transform(image))

    def embed_pixels(self, pixels: Any) -> Any:
        """As `embed_images`, of what is on the device already."""
        import torch

        return _pooled(self._checked(self.inner.embed_pixels(pixels, patches=True)), torch)

    def embed_images(self, batch: np.ndarray) -> Features:
        # Patches must be asked for where a model can leave them out.
        takes = "patches" in inspect.signature(self.inner.embed_images).parameters
        features: Features = self.inner.embed_images(batch, **({"patches": True} if takes else {}))
        pooled = _pooled(self._checked(features.patches), np)
        return type(features)(np.ascontiguousarray(pooled, np.float32))

    def _checked(self, patches: Any) -> Any:
        if patches is None or patches.ndim != 3 or not patches.shape[1]:
            raise ModelError(
                f"model {self.inner.name!r} gives no patch features: take one that does (a "
                "network of timm, open-clip or hf), or `features: image` in the probe block."
            )
        return patches


def _pooled(patch_npw: Any, library: Any) -> Any:
    """One vector per image; by numpy, or by torch on its device."""
    return library.concatenate([library.mean(patch_npw, 1), library.amax(patch_npw, 1)], 1)


def _load_patch_features(load: Callable[..., Backbone], **how: Any) -> PatchFeatures:
    """In another process."""
    return PatchFeatures(load(**how))
