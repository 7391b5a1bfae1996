"""EXIF: when was a photo taken, and by what? Positions are never read: rare species.

Clocks that were reset (1970, 2000-01-01) and years to come say nothing. The date of the file is
when it was copied, and is not used either.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_EXIF, _TAKEN, _FRACTION = 0x8769, 0x9003, 0x9291
_MAKE, _MODEL, _SERIAL = 0x010F, 0x0110, 0xA431


def read_exif(
    root: Path, images: Sequence[str]
) -> tuple[list[datetime.datetime | None], list[str]]:
    """Time and device of each photo; None and "" where its file does not say."""
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda image: _read(root / image), images))
    return [time for time, _ in read], [device for _, device in read]


def _read(path: Path) -> tuple[datetime.datetime | None, str]:
    from PIL import Image

    # Damaged files raise whatever Pillow's parsers run into; they are told elsewhere.
    with contextlib.suppress(Exception), Image.open(path) as image:
        exif = image.getexif()
        inner = exif.get_ifd(_EXIF)
        device = " ".join(
            str(tag) for tag in (exif.get(_MAKE), exif.get(_MODEL), inner.get(_SERIAL))
        )
        return _time(str(inner.get(_TAKEN, "")), str(inner.get(_FRACTION, ""))), device
    return None, ""


def _time(text: str, fraction: str) -> datetime.datetime | None:
    with contextlib.suppress(ValueError):
        time = datetime.datetime.strptime(text.strip(), "%Y:%m:%d %H:%M:%S")
        is_reset = (time.month, time.day) == (1, 1) and time.year in (1970, 1980, 2000, 2010)
        if is_reset or not 1990 <= time.year <= datetime.date.today().year:
            return None
        digits = fraction.strip()[:6]
        return time.replace(microsecond=int(digits.ljust(6, "0")) if digits.isdecimal() else 0)
    return None
