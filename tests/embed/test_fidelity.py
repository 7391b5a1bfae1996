"""Fidelity of the decode paths: the features of every image are those of the exact way, and a probe
learns the same from them.

One mixed set of files: sizes from 8 × 8 to a panorama, grey, CMYK, turned by EXIF, every sampling
of colour, progressive, alpha, 16 bits, palettes, WebP, TIFF, and crops. A new path is one more
entry of `PATHS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from fieldmark.data import crop_image, open_image
from fieldmark.models import Recipe, load_model
from fieldmark.probes import load_probe
from kit.mixed_photos import Crop, encoded, mixed_set, scene

pytest.importorskip("torch")
pytest.importorskip("timm")

MODELS = [
    "timm/test_vit?pretrained=false",
    "timm/test_resnet?pretrained=false",
]
MIN_COSINE = 0.9995


def reference(files: list[tuple[bytes, Crop]], recipe: Recipe) -> list[np.ndarray]:
    wholes = [(open_image(data), crop) for data, crop in files]
    return [recipe(image if crop is None else crop_image(image, crop)) for image, crop in wholes]


def cpu(files: list[tuple[bytes, Crop]], recipe: Recipe) -> list[np.ndarray]:
    from fieldmark.embed.cpu.decode import decode

    seen = [decode(data, recipe, [crop]) for data, crop in files]
    return [arrays[0] for arrays in seen if arrays is not None]


class DecodePath(NamedTuple):
    pixels: Callable[[list[tuple[bytes, Crop]], Recipe], list[np.ndarray]]
    max_off: int
    """grey levels; one value of an image may be one further away"""


PATHS = {"cpu": DecodePath(cpu, 1)}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", MODELS)
def test_features_of_every_image(name: str, path: str) -> None:
    model = load_model(name, device="cpu", precision="float32")
    names, files = list(mixed_set()), list(mixed_set().values())
    exact = np.stack(reference(files, model.preprocess))
    ours = np.stack(PATHS[path].pixels(files, model.preprocess))
    assert far_pixels(names, exact, ours, PATHS[path].max_off) == {}
    one, two = (model.embed_images(pixels).pooled for pixels in (exact, ours))
    cosine = (one * two).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)
    assert {image: c for image, c in zip(names, cosine, strict=True) if c < MIN_COSINE} == {}


def far_pixels(
    names: list[str], exact: np.ndarray, ours: np.ndarray, max_off: int
) -> dict[str, tuple[int, int]]:
    """The images that are too far from the exact ones: by how much, and in how many values."""
    off = np.abs(exact.astype(int) - ours).reshape(len(names), -1)
    most, n_beyond = off.max(1), (off > max_off).sum(1)
    return {
        name: (int(most[row]), int(n_beyond[row]))
        for row, name in enumerate(names)
        if most[row] > max_off + 1 or n_beyond[row] > 1
    }


def test_another_filter_is_noticed() -> None:
    recipe = Recipe((160, 160))
    names, files = list(mixed_set()), list(mixed_set().values())
    exact = np.stack(reference(files, recipe))
    other = np.stack(reference(files, replace(recipe, interpolation="bilinear")))
    assert set(far_pixels(names, exact, other, 1)) == set(names)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_a_probe_learns_the_same(path: str) -> None:
    """Features of one path, a probe fitted on them: its accuracy differs from that of the exact
    way by less than two standard errors. Six kinds of scene, so that not all of it is easy.
    """
    model = load_model(MODELS[0], device="cpu", precision="float32")
    n_kinds, n_train, n_test = 6, 10, 20
    kinds = np.repeat(np.arange(n_kinds), n_train + n_test)
    is_train = np.tile(np.arange(n_train + n_test) < n_train, n_kinds)
    files: list[tuple[bytes, Crop]] = [
        (encoded(scene(300 + 60 * (kind // 3), 280, 100 + number, kind)), None)
        for number, kind in enumerate(kinds.tolist())
    ]
    right = {}
    for way, pixels in (("reference", reference), (path, PATHS[path].pixels)):
        features = model.embed_images(np.stack(pixels(files, model.preprocess))).pooled
        probe = load_probe("ridge").fit(features[is_train], kinds[is_train])
        right[way] = probe.predict(features[~is_train]) == kinds[~is_train]
    exact, ours = right["reference"], right[path]
    assert 1.5 / n_kinds < exact.mean() < 1
    error = (exact.mean() * (1 - exact.mean()) / exact.size) ** 0.5
    assert abs(exact.mean() - ours.mean()) <= 2 * error
    assert (exact == ours).mean() > 0.95
