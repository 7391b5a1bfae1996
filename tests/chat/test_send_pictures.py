"""Are pictures sent as they are, and otherwise always in the same way?"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fieldmark.chat import Picture, prepare
from fieldmark.chat.send.pictures import PictureCache, PictureLimits, glance
from fieldmark.errors import DataError


def pixels(sent: Any) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(sent.base64)))


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_original_bytes_pass_within_limits(kind: str) -> None:
    data = saved(Image.new("RGB", (60, 40), "red"), kind)
    sent = prepare(Picture(data), PictureLimits(long_px=60, n_bytes=len(data)))
    assert base64.b64decode(sent.base64) == data
    assert sent.media_type == f"image/{kind.lower()}"
    assert sent.sha256 == hashlib.sha256(data).hexdigest()
    assert (sent.width, sent.height, sent.note) == (60, 40, "")


def test_what_is_too_large_is_shrunk_the_same_way_every_time(jpeg: Any) -> None:
    data = jpeg(1, (400, 300))
    one, two = (prepare(Picture(data), PictureLimits(long_px=200)) for _ in range(2))
    assert one == two
    assert pixels(one).size == (one.width, one.height) == (200, 150)
    assert "400×300 → 200×150 jpeg quality 92" in one.note
    assert hashlib.sha256(data).hexdigest()[:16] in one.note


def test_bytes_are_brought_under_their_limit(jpeg: Any) -> None:
    data = jpeg(1, (400, 300), quality=95)
    sent = prepare(Picture(data), PictureLimits(n_bytes=9000))
    assert len(sent.base64) * 3 // 4 <= 9000 < len(data)


def test_orientation_is_respected() -> None:
    image = Image.new("RGB", (60, 40), "white")
    exif = image.getexif()
    exif[0x0112] = 6
    sent = prepare(Picture(saved(image, "JPEG", exif=exif)))
    assert pixels(sent).size == (sent.width, sent.height) == (40, 60)
    assert pixels(sent).getexif().get(0x0112, 1) == 1


def test_a_crop_is_cut_from_the_upright_image(jpeg: Any) -> None:
    sent = prepare(Picture(jpeg(1, (100, 80)), crop=(10, 20, 30, 40)))
    assert pixels(sent).size == (30, 40)
    whole = prepare(Picture(jpeg(1, (100, 80)), crop=(0, 0, 100, 80)))
    assert whole.note == "", "the whole image is no crop"


@pytest.mark.parametrize(
    "data",
    [
        saved(Image.new("RGB", (9, 9)), "BMP"),
        saved(Image.new("CMYK", (9, 9)), "JPEG"),
        saved(Image.new("I;16", (9, 9)), "PNG"),
        saved(Image.new("P", (9, 9)), "GIF"),
    ],
)
def test_what_providers_do_not_take_becomes_jpeg(data: bytes) -> None:
    sent = prepare(Picture(data))
    assert sent.media_type == "image/jpeg" and pixels(sent).mode == "RGB"


@pytest.mark.parametrize("data", [b"", b"hello", b"\xff\xd8\xff\xe0 not a photo"])
def test_an_unreadable_picture_is_named(data: bytes) -> None:
    with pytest.raises(DataError, match="ponds/7.jpg"):
        prepare(Picture(data, name="ponds/7.jpg"))


def test_defect_fuzzing_damage_behind_a_header_is_the_pictures_own() -> None:
    """A PNG cut within its pixels and a WebP with senseless EXIF ended the run in a traceback."""
    png = saved(Image.effect_noise((64, 64), 50), "PNG")
    at = png.find(b"IDAT") + 40
    damaged = Picture(png[:at] + bytes(40) + png[at + 40 :], name="a.png")
    for look in (prepare, glance):
        with pytest.raises(DataError, match=r"a\.png  cannot be decoded"):
            look(damaged)
    webp = saved(Image.new("RGB", (60, 40), "red"), "WEBP", exif=b"Exif\0\0no TIFF")
    assert (prepare(Picture(webp)).width, glance(Picture(webp)).width) == (60, 60)


def test_shared_pictures_are_prepared_once_and_the_shelf_is_bounded(
    jpeg: Any, tmp_path: Path
) -> None:
    read: list[int] = []

    @cache
    def reader(number: int) -> Callable[[], bytes]:
        return lambda: (read.append(number), jpeg(number))[1]

    def picture(number: int) -> Picture:
        return Picture(reader(number), name=f"{number}.jpg")

    size = len(prepare(picture(0)).base64)
    shelf = PictureCache(most_bytes=5 * size)
    read.clear()
    for number in range(50):
        shelf.prepare(picture(0))
        shelf.prepare(picture(number))
    assert read.count(0) == 1, "what is used again stays"
    assert shelf._bytes <= 5 * size
