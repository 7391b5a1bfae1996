"""Records of batches: which questions wait in which batch, whatever happens to this process?

One file per batch beside the answer journal, replaced as a whole and forced to disk. It is written
before the batch is handed in (an intent, without the provider's id) and again when the provider has
named it, so that a `kill -9` at any moment leaves enough to find the batch again.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.errors import DataError, StoreError
from fieldmark.files import write_file

FOLDER = "batches"
"""under the journal's"""


@dataclass(frozen=True, slots=True)
class BatchedQuestion:
    """What is needed to keep the answer when it comes."""

    key: str
    id: str
    repeat: int = 0
    stop: tuple[str, ...] = ()
    resized: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchRecord:
    name: str
    """ours: drawn at random, told to the provider where it takes one"""
    address: str
    """provider, base URL and model, as in the keys of the journal"""
    questions: tuple[BatchedQuestion, ...]
    usd: float | None = None
    """what it may cost"""
    tokens: int = 0
    id: str = ""
    """the provider's; "" = it was about to be handed in"""
    is_guess: bool = False
    """the id is that of a batch that looks like this one, at a provider where they have no names"""
    not_ids: tuple[str, ...] = ()
    """batches that turned out to be others"""
    at: float = dataclasses.field(default_factory=time.time)
    """seconds since 1970"""

    @property
    def title(self) -> str:
        return self.id or f"a batch named {self.name}"

    def path(self, journal: Path) -> Path:
        return journal / FOLDER / f"{self.name}.json"

    def save(self, journal: Path) -> None:
        """It is on disk when this returns."""
        path = self.path(journal)
        try:
            write_file(path, json.dumps(dataclasses.asdict(self)).encode(), is_durable=True)
        except DataError as error:
            raise StoreError(f"the record of a batch: {error}") from error

    def delete(self, journal: Path) -> None:
        self.path(journal).unlink(missing_ok=True)


def load_records(journal: Path) -> Iterator[BatchRecord]:
    """Batches whose results are not in the journal yet, oldest first."""
    records = [_read(path) for path in (journal / FOLDER).glob("*.json")]
    yield from sorted(records, key=lambda record: (record.at, record.name))


def waiting_keys(journal: Path) -> dict[str, str]:
    """Key of a question → the batch it waits in."""
    return {
        question.key: record.title
        for record in load_records(journal)
        for question in record.questions
    }


def _read(path: Path) -> BatchRecord:
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            BatchedQuestion(
                row["key"], row["id"], row["repeat"], tuple(row["stop"]), tuple(row["resized"])
            )
            for row in data["questions"]
        ]
        return BatchRecord(**{**data, "questions": tuple(rows), "not_ids": tuple(data["not_ids"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{path}  is not the record of a batch: {error}. Its questions may wait at the "
            "provider; delete the file to give them up."
        ) from error
