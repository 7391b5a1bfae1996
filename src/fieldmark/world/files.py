"""Photo files: a photo of the world becomes a JPEG or PNG file, whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.errors import DataError, UsageError

if TYPE_CHECKING:
    from fieldmark.world.world import Photo

_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}


def write_photo(photo: Photo, path: Path) -> None:
    """Writes JPEG or PNG, as the suffix says; the file appears whole or not at all."""
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"{path}  has no known suffix: expected one of {', '.join(_FORMATS)}.")
    buffer = io.BytesIO()
    photo.image.save(buffer, kind, quality=90)
    write_file(path, buffer.getvalue())


def write_file(path: Path, data: bytes) -> None:
    """The file appears whole or not at all."""
    passing = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        passing.write_bytes(data)
        passing.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            passing.unlink(missing_ok=True)
        raise DataError(f"{path}  cannot be written: {error.strerror or error}.") from error
