"""The fast CPU decoder against the exact way: the same pixels within one grey level, the same
refusals.
"""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageFile

from fieldmark.data import crop_image, open_image
from fieldmark.errors import DataError
from fieldmark.models import Recipe

torch = pytest.importorskip("torch")
from fieldmark.embed.cpu import decode as cpu_decode  # noqa: E402  needs torch when it is called

ORIENTATION = 0x0112
SIZES = [
    (500, 375), (375, 500), (501, 377), (640, 641), (337, 900), (900, 337), (3000, 200),
    (200, 3000), (8, 8), (1, 1), (7, 40), (224, 224), (225, 300), (336, 336), (150, 1100),
]  # fmt: skip
RECIPES = [
    Recipe((224, 224)),
    Recipe((224, 224), (256, 256)),
    Recipe((96, 96), (109, 109), interpolation="bilinear"),
    Recipe((96, 128), (110, 150)),
    Recipe((96, 96), fit="squash"),
    Recipe((64, 64), (90, 77), fit="squash"),
    Recipe((96, 80), fit="longest", fill=(1, 200, 30)),
    Recipe((90, 90), (110, 110), fit="longest", interpolation="bilinear", fill=(9, 9, 9)),
    Recipe((64, 64), interpolation="lanczos"),
]
CROPS = [None, (-3.0, 20.4, 90.2, 4000.0), (5.5, 2.0, 700.0, 100.0)]


@pytest.fixture(autouse=True)
def large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow writes a JPEG of noise in one block."""
    monkeypatch.setattr(ImageFile, "MAXBLOCK", 2**24)


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """Coarse shapes, fine noise and a part that is black and white: what resizing finds hard."""
    rng = np.random.default_rng([seed, width, height])
    coarse = rng.integers(0, 256, (height // 9 + 1, width // 9 + 1, 3), dtype=np.uint8)
    shapes = np.asarray(Image.fromarray(coarse).resize((width, height), 3), float)
    pixels = np.clip(shapes + rng.normal(0, 12, shapes.shape), 0, 255).astype(np.uint8)
    corner = pixels[: height // 3, : width // 3]
    corner[:] = 255 * rng.integers(0, 2, (*corner.shape[:2], 1))
    return Image.fromarray(pixels)


def encoded(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


def exact(data: bytes, recipe: Recipe, crop: tuple[float, ...] | None) -> np.ndarray:
    whole = open_image(data)
    return recipe(whole if crop is None else crop_image(whole, crop))


def assert_close(data: bytes, recipe: Recipe, crops: list[tuple[float, ...] | None]) -> None:
    try:
        expected = [exact(data, recipe, crop) for crop in crops]
    except DataError:
        assert cpu_decode.decode(data, recipe, crops) is None
        return
    seen = cpu_decode.decode(data, recipe, crops)
    assert seen is not None and len(seen) == len(crops)
    for got, wanted in zip(seen, expected, strict=True):
        assert got.dtype == np.uint8 and got.shape == wanted.shape and got.flags.c_contiguous
        assert is_close(got, wanted)


def is_close(got: np.ndarray, wanted: np.ndarray) -> bool:
    """One grey level; two in a value that both steps of resizing rounded the other way, which takes
    black and white noise as `picture` has it.
    """
    off = np.abs(got.astype(int) - wanted)
    return bool(off.max() <= 2 and (off > 1).sum() <= 3 and off.mean() < 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_every_size_fit_and_turn(size: tuple[int, int]) -> None:
    image = picture(*size)
    for number, recipe in enumerate(RECIPES):
        for orientation in (1, 2 + number % 3, 5 + number % 4):
            data = encoded(image, quality=92, exif=turned(orientation))
            assert_close(data, recipe, [crop for crop in CROPS if fits(data, crop)])


def fits(data: bytes, crop: tuple[float, ...] | None) -> bool:
    width, height = open_image(data).size
    return crop is None or (crop[0] < width - 1 and crop[1] < height - 1)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation(orientation: int) -> None:
    data = encoded(picture(420, 361), exif=turned(orientation))
    for recipe in (Recipe((97, 97), (111, 111)), Recipe((97, 64), (120, 111), fit="squash")):
        assert_close(data, recipe, [None, (30.0, 7.0, 301.0, 300.0)])


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_every_kind_of_jpeg(mode: str, subsampling: int, progressive: bool) -> None:
    image = picture(411, 303).convert(mode)
    data = encoded(image, quality=80, subsampling=subsampling, progressive=progressive)
    assert_close(data, Recipe((64, 64)), [None, (10.0, 10.0, 300.0, 200.0)])


def test_other_formats() -> None:
    image, recipe = picture(411, 303), Recipe((64, 64))
    alpha = image.copy()
    alpha.putalpha(image.convert("L"))
    deep = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    others = [
        encoded(image, "MPO", save_all=True, append_images=[picture(411, 303, 1)]),
        encoded(alpha, "PNG"),
        encoded(deep, "PNG"),
        encoded(image.quantize(), "PNG"),
        encoded(image, "TIFF", exif=turned(6)),
        encoded(image, "WEBP", quality=80, exif=turned(8)),
    ]
    for data in others:
        assert_close(data, recipe, [None, (10.0, 10.0, 300.0, 200.0)])


def test_jpegs_are_neither_decoded_nor_resized_by_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Pillow was asked")

    kinds = itertools.product(("RGB", "L"), (1, 6))
    files = [
        encoded(picture(500, 375).convert(mode), exif=turned(orientation))
        for mode, orientation in kinds
    ]
    monkeypatch.setattr(cpu_decode, "open_image", refuse)
    monkeypatch.setattr(Image.Image, "resize", refuse)
    for data in files:
        assert cpu_decode.decode(data, Recipe((224, 224)), [None])


def test_a_file_is_decoded_once_for_all_crops(monkeypatch: pytest.MonkeyPatch) -> None:
    n_decoded = 0
    decoder = cpu_decode._jpeg_decoder()

    def count(*args: object) -> object:
        nonlocal n_decoded
        n_decoded += 1
        return decoder(*args)

    monkeypatch.setattr(cpu_decode, "_jpeg_decoder", lambda: count)
    data = encoded(picture(500, 375))
    seen = cpu_decode.decode(data, Recipe((64, 64)), [None, (0, 0, 200, 200), (9, 9, 300, 300)])
    assert seen is not None and len(seen) == 3 and n_decoded == 1


def test_without_torchvision_pillow_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_decode, "_jpeg_decoder", lambda: None)
    data = encoded(picture(500, 375), exif=turned(6))
    assert_close(data, Recipe((224, 224)), [None, (10.0, 10.0, 300.0, 200.0)])


# --- damage ---


def damaged_jpegs() -> dict[str, Callable[[bytes, np.random.Generator], bytes]]:
    def replaced(data: bytes, rng: np.random.Generator) -> bytes:
        broken = bytearray(data)
        for at in rng.integers(2, len(data), 3):
            broken[at] = rng.integers(256)
        return bytes(broken)

    def removed(data: bytes, rng: np.random.Generator) -> bytes:
        at = rng.integers(2, len(data))
        return data[:at] + data[at + rng.integers(1, 60) :]

    def inserted(data: bytes, rng: np.random.Generator) -> bytes:
        at = rng.integers(2, len(data))
        return data[:at] + rng.bytes(20) + data[at:]

    def ended_early(data: bytes, rng: np.random.Generator) -> bytes:
        return data[: rng.integers(2, len(data))] + b"\xff\xd9"

    return {
        "replaced": replaced, "removed": removed, "inserted": inserted, "ended_early": ended_early,
    }  # fmt: skip


@pytest.mark.parametrize("kind", list(damaged_jpegs()))
@pytest.mark.parametrize("progressive", [False, True])
def test_damage_is_judged_as_the_exact_way_does(kind: str, progressive: bool) -> None:
    data = encoded(picture(90, 70), progressive=progressive, restart_marker_blocks=4)
    rng = np.random.default_rng(3)
    for _ in range(150):
        assert_close(damaged_jpegs()[kind](data, rng), Recipe((32, 32)), [None])


@pytest.mark.parametrize("progressive", [False, True])
def test_no_part_of_a_file_passes_for_the_whole(progressive: bool) -> None:
    data = encoded(picture(90, 70), progressive=progressive, quality=30)
    for n_bytes in range(len(data)):
        assert cpu_decode.decode(data[:n_bytes], Recipe((32, 32)), [None]) is None


@pytest.mark.parametrize(
    "crop", [(600, 10, 20, 20), (0, 0, 0, 10), (0, 0, float("nan"), 10)], ids=str
)
def test_an_empty_crop_is_left_to_the_exact_way(crop: tuple[float, ...]) -> None:
    data = encoded(picture(500, 375))
    with pytest.raises(DataError):
        exact(data, Recipe((64, 64)), crop)
    assert cpu_decode.decode(data, Recipe((64, 64)), [None, crop]) is None


def test_nothing_is_said_and_no_setting_changed() -> None:
    n_threads = torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("JPEG", "PNG"):
            assert cpu_decode.decode(encoded(picture(500, 375), kind), Recipe((64, 64)), [None])
    assert torch.get_num_threads() == n_threads
