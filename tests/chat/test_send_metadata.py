"""Do place, author and caption stay at home, and does every pixel go out as it was?"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, PngImagePlugin

from fieldmark.chat import MockServer, Picture, Request, chat_model, prepare, user
from fieldmark.chat.send.metadata import without_metadata
from fieldmark.chat.send.pictures import PictureLimits
from fieldmark.draws import generator
from kit.chat import FAST, ask_all, make_jpeg

pytestmark = pytest.mark.filterwarnings("ignore:Image appears to be a malformed MPO")
AUTHOR, CAPTION, PLACE = "Jane Doe of Nowhere", "Adult bald eagle at the nest", (51, 30, 12.25)
XMP = f"<x:xmpmeta>{AUTHOR}: {CAPTION}</x:xmpmeta>".encode()
GPS, DESCRIPTION, ARTIST = 0x8825, 0x010E, 0x013B
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
SECRETS = (AUTHOR.encode(), CAPTION.encode(), b"Exif\0", b"xmpmeta", b"8BIM", b"EXIF", b"eXIf")


def noise(mode: str = "RGB", size: tuple[int, int] = (67, 45)) -> Image.Image:
    rng = generator("noise", mode)
    if mode == "I;16":
        return Image.fromarray(rng.integers(0, 65535, size[::-1], dtype="uint16"))
    bands = len(Image.new(mode, (1, 1)).getbands())
    values = rng.integers(0, 255, (size[1], size[0], bands), dtype="uint8")
    return Image.fromarray(values.squeeze(), None if mode == "P" else mode)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def exif(orientation: int = 1) -> Image.Exif:
    made = Image.Exif()
    made[DESCRIPTION], made[ARTIST], made[0x0112] = CAPTION, AUTHOR, orientation
    made[GPS] = {1: "N", 2: PLACE, 3: "W", 4: PLACE}
    return made


def segment(marker: int, payload: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload


def after_start(data: bytes, *more: bytes) -> bytes:
    return data[:2] + b"".join(more) + data[2:]


def before_last_scan(data: bytes, more: bytes) -> bytes:
    at = data.rfind(b"\xff\xda")
    return data[:at] + more + data[at:]


IPTC = segment(0xED, b"Photoshop 3.0\x008BIM" + AUTHOR.encode())
JFXX = segment(0xE0, b"JFXX\0\x10" + make_jpeg(9, (16, 16)) + CAPTION.encode())
MPF = segment(0xE2, b"MPF\0" + AUTHOR.encode())
OTHER = segment(0xE5, b"\xff" + AUTHOR.encode())
TRAILER = make_jpeg(8, (16, 16), comment=CAPTION.encode()) + AUTHOR.encode()


def jpeg(mode: str = "RGB", **options: Any) -> bytes:
    data = saved(
        noise(mode), "JPEG", exif=exif(), xmp=XMP, comment=CAPTION, icc_profile=PROFILE, **options
    )
    return after_start(data, JFXX, IPTC, b"\xff\xff" + MPF, OTHER) + TRAILER


def with_thumbnail(data: bytes) -> bytes:
    """JFIF may hold a small picture of its own."""
    thumbnail = (CAPTION.encode() * 9)[: 9 * 9 * 3]
    head = data[6:18] + b"\x09\x09" + thumbnail
    return data[:2] + segment(0xE0, head) + data[20:]


def chunk(name: bytes, payload: bytes) -> bytes:
    crc = zlib.crc32(name + payload).to_bytes(4, "big")
    return len(payload).to_bytes(4, "big") + name + payload + crc


def png(mode: str = "RGB", **options: Any) -> bytes:
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Author", AUTHOR)
    texts.add_text("Description", CAPTION, zip=True)
    texts.add_itxt("XML:com.adobe.xmp", XMP.decode())
    data = saved(noise(mode), "PNG", pnginfo=texts, exif=exif(), icc_profile=PROFILE, **options)
    more = chunk(b"tIME", b"\x07\xe9\x01\x01\x01\x01\x01") + chunk(b"prVt", AUTHOR.encode())
    return data[:33] + more + data[33:] + AUTHOR.encode()


def webp(mode: str = "RGB", **options: Any) -> bytes:
    data = saved(noise(mode), "WEBP", exif=exif(), xmp=XMP, icc_profile=PROFILE, **options)
    return data + AUTHOR.encode()


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "baseline": ("JPEG", jpeg),
    "progressive": ("JPEG", lambda: jpeg(progressive=True)),
    "comment between scans": (
        "JPEG",
        lambda: before_last_scan(
            saved(noise(), "JPEG", progressive=True), segment(0xFE, CAPTION.encode())
        ),
    ),
    "restart markers": ("JPEG", lambda: jpeg(restart_marker_blocks=2)),
    "thumbnail": ("JPEG", lambda: with_thumbnail(saved(noise(), "JPEG"))),
    "grey": ("JPEG", lambda: jpeg("L")),
    "cmyk": ("JPEG", lambda: jpeg("CMYK")),
    "rgb kept": ("JPEG", lambda: jpeg(keep_rgb=True)),
    "png": ("PNG", png),
    "png palette": ("PNG", lambda: png("P", transparency=3)),
    "png 16 bit": ("PNG", lambda: png("I;16")),
    "png alpha": ("PNG", lambda: png("RGBA")),
    "png grey alpha": ("PNG", lambda: png("LA")),
    "webp lossy": ("WEBP", webp),
    "webp lossless": ("WEBP", lambda: webp(lossless=True)),
    "webp alpha": ("WEBP", lambda: webp("RGBA")),
    "webp plain": ("WEBP", lambda: saved(noise(), "WEBP") + AUTHOR.encode()),
}


def open_(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


@pytest.mark.parametrize("name", FILES)
def test_pixels_stay_and_metadata_goes(name: str) -> None:
    kind, make = FILES[name]
    data = make()
    assert any(secret in data for secret in SECRETS), "there is something to leave out"
    bare = without_metadata(data, kind)
    assert bare is not None
    before, after = open_(data), open_(bare)
    assert after.format == kind
    assert (before.mode, before.size) == (after.mode, after.size)
    assert np.array_equal(np.asarray(before), np.asarray(after))
    assert before.info.get("icc_profile") == after.info.get("icc_profile")
    assert before.info.get("transparency") == after.info.get("transparency")
    assert before.info.get("adobe_transform") == after.info.get("adobe_transform")
    assert not after.getexif() and not {"comment", "xmp", "photoshop"} & set(after.info)
    assert not [secret for secret in SECRETS if secret in bare]
    assert without_metadata(bare, kind) == bare


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_file_without_metadata_is_sent_byte_for_byte(kind: str) -> None:
    data = saved(noise(), kind)
    assert without_metadata(data, kind) == data


@given(st.sampled_from(sorted(FILES)), st.data())
def test_broken_files_do_no_harm(name: str, draw: st.DataObject) -> None:
    kind, make = FILES[name]
    data = bytearray(_MADE.setdefault(name, make()))
    for _ in range(draw.draw(st.integers(0, 3))):
        data[draw.draw(st.integers(0, min(len(data), 900) - 1))] = draw.draw(st.integers(0, 255))
    without_metadata(bytes(data[: draw.draw(st.integers(0, len(data)))]), kind)


_MADE: dict[str, bytes] = {}


class Recorder(MockServer):
    """Keeps every byte that comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    async def _answer(self, request: Any, data: bytes) -> Any:
        self.bodies.append(data)
        return await super()._answer(request, data)


def over_the_wire(data: bytes) -> tuple[bytes, bytes]:
    """The body, and the picture in it."""

    async def work() -> bytes:
        server = Recorder()
        model = chat_model(f"chat/mock/wren?base_url={await server.start()}")
        try:
            asked = Request("i", (user("Which?", Picture(data, "photos/1.jpg")),))
            await ask_all([asked], model, FAST)
        finally:
            await server.stop()
        return server.bodies[0]

    body = asyncio.run(work())
    (url,) = (
        part["image_url"]["url"]
        for part in json.loads(body)["messages"][0]["content"]
        if part["type"] == "image_url"
    )
    return body, base64.b64decode(url.partition(",")[2])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(jpeg(), id="jpeg"),
        pytest.param(saved(noise(), "JPEG", exif=exif(6), comment=CAPTION), id="turned"),
        pytest.param(jpeg("CMYK"), id="redrawn"),
        pytest.param(png(), id="png"),
        pytest.param(png("I;16"), id="png redrawn"),
        pytest.param(webp("RGBA"), id="webp"),
        pytest.param(
            saved(noise(), "PNG", save_all=True, append_images=[noise("L").convert("RGB")])
            + AUTHOR.encode(),
            id="animated png",
        ),
        pytest.param(
            saved(noise(), "MPO", save_all=True, append_images=[noise()], exif=exif()),
            id="several pictures in one",
        ),
    ],
)
def test_nothing_of_it_goes_over_the_wire(data: bytes) -> None:
    body, sent = over_the_wire(data)
    for secret in (*SECRETS, b"photos/1.jpg"):
        assert secret not in body and secret not in sent
    picture = open_(sent)
    assert not picture.getexif() and not getattr(picture, "is_animated", False)


def test_a_phone_photo_of_several_pictures_is_not_drawn_again() -> None:
    data = saved(noise(), "MPO", save_all=True, append_images=[noise()], exif=exif())
    sent = prepare(Picture(data))
    assert (sent.note, sent.media_type) == ("", "image/jpeg")
    bare = base64.b64decode(sent.base64)
    assert np.array_equal(np.asarray(open_(bare)), np.asarray(open_(data)))


def test_what_fits_without_its_metadata_is_not_shrunk() -> None:
    data = jpeg()
    n_bytes = len(without_metadata(data, "JPEG") or b"")
    sent = prepare(Picture(data), PictureLimits(n_bytes=n_bytes))
    assert sent.note == "" and n_bytes < len(data)


def test_defect_fuzzing_an_empty_header_of_a_webp() -> None:
    """IndexError: the flags of a VP8X chunk without a byte."""
    body = b"WEBP" + b"VP8X" + bytes(4)
    assert without_metadata(b"RIFF" + len(body).to_bytes(4, "little") + body, "WEBP") is None


def test_defect_fuzzing_a_jpeg_that_ends_where_it_begins() -> None:
    """Pillow reads on behind the mark of the end, but an empty picture was sent."""
    assert without_metadata(after_start(make_jpeg(9), b"\xff\xd9"), "JPEG") is None
