"""Fidelity of the decode paths: the features of every image are those of the exact way, and a probe
learns the same from them.

One mixed set of files: sizes from 8 × 8 to a panorama, grey, CMYK, turned by EXIF, every sampling
of colour, progressive, alpha, 16 bits, palettes, WebP, TIFF, and crops. A new path is one more
entry of `PATHS`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from fieldmark.data import crop_image, open_image
from fieldmark.models import Recipe, load_model
from fieldmark.probes import load_probe

pytest.importorskip("torch")
pytest.importorskip("timm")

Crop = tuple[float, float, float, float] | None
MODELS = [
    "timm/test_vit?pretrained=false",
    "timm/test_resnet?pretrained=false",
]
MIN_COSINE = 0.9995
ORIENTATION = 0x0112


def reference(files: list[tuple[bytes, Crop]], recipe: Recipe) -> list[np.ndarray]:
    wholes = [(open_image(data), crop) for data, crop in files]
    return [recipe(image if crop is None else crop_image(image, crop)) for image, crop in wholes]


def cpu(files: list[tuple[bytes, Crop]], recipe: Recipe) -> list[np.ndarray]:
    from fieldmark.embed.cpu_decode import decode

    seen = [decode(data, recipe, [crop]) for data, crop in files]
    return [arrays[0] for arrays in seen if arrays is not None]


class DecodePath(NamedTuple):
    pixels: Callable[[list[tuple[bytes, Crop]], Recipe], list[np.ndarray]]
    max_off: int
    """grey levels; one value of an image may be one further away"""


PATHS = {"cpu": DecodePath(cpu, 1)}


# --- the mixed set ---


def scene(width: int, height: int, seed: int, hue: int = 0) -> Image.Image:
    """Soft shapes of one colour, hard edges and grain."""
    rng = np.random.default_rng([seed, width, height])
    coarse = rng.integers(40, 216, (5, 6, 3))
    coarse[..., hue % 3] += 39
    soft = Image.fromarray(coarse.astype(np.uint8)).resize((width, height), 3)
    pixels = np.asarray(soft, float) + rng.normal(0, 5, (height, width, 3))
    for _ in range(6):
        top, left = rng.integers(0, height), rng.integers(0, width)
        pixels[top : top + height // 4 + 1, left : left + width // 30 + 1] = rng.integers(0, 256, 3)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def encoded(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


@cache
def mixed_set() -> dict[str, tuple[bytes, Crop]]:
    """name → file, and the part of it that is seen"""
    files: dict[str, tuple[bytes, Crop]] = {}
    sizes = [(500, 375), (375, 500), (333, 499), (1600, 1200), (2400, 180), (150, 1300), (120, 90),
             (8, 8), (224, 224), (641, 480)]  # fmt: skip
    for seed, (width, height) in enumerate(sizes):
        files[f"{width}x{height}"] = encoded(scene(width, height, seed), quality=90), None
    for orientation in range(1, 9):
        image = scene(480, 361, orientation)
        files[f"turned {orientation}"] = encoded(image, exif=turned(orientation)), None
        crop = (33.0, 20.5, 300.0, 330.0)
        files[f"turned {orientation}, crop"] = encoded(image, exif=turned(orientation)), crop
    photo = scene(520, 390, 50)
    for number, sampling in enumerate(("4:4:4", "4:2:2", "4:2:0")):
        files[sampling] = encoded(photo, subsampling=number), None
        data = encoded(photo, subsampling=number, progressive=True)
        files[f"{sampling} progressive"] = data, None
    files["low quality"] = encoded(photo, quality=20), None
    files["grey"] = encoded(photo.convert("L")), None
    files["grey progressive"] = encoded(photo.convert("L"), progressive=True), None
    files["CMYK"] = encoded(photo.convert("CMYK")), None
    alpha = photo.copy()
    alpha.putalpha(scene(520, 390, 51).convert("L"))
    files["alpha"] = encoded(alpha, "PNG"), None
    deep = np.asarray(photo.convert("L")).astype(np.uint16) * 257
    files["16 bits"] = encoded(Image.fromarray(deep), "PNG"), None
    files["palette"] = encoded(photo.quantize(64), "PNG"), None
    files["WebP"] = encoded(photo, "WEBP", quality=85), None
    files["WebP alpha, turned"] = encoded(alpha, "WEBP", exif=turned(6)), None
    files["TIFF, turned"] = encoded(photo, "TIFF", exif=turned(3)), None
    for crop in ((5.0, 7.0, 460.0, 350.0), (200.0, 100.0, 40.0, 60.0), (-9.0, -9.0, 999.0, 200.0)):
        files[f"crop {crop}"] = encoded(photo, quality=95), crop
    return files


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
