"""Captioned copies (cache validation): is the copy of a shard the one of these captions?

A note beside the captions says of which shard and which captions a copy was made, by their hashes,
and how the file looked then (size, time). Another run may have written to the same place, or the
captions may have been made anew without a copy: then the note does not fit, and the copy is made
again. Nothing of the copy is read for that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.build.caption.outcomes import read_manifest
from fieldmark.build.shards import materialize
from fieldmark.errors import DataError
from fieldmark.files import write_file


@dataclass(frozen=True, slots=True)
class CaptionedCopy:
    """Where the copy of a shard goes, and the note about it."""

    shard: Path
    path: Path
    note: Path

    def is_of(self, input_sha256: str, captions_sha256: str) -> bool:
        """Was it made of just these, and not touched since?"""
        try:
            return read_manifest(self.note) == self._facts(input_sha256, captions_sha256)
        except OSError:
            return False

    def make(self, captions: Path, input_sha256: str, captions_sha256: str) -> None:
        """DataError where it cannot be written; the one that was there is gone then, too."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{self.path}  cannot be written: {error.strerror}.") from error
        materialize(self.shard, captions, self.path)
        facts = self._facts(input_sha256, captions_sha256)
        write_file(self.note, f"{json.dumps(facts)}\n".encode())

    def _facts(self, input_sha256: str, captions_sha256: str) -> dict[str, Any]:
        state = self.path.stat()
        return {
            "input_sha256": input_sha256,
            "captions_sha256": captions_sha256,
            "n_bytes": state.st_size,
            "modified_ns": state.st_mtime_ns,
        }
