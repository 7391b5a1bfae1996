"""How do the predictions of a part become a few blobs, and back?

Names are numbers here (`text.id`, 0: none). Rows are in the order of the items' names, whoever
wrote them, so that what was asked is byte-equal for all models that were asked it.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from fieldmark.store.records import OK

NUMBER = np.dtype("<i4")
REAL = np.dtype("<f8")
CONTENT = np.dtype("V16")
"""digest of what an item's images hold; zeros: not known"""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What was asked in one part."""

    item: np.ndarray
    target: np.ndarray
    unit: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """What came back; None where all rows are as usual."""

    prediction: np.ndarray
    outcome: np.ndarray | None
    score: np.ndarray | None
    info: list[str | None] | None


def insert_columns(
    connection: sqlite3.Connection,
    where: tuple[int, int, int],
    columns: Mapping[str, Sequence[Any]],
    numbers: Mapping[str, int],
) -> None:
    """Writes the predictions of a part: columns of names, in any order."""
    order = sorted(range(len(columns["item"])), key=columns["item"].__getitem__)
    rows = {name: [column[at] for at in order] for name, column in columns.items()}
    asked = [_pack(rows[name], numbers) for name in ("item", "target", "unit")]
    content = _pack_contents(rows["content"])
    is_plain = all(each == OK for each in rows["outcome"])
    connection.execute(
        "INSERT INTO answer (run, part, repeat, items, prediction, outcome, score, info) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            *where,
            _item_list(connection, len(order), asked, content),
            _pack(rows["prediction"], numbers),
            None if is_plain else _pack(rows["outcome"], numbers),
            _pack_reals(rows["score"]),
            _pack_texts(rows["info"]),
        ],
    )


def _item_list(
    connection: sqlite3.Connection, n: int, asked: Sequence[bytes], content: bytes | None
) -> int:
    key = blake2b(b"".join([*asked, content or b""]), digest_size=16).digest()
    found = connection.execute("SELECT id FROM item_list WHERE key = ?", [key]).fetchone()
    if found is None:
        found = connection.execute(
            "INSERT INTO item_list (key, n, item, target, unit, content) "
            "VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
            [key, n, *asked, content],
        ).fetchone()
    return int(found[0])


def _pack(names: Sequence[str | None], numbers: Mapping[str, int]) -> bytes:
    return np.array([0 if name is None else numbers[name] for name in names], NUMBER).tobytes()


def _pack_contents(digests: Sequence[bytes | None]) -> bytes | None:
    if all(digest is None for digest in digests):
        return None
    unknown = bytes(CONTENT.itemsize)
    return b"".join(unknown if digest is None else digest for digest in digests)


def unpack_contents(blob: bytes | None, n: int) -> list[bytes | None]:
    if blob is None:
        return [None] * n
    found = np.frombuffer(blob, CONTENT).tolist()
    return [digest if any(digest) else None for digest in found]


def _pack_reals(values: Sequence[float | None]) -> bytes | None:
    reals = np.array([np.nan if value is None else value for value in values], REAL)
    return None if np.isnan(reals).all() else reals.tobytes()


def _pack_texts(texts: Sequence[str | None]) -> bytes | None:
    if all(text is None for text in texts):
        return None
    return zlib.compress(json.dumps(texts, ensure_ascii=False).encode(), level=3)


def unpack(blob: bytes) -> np.ndarray:
    return np.frombuffer(blob, NUMBER)


def unpack_asked(item: bytes, target: bytes, unit: bytes) -> Asked:
    return Asked(unpack(item), unpack(target), unpack(unit))


def unpack_answered(
    prediction: bytes, outcome: bytes | None, score: bytes | None, info: bytes | None
) -> Answered:
    return Answered(
        unpack(prediction),
        None if outcome is None else unpack(outcome),
        None if score is None else np.frombuffer(score, REAL),
        None if info is None else json.loads(zlib.decompress(info)),
    )
