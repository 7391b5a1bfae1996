"""What a task shows becomes a picture, or one line that says why not."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from fieldmark.chat import prepare
from fieldmark.errors import DataError, UsageError
from fieldmark.lmms.data.pictures import open_picture, to_picture
from kit.documents import picture_bytes, row_of


def _pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "1", "CMYK", "YCbCr", "HSV", "F"])
def test_every_mode_of_pillow_becomes_a_png_that_can_be_sent(mode: str) -> None:
    image = Image.new("RGB", (9, 7), (10, 200, 30)).convert("L" if mode in ("F", "LA") else "RGB")
    data = to_picture(image.convert(mode)).read()
    assert data.startswith(b"\x89PNG")
    assert prepare(to_picture(image.convert(mode))).media_type.startswith("image/")


def test_pixels_survive() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    assert np.array_equal(_pixels(to_picture(Image.fromarray(pixels)).read()), pixels)
    assert np.array_equal(_pixels(to_picture(pixels).read()), pixels)


def test_a_picture_is_encoded_when_it_is_read() -> None:
    image = Image.new("RGB", (4, 4))
    picture = to_picture(image)
    ImageDraw.Draw(image).rectangle((0, 0, 4, 4), fill=(9, 9, 9))
    assert _pixels(picture.read()).max() == 9


def test_an_untouched_picture_is_sent_as_it_lay_in_the_dataset() -> None:
    data = picture_bytes("JPEG")
    assert to_picture(open_picture(row_of(data))).read() == data


def test_a_picture_somebody_drew_on_is_not() -> None:
    image = open_picture(row_of(picture_bytes("PNG")))
    ImageDraw.Draw(image).rectangle((0, 0, 12, 8), fill=(1, 2, 3))
    assert tuple(_pixels(to_picture(image).read())[0, 0]) == (1, 2, 3)


def test_bytes_paths_rows_and_messages(tmp_path: Path) -> None:
    data = picture_bytes()
    path = tmp_path / "frog.jpg"
    path.write_bytes(data)
    address = "data:image/jpeg;base64," + base64.b64encode(data).decode()
    for visual in (
        data, bytearray(data), path, str(path), f"file://{path}", address, row_of(data),
        {"bytes": None, "path": str(path)}, {"type": "image", "url": str(path)},
        {"type": "image", "url": data}, {"type": "image_url", "image_url": {"url": address}},
    ):  # fmt: skip
        assert to_picture(visual).read() == data


def test_a_file_is_read_late_and_has_a_name(tmp_path: Path) -> None:
    path = tmp_path / "frog.jpg"
    path.write_bytes(b"first")
    picture = to_picture(path)
    path.write_bytes(b"later")
    assert picture.read() == b"later"
    assert picture.name == str(path.resolve())


@pytest.mark.parametrize(
    ("visual", "kind"),
    [
        ("clip.mp4", "video (clip.mp4)"),
        ("song.WAV", "sound (song.WAV)"),
        ({"bytes": b"", "path": "clip.avi"}, "video (clip.avi)"),
        ({"type": "video", "url": "x"}, "video"),
        ({"type": "audio", "url": "x"}, "audio"),
        ({"array": [0.0], "sampling_rate": 16000}, "sound"),
        ({"path": "a.jpg", "video_start": 1}, "video"),
        ({"colour": 1}, "mapping of colour"),
        (np.zeros((3, 4, 4, 3), np.uint8), "ndarray"),
        (7, "int"),
    ],
)
def test_what_is_no_image_is_refused_in_one_line(visual: object, kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        to_picture(visual, "t.yaml:4")
    assert (
        str(caught.value) == f"t.yaml:4  doc_to_visual gave a {kind}: fieldmark sends images only."
    )


def test_nothing_remote_is_read() -> None:
    with pytest.raises(UsageError, match="is remote: a file on this machine is expected"):
        to_picture("https://example.org/frog.jpg")


def test_a_missing_file_and_bad_base64_are_one_line() -> None:
    with pytest.raises(DataError, match="image 'no/frog.jpg' does not exist"):
        to_picture("no/frog.jpg")
    with pytest.raises(DataError, match="not base64"):
        to_picture("data:image/png;base64,§§§")


def test_a_picture_cut_off_is_told_when_it_is_read(tmp_path: Path) -> None:
    whole = io.BytesIO()
    Image.effect_noise((64, 64), 80).save(whole, "PNG")
    cut = whole.getvalue()[:1500]
    (tmp_path / "cut.png").write_bytes(cut)
    with pytest.raises(DataError):
        prepare(to_picture(open_picture(row_of(cut))))
    picture = to_picture(Image.open(tmp_path / "cut.png"), "t.yaml:4")
    with pytest.raises(DataError, match=r"t\.yaml:4  a picture cannot be read: .*truncated"):
        picture.read()


def test_a_turned_picture_of_a_dataset_is_upright_and_one_of_task_code_as_it_lies() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = picture_bytes("JPEG", exif=exif)
    assert open_picture(row_of(data)).size == (8, 12)
    assert _pixels(to_picture(open_picture(row_of(data))).read()).shape == (12, 8, 3)
    assert _pixels(to_picture(Image.open(io.BytesIO(data))).read()).shape == (8, 12, 3)


def test_opening_decodes_nothing() -> None:
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF"):
        assert open_picture(row_of(picture_bytes(kind))).tile, kind
