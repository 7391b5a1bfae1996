"""Photos of all kinds that folders hold, for whoever decodes them: sizes from 8 × 8 to a panorama,
grey, CMYK, turned by EXIF, every sampling of colour, progressive, alpha, 16 bits, palettes, WebP,
TIFF, and crops.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from fieldmark.data import ImageRef

Crop = tuple[float, float, float, float] | None
ORIENTATION = 0x0112
NOT_FOR_THE_CARD = {
    "8x8", "4:4:4 progressive", "4:2:2 progressive", "4:2:0 progressive", "grey progressive",
    "CMYK", "alpha", "16 bits", "palette", "WebP", "WebP alpha, turned", "TIFF, turned",
}  # fmt: skip
"""what nvJPEG's engines do not decode, or not as libjpeg does"""


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


def write_mixed(root: Path) -> tuple[list[ImageRef], list[str]]:
    """The mixed set as files; what is seen of each, and what it is called in the set."""
    root.mkdir(parents=True, exist_ok=True)
    refs = []
    for number, (data, crop) in enumerate(mixed_set().values()):
        (root / f"{number:03d}.img").write_bytes(data)
        refs.append(ImageRef(f"{number:03d}.img", crop))
    return refs, list(mixed_set())
