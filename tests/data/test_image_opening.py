"""Does every kind of image become the same upright RGB picture, and every broken one a line?"""

import io
import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from fieldmark.data._image import (
    MAX_PIXELS,
    ImageRef,
    load_image,
    open_header,
    open_image,
    quick_check,
    read_header,
)
from fieldmark.errors import DataError


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixels(data: bytes) -> np.ndarray:
    image = open_image(data)
    assert image.mode == "RGB"
    return np.asarray(image)


def picture(width: int = 24, height: int = 16) -> Image.Image:
    """Four corners of four colours, so that any turn shows."""
    rows = np.zeros((height, width, 3), np.uint8)
    rows[: height // 2, : width // 2] = (255, 0, 0)
    rows[: height // 2, width // 2 :] = (0, 255, 0)
    rows[height // 2 :, : width // 2] = (0, 0, 255)
    rows[height // 2 :, width // 2 :] = (250, 250, 10)
    return Image.fromarray(rows)


def test_rgb_is_untouched():
    assert np.array_equal(pixels(encode(picture())), np.asarray(picture()))


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "BMP", "TIFF", "GIF", "JPEG2000", "PPM", "AVIF"])
def test_formats_are_rgb(kind: str):
    options = {"JPEG": {"quality": 95}, "WEBP": {"lossless": True}, "AVIF": {"quality": 95}}
    shown = pixels(encode(picture(), kind, **options.get(kind, {}))).astype(int)
    assert np.abs(shown[4, 4] - (255, 0, 0)).max() < 12
    assert np.abs(shown[12, 20] - (250, 250, 10)).max() < 12


def heic(image: Image.Image, orientation: int = 1) -> bytes:
    """As a phone writes it: the pixels as the sensor lies, and how to turn them."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    buffer = io.BytesIO()
    pillow_heif.from_pillow(image).save(buffer, quality=-1, exif=tags.tobytes())
    return buffer.getvalue()


def test_headers_are_read_of_files_only(tmp_path):
    """`check` and `try` read when photos were taken: they waited at a pipe for ever, and photos of
    a phone had no time where their features were known already.
    """
    (tmp_path / "phone.heic").write_bytes(heic(picture()))
    with open_header(tmp_path / "phone.heic") as image:
        assert image.size == picture().size
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    for name in ("pipe.png", "zero.png", "missing.png"):
        with pytest.raises(DataError, match="is no file"):
            open_header(tmp_path / name)


def test_heic_of_a_phone_is_read_upright():
    for orientation in range(1, 9):
        tags = Image.Exif()
        tags[0x0112] = orientation
        expected = pixels(encode(picture(), "PNG", exif=tags)).astype(int)
        shown = pixels(heic(picture(), orientation)).astype(int)
        assert shown.shape == expected.shape, orientation
        assert np.abs(shown - expected).max() < 12, orientation
    assert quick_check(heic(picture())) is None
    assert quick_check(heic(picture())[:-40]) == "is cut off or damaged: the HEIC cannot be read"


def test_defect_biobench_grey_images_are_converted_to_rgb():
    grey = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    shown = pixels(encode(grey))
    assert shown.shape == (16, 16, 3)
    assert np.array_equal(shown[..., 1], np.asarray(grey))


def test_one_bit_is_black_and_white():
    bits = np.indices((8, 8)).sum(axis=0) % 2 == 0
    shown = pixels(encode(Image.fromarray(bits)))
    assert np.array_equal(shown[..., 0], np.where(bits, 255, 0))


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_alpha_lies_on_white(kind: str):
    rows = np.zeros((4, 3, 4), np.uint8)
    rows[:, 0] = (200, 0, 0, 255)
    rows[:, 1] = (200, 0, 0, 0)
    rows[:, 2] = (0, 0, 0, 51)
    options = {"WEBP": {"lossless": True, "exact": True}}
    shown = pixels(encode(Image.fromarray(rows), kind, **options.get(kind, {})))
    assert shown[0].tolist() == [[200, 0, 0], [255, 255, 255], [204, 204, 204]]


def test_grey_with_alpha_lies_on_white():
    rows = np.array([[[10, 255], [10, 0]]], np.uint8)
    assert pixels(encode(Image.fromarray(rows, "LA"))).tolist() == [[[10] * 3, [255] * 3]]


def test_palette_with_transparency_lies_on_white():
    image = Image.new("P", (2, 1))
    image.putpalette([200, 0, 0, 0, 0, 90])
    image.putpixel((1, 0), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = pixels(encode(image, transparency=1))
        several = pixels(encode(image, transparency=bytes([255, 0])))
        plain = pixels(encode(image))
    assert one.tolist() == several.tolist() == [[[200, 0, 0], [255, 255, 255]]]
    assert plain.tolist() == [[[200, 0, 0], [0, 0, 90]]]


@pytest.mark.parametrize("mode, colour", [("L", 7), ("RGB", (7, 8, 9))])
def test_a_transparent_colour_of_png_lies_on_white(mode: str, colour: object):
    image = Image.new(mode, (2, 1), colour)
    image.putpixel((1, 0), 40 if mode == "L" else (40, 40, 40))
    assert pixels(encode(image, transparency=colour)).tolist() == [[[255] * 3, [40] * 3]]


def cmyk_of(red: int, green: int, blue: int, size: int = 16) -> np.ndarray:
    return np.tile(np.array([255 - red, 255 - green, 255 - blue, 0], np.uint8), (size, size, 1))


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk_keeps_its_colours(kind: str):
    data = encode(Image.fromarray(cmyk_of(220, 40, 60), "CMYK"), kind, quality=95)
    assert np.abs(pixels(data)[8, 8].astype(int) - (220, 40, 60)).max() < 8


def test_ycck_of_adobe_keeps_its_colours():
    """Adobe stores inks inverted, and in YCCK the luma and chroma of what those leave."""
    red, green, blue = 255.0 - 220, 255.0 - 40, 255.0 - 60
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    stored = [luma, 128 + (blue - luma) * 0.564, 128 + (red - luma) * 0.713, 255]
    rows = np.tile(255 - np.rint(stored).astype(np.uint8), (16, 16, 1))
    data = encode(Image.fromarray(rows, "CMYK"), "JPEG", quality=98)
    at = data.index(b"Adobe")
    ycck = data[: at + 11] + b"\x02" + data[at + 12 :]
    assert np.abs(pixels(ycck)[8, 8].astype(int) - (220, 40, 60)).max() < 8
    assert np.abs(pixels(data)[8, 8].astype(int) - (220, 40, 60)).max() > 30


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_linearly(kind: str):
    values = np.array([[0, 128, 257, 32768, 65535]], np.uint16)
    shown = pixels(encode(Image.fromarray(values), kind))
    assert shown[0, :, 0].tolist() == [0, 0, 1, 128, 255]


def test_sixteen_bits_of_either_byte_order():
    values = np.array([[0, 257, 65535]], np.uint16)
    for mode in ("I;16", "I;16B"):
        stored = values.astype(">u2" if mode == "I;16B" else "<u2").tobytes()
        data = encode(Image.frombytes(mode, (3, 1), stored), "TIFF")
        assert pixels(data)[0, :, 0].tolist() == [0, 1, 255], mode
    plain = b"P5 3 1 65535\n" + values.astype(">u2").tobytes()
    assert pixels(plain)[0, :, 0].tolist() == [0, 1, 255]


def test_thirty_two_bit_integers():
    within = np.array([[0, 65535]], np.int32)
    beyond = np.array([[-1000, 0, 1_000_000]], np.int32)
    assert pixels(encode(Image.fromarray(within), "TIFF"))[0, :, 0].tolist() == [0, 255]
    assert pixels(encode(Image.fromarray(beyond), "TIFF"))[0, :, 0].tolist() == [0, 0, 255]


@pytest.mark.parametrize(
    "values, expected",
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 100.0, 255.0], [0, 100, 255]),
        ([0.0, 257.0, 65535.0], [0, 1, 255]),
        ([-5.0, 0.0, 5.0], [0, 128, 255]),
        ([0.0, float("nan"), 1.0], [0, 0, 255]),
        ([3.0, 3.0, 3.0], [3, 3, 3]),
    ],
)
def test_float_tiffs_are_shown(values: list[float], expected: list[int]):
    data = encode(Image.fromarray(np.array([values], np.float32)), "TIFF")
    assert pixels(data)[0, :, 0].tolist() == expected


def test_animations_show_their_first_frame():
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "WEBP", "PNG"):
        options = {"lossless": True} if kind == "WEBP" else {}
        data = encode(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert pixels(data)[4, 4].tolist() == [255, 0, 0], kind


ORIENTATION = 0x0112
TURNED_BACK = {
    1: lambda rows: rows,
    2: lambda rows: rows[:, ::-1],
    3: lambda rows: rows[::-1, ::-1],
    4: lambda rows: rows[::-1],
    5: lambda rows: rows.transpose(1, 0, 2),
    6: lambda rows: np.rot90(rows),
    7: lambda rows: np.rot90(rows, 2).transpose(1, 0, 2),
    8: lambda rows: np.rot90(rows, -1),
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "JPEG"])
def test_exif_orientation(orientation: int, kind: str):
    stored = Image.fromarray(np.ascontiguousarray(TURNED_BACK[orientation](np.asarray(picture()))))
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95}}.get(kind, {})
    shown = pixels(encode(stored, kind, exif=exif, **options))
    assert shown.shape == (16, 24, 3)
    assert np.abs(shown[3:5, 3:5].astype(int) - (255, 0, 0)).max() < 12
    assert np.abs(shown[11:13, 3:5].astype(int) - (0, 0, 255)).max() < 12
    assert np.abs(shown[3:5, 19:21].astype(int) - (0, 255, 0)).max() < 12


@pytest.mark.parametrize("value", [0, 9, 77])
def test_senseless_orientation_is_ignored(value: int):
    exif = Image.Exif()
    exif[ORIENTATION] = value
    assert np.array_equal(pixels(encode(picture(), exif=exif)), np.asarray(picture()))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("exif", [b"MM\0*\xff\xff\xff\xffjunk", b"no TIFF at all"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_damaged_exif_does_not_lose_the_photo(kind: str, exif: bytes):
    """Defect: with `exif` that is no TIFF, of a WebP or PNG, the photo was not read."""
    data = encode(picture(), kind, quality=95, exif=b"Exif\0\0" + exif)
    assert pixels(data).shape == (16, 24, 3) and read_header(data).orientation == 1


def test_crop_is_of_the_upright_image():
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    stored = Image.fromarray(np.ascontiguousarray(np.rot90(np.asarray(picture()))))
    part = open_image(encode(stored, exif=exif), crop=(12, 0, 12, 8))
    assert part.size == (12, 8)
    assert np.asarray(part).reshape(-1, 3).tolist() == [[0, 255, 0]] * 96


def test_crop_is_clipped_to_the_image():
    assert open_image(encode(picture()), crop=(-5, -5, 10, 500)).size == (5, 16)
    assert open_image(encode(picture()), crop=(20.4, 0.0, 99.0, 2.6)).size == (4, 3)


@pytest.mark.parametrize(
    "crop", [(24, 0, 5, 5), (0, 0, 0, 5), (0, 0, -3, 5), (0, 0, float("nan"), 5), (-9, 0, 9, 9)]
)
def test_empty_crop_is_named(crop: tuple[float, float, float, float]):
    with pytest.raises(DataError) as caught:
        open_image(encode(picture()), crop=crop, name="a.png")
    assert str(caught.value) == (
        f"a.png  crop {crop} is empty in an image of 24 × 16 pixels: "
        "expected x, y, width and height in pixels."
    )


def huge_png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    row = b"\0" * (1 + (width + 7) // 8)
    body = zlib.compress(row * height, 9)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


@pytest.mark.slow
def test_large_photos_open_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large = open_image(huge_png(10_000, 9_000), crop=(0, 0, 10_000, 8_990))
    assert large.size == (10_000, 8_990)


@pytest.mark.parametrize("side", [15_000, 60_000])
def test_decompression_bomb_is_named(side: int):
    data = huge_png(side, 4)
    data = data[:20] + struct.pack(">I", side) + data[24:29]
    data += struct.pack(">I", zlib.crc32(data[12:29])) + huge_png(side, 4)[33:]
    assert side * side > MAX_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=r"^bomb\.png  is too large .*200,000,000 pixels"):
            open_image(data, name="bomb.png")
        assert "is too large" in (quick_check(data) or "")


JPEG = encode(picture(160, 120), "JPEG", quality=90)
BROKEN = {
    b"": "is empty (0 bytes)",
    b"hello, this is text": "is not an image of a known format (it starts with b'hello, this ')",
    b"\n<!DOCTYPE html><html>": "is a web page, not an image: the download failed",
    b"%!PS-Adobe-3.0 EPSF": "is PostScript, which fieldmark does not read: convert it to PNG",
    b"\0\0\0\x18ftypheic\0\0\0\0": "is cut off or damaged: the HEIC cannot be read",
    JPEG[:-2]: "is cut off: the JPEG has no end marker",
    JPEG[:400]: "is cut off: the JPEG has no end marker",
    encode(picture())[:-12]: "is cut off: the PNG has no IEND chunk",
    encode(picture(), "WEBP")[:-1]: None,
}


@pytest.mark.parametrize("data", BROKEN)
def test_quick_check_says_why(data: bytes):
    expected = BROKEN[data]
    if expected is None:
        assert (quick_check(data) or "").startswith("is cut off: the WebP contains ")
    else:
        assert quick_check(data) == expected


def test_quick_check_is_silent_about_whole_images():
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    for kind in ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF"):
        assert quick_check(encode(photo, kind)) is None
    assert quick_check(encode(photo, "JPEG", progressive=True) + b"trailer of a phone") is None
    assert quick_check(encode(photo, "PNG") + b"\0" * 100) is None


def test_a_thumbnail_does_not_hide_a_cut_off_photo():
    thumbnail = encode(picture(), "JPEG")
    exif = b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0" + thumbnail
    whole = encode(picture(160, 120), "JPEG", exif=exif)
    assert quick_check(whole) is None
    assert quick_check(whole[:-200]) == "is cut off: the JPEG has no end marker"


def test_cut_off_images_do_not_open():
    for kind in ("JPEG", "PNG", "WEBP"):
        data = encode(Image.effect_noise((200, 200), 90).convert("RGB"), kind)
        with pytest.raises(DataError, match=r"^x  (cannot be decoded|is not an image)") as caught:
            open_image(data[: len(data) // 2], name="x")
        assert "\n" not in str(caught.value)


def test_damaged_files_never_raise_anything_else():
    whole = [encode(picture(), kind) for kind in ("JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP")]
    generator = np.random.default_rng(7)
    n_refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(1500):
            data = bytearray(whole[turn % len(whole)])
            for place in generator.integers(0, len(data), 1 + turn % 5):
                data[place] = int(generator.integers(0, 256))
            try:
                assert open_image(bytes(data)).mode == "RGB"
            except DataError:
                n_refused += 1
            quick_check(bytes(data))
    assert 100 < n_refused < 1400


def test_load_image_names_the_file(tmp_path: Path):
    (tmp_path / "a.jpg").write_bytes(JPEG[:500])
    with pytest.raises(DataError) as caught:
        load_image(tmp_path, ImageRef("a.jpg"))
    assert str(caught.value).startswith(f"{tmp_path}/a.jpg  cannot be decoded: ")


def test_real_photos_open(shared: Path):
    paths = sorted((shared / "photos").rglob("*.jpg"))[:24]
    assert paths
    for path in paths:
        data = path.read_bytes()
        assert quick_check(data) is None
        assert open_image(data).mode == "RGB"
