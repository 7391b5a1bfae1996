"""What the tests of datasets share: a small photo, and the lines a dataset says about a folder."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fieldmark.data import Dataset
from fieldmark.errors import DataError


def jpeg(size: tuple[int, int] = (20, 20), colour: str = "green") -> bytes:
    """The bytes of a photo of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "JPEG")
    return buffer.getvalue()


def finding_lines(dataset: Dataset, root: Path) -> list[str]:
    """What `check` says, `level: text` a line, with ROOT for the folder."""
    return [
        f"{finding.level}: {finding.text}".replace(str(root), "ROOT")
        for finding in dataset.check(root)
    ]


def table_error(dataset: Dataset, root: Path, **options: Any) -> str:
    """The one line with which `table` refuses the folder."""
    with pytest.raises(DataError) as caught:
        dataset.table(root, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(root), "ROOT")
