"""Photo files: a photo of the world becomes a JPEG or PNG file, whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.errors import UsageError
from fieldmark.files import write_file

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
