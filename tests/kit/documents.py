"""Tasks in lmms-eval's form, their code and their tables, written where a test wants them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

from PIL import Image

from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.groups import load_document_task
from fieldmark.lmms.read.schema import DocumentTask


def write_task(folder: Path, text: str, code: str = "", name: str = "task.yaml") -> DocumentTask:
    """The task of a file with this text; `code` is its utils.py."""
    folder.mkdir(parents=True, exist_ok=True)
    if code:
        (folder / "utils.py").write_text(dedent(code))
    path = folder / name
    path.write_text("task: made\n" + (dedent(text) or "score_key: score"))
    return load_document_task(path, Trust.of(folder))


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def picture_bytes(
    kind: str = "JPEG", colour: tuple[int, int, int] = (200, 60, 20), **more: Any
) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (12, 8), colour).save(target, kind, **more)
    return target.getvalue()


def row_of(data: bytes) -> dict[str, Any]:
    """As an image column of a table holds a picture."""
    return {"bytes": data, "path": None}
