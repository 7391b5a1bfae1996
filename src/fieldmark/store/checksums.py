"""Checksums (CRC-32): are predictions and scores in the store as they were written?

A disk that flips a bit, or somebody's editor, leaves numbers that look like any others. `doctor`
and merging compare; `table`, which must stay fast, does not. A list of items has its own: its key.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fieldmark.store.database import Database

SCORE_COLUMNS = (
    "part, metric, value, low, high, level, n, n_units, method, is_primary, higher_is_better, "
    "is_fraction, warning"
)


def answer_sum(columns: Sequence[bytes | None]) -> int:
    """Of the packed columns: prediction, outcome, score, info."""
    crc = 0
    for blob in columns:
        length = -1 if blob is None else len(blob)
        crc = zlib.crc32(blob or b"", zlib.crc32(length.to_bytes(8, "little", signed=True), crc))
    return crc


def score_sum(columns: Sequence[Any]) -> int:
    """Of a score's `SCORE_COLUMNS`."""
    plain = [float(value) if isinstance(value, (int, float)) else value for value in columns]
    return zlib.crc32(repr(plain).encode("utf-8", "surrogatepass"))


def items_key(asked: Sequence[bytes], content: bytes | None) -> bytes:
    return blake2b(b"".join([*asked, content or b""]), digest_size=16).digest()


def find_damage(database: Database) -> Iterator[str]:
    """What is not as it was written, one line each. Reads all of the store."""
    answers = database.connection.execute(
        "SELECT run, text.value, repeat, prediction, outcome, score, info, sum FROM answer "
        "LEFT JOIN text ON text.id = answer.part ORDER BY run, answer.part, repeat"
    )
    for run, part, repeat, *columns, written in answers:
        if answer_sum(columns) != written:
            yield f"run {run}: predictions of part {part!r}, repeat {repeat}"
    lists = database.connection.execute(
        "SELECT id, key, item, target, unit, content FROM item_list"
    )
    for number, key, *asked, content in lists:
        if items_key(asked, content) != key:
            rows = database.rows("SELECT DISTINCT run FROM answer WHERE items = ?", [number])
            yield f"run {', '.join(str(run) for (run,) in rows)}: what was asked"
    scores = database.connection.execute(
        f"SELECT run, sum, {SCORE_COLUMNS} FROM score ORDER BY run, part, metric"
    )
    for run, written, *columns in scores:
        if score_sum(columns) != written:
            yield f"run {run}: score {columns[1]!r} of part {columns[0]!r}"
