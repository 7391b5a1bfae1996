"""Captioning plan: which shards are to be captioned, how, and what is known of each before?

Everything that can be refused without asking a model is refused here or from what is read here:
two shards of one name, a copy that would overwrite its shard, a folder that cannot be written.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldmark.build.caption.job import shard_name
from fieldmark.build.caption.outcomes import unwritable
from fieldmark.build.caption.prompt import MAX_WORDS
from fieldmark.build.shards import shard_index
from fieldmark.build.shards.materialize import EXTENSION
from fieldmark.chat import AnswerSettings, Budget, Options
from fieldmark.chat.prices import Card
from fieldmark.data import stamp
from fieldmark.errors import DataError, UsageError
from fieldmark.files import write_file

ROOM, ROOM_OF_UNKNOWN, ROOM_TO_THINK = 128, 1024, 16_384
"""tokens of an answer: a sentence; of a model that may think first; of one that does"""
TRIES = 3


@dataclass(frozen=True, slots=True)
class CaptionOptions:
    """How captions are asked for."""

    max_words: int = MAX_WORDS
    tries: int = TRIES
    """answers per photo, the first included"""
    temperature: float = 0.0
    top_p: float | None = None
    max_output: int | None = None
    """tokens of an answer; None = by the model"""
    sending: Options = Options()
    budget: Budget = field(default_factory=Budget)
    materialize: Path | None = None
    """folder for copies of the shards with a caption.txt in each sample"""
    retry_errors: bool = False
    """shards with errors are done again; only what failed is asked, quarantined photos too"""

    def answer_settings(self, card: Card) -> AnswerSettings:
        room = ROOM_TO_THINK if card.thinks else ROOM if card.is_known else ROOM_OF_UNKNOWN
        room = self.max_output or min(room, card.max_output or room)
        return AnswerSettings(self.temperature, self.top_p, max_output_tokens=room)


def shards_by_name(shards: Sequence[Path]) -> dict[str, Path]:
    """Names of outputs are those of the shards, which must therefore differ."""
    names: dict[str, Path] = {}
    for path in shards:
        name = shard_name(path)
        if name in names and names[name] != path:
            raise UsageError(
                f"{path}  has the name of {names[name]}, and so would its captions: "
                "give each a command and an --out of its own."
            )
        if not path.is_file():
            raise DataError(f"{path}  does not exist: expected a webdataset shard (.tar).")
        names[name] = path
    return names


def check_copies(shards: Mapping[str, Path], folder: Path | None) -> None:
    """UsageError where a copy would be the shard itself, StoreError where none can be written."""
    if folder is None:
        return
    for name, path in shards.items():
        if (folder / f"{name}.tar").resolve() == path.resolve():
            raise UsageError(
                f"--materialize {folder}: holds the shard {path.name} itself: copies need another "
                "folder."
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error


def shard_facts(path: Path, memory: Path) -> dict[str, Any]:
    """What a shard holds; read anew unless its file is untouched since it was read last."""
    mark, is_settled = stamp(path)
    with contextlib.suppress(OSError, ValueError, KeyError):
        known = json.loads(memory.read_bytes())
        if known["stamp"] == mark.hex() and "n_captions" in known["facts"]:
            return dict(known["facts"])
    index = shard_index(path)
    facts = {
        "sha256": index.sha256,
        "n_bytes": index.n_bytes,
        "n_samples": index.n_samples,
        "keys_sha256": index.keys_sha256,
        "n_captions": index.extensions.get(EXTENSION, 0),
    }
    if is_settled:
        note = {"stamp": mark.hex(), "facts": facts}
        with contextlib.suppress(DataError):  # only remembered to save time
            write_file(memory, json.dumps(note).encode())
    return facts
