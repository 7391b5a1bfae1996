"""Stored predictions: how are they packed into a few blobs, and what did runs answer?

By name for a person, in whole numbers for statistics. Names are numbers in the file (`text.id`,
0: none). The rows of a part are in the order of the items' names, whoever wrote them, so that what
was asked is byte-equal for all models that were asked it.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmark.store.database import Database
from fieldmark.store.records import OK, answer_sum, items_key

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.store.writing import TextTable

NOT_ASKED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What several runs (m) said about the items (n) that all of them were asked.

    Names are numbers; `Store.texts` has the names.
    """

    part: np.ndarray
    repeat: np.ndarray
    item: np.ndarray
    target: np.ndarray
    unit: np.ndarray
    """0: the item itself"""
    prediction_mn: np.ndarray
    """0: no answer; -1 (in `select_drawn` only): not asked"""
    score_mn: np.ndarray | None = None
    """how sure; NaN: not known; None: not asked for"""

    def taken(self, which: np.ndarray) -> Answers:
        """Only the items where `which` is true."""
        if which.all():
            return self
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        some: dict[str, Any] = {
            k: None if column is None else column[..., which] for k, column in columns.items()
        }
        return Answers(**some)

    def of_rows(self, rows: np.ndarray) -> Answers:
        """Only what these of the rows said."""
        if len(rows) == len(self.prediction_mn):
            return self
        score_mn = None if self.score_mn is None else self.score_mn[rows]
        return replace(self, prediction_mn=self.prediction_mn[rows], score_mn=score_mn)


def select_answers(database: Database, runs: Sequence[int], with_scores: bool = False) -> Answers:
    """The items that all runs (one at least) were asked, in the order of part and repeat."""
    pieces, items_of = _pieces(database, runs, with_scores)
    joined = [
        _joined(where, [draw_pieces[run] for run in runs], items_of, with_scores)
        for where, draw_pieces in sorted(pieces.items())
        if len(draw_pieces) == len(set(runs))
    ]
    if not joined:
        nothing = ItemColumns(*[np.empty(0, NUMBER)] * 3)
        joined = [_joined((0, 0), [_Piece(0, b"", None)] * len(runs), {0: nothing}, with_scores)]
    return joined[0] if len(joined) == 1 else _chained(joined)


def select_drawn(
    database: Database, draws: Sequence[Sequence[tuple[int, int]]], with_scores: bool = False
) -> Answers:
    """What m rows said in several draws; each draw names a run and one of its repeats per row.

    The items of a part are those that most rows were asked in that draw; a row that was not asked
    one of them (with the same target) has `NOT_ASKED` there. `repeat` numbers the draws.
    """
    runs = list(dict.fromkeys(run for draw in draws for run, _ in draw))
    pieces, items_of = _pieces(database, runs, with_scores)
    parts = sorted({part for part, _ in pieces})
    joined = []
    for number, draw in enumerate(draws):
        for part in parts:
            run_pieces = [pieces.get((part, repeat), {}).get(run) for run, repeat in draw]
            if any(run_pieces):
                joined.append(_filled((part, number), run_pieces, items_of, with_scores))
    if not joined:
        return select_answers(database, [run for run, _ in draws[0]], with_scores)
    return joined[0] if len(joined) == 1 else _chained(joined)


def select_repeats(database: Database, runs: Sequence[int]) -> dict[int, list[int]]:
    """Run → its repeats in order."""
    marks = ",".join("?" * len(runs))
    sql = f"SELECT DISTINCT run, repeat FROM answer WHERE run IN ({marks}) ORDER BY run, repeat"
    repeats: dict[int, list[int]] = {}
    for run, repeat in database.rows(sql, list(runs)):
        repeats.setdefault(run, []).append(repeat)
    return repeats


def _filled(
    where: tuple[int, int],
    pieces: Sequence[_Piece | None],
    items_of: Mapping[int, ItemColumns],
    with_scores: bool,
) -> Answers:
    """The items that most pieces have (of several such lists, the longest)."""
    counts = Counter(piece.items for piece in pieces if piece)
    usual = items_of[max(counts, key=lambda number: (counts[number], len(items_of[number].item)))]
    rows = {number: _rows_of(usual, items_of[number]) for number in counts}
    n = len(usual.item)
    prediction_mn = np.full((len(pieces), n), NOT_ASKED, NUMBER)
    score_mn = np.full((len(pieces), n), np.nan) if with_scores else None
    for model, piece in enumerate(pieces):
        if piece is None:
            continue
        at = rows[piece.items]
        is_asked = slice(None) if at is None else at >= 0
        from_row = slice(None) if at is None else at[is_asked]
        prediction_mn[model, is_asked] = unpack(piece.prediction)[from_row]
        if score_mn is not None:
            score_mn[model, is_asked] = _scores(piece)[from_row]
    part, repeat = (np.full(n, number) for number in where)
    return Answers(part, repeat, usual.item, usual.target, usual.unit, prediction_mn, score_mn)


def _chained(answers: Sequence[Answers]) -> Answers:
    columns = {
        column.name: [getattr(one, column.name) for one in answers] for column in fields(Answers)
    }
    whole: dict[str, Any] = {
        name: None if pieces[0] is None else np.concatenate(pieces, axis=-1)
        for name, pieces in columns.items()
    }
    return Answers(**whole)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One part and repeat of one run."""

    items: int
    prediction: bytes
    score: bytes | None


def _pieces(
    database: Database, runs: Sequence[int], with_scores: bool
) -> tuple[Mapping[tuple[int, int], dict[int, _Piece]], dict[int, ItemColumns]]:
    """Part and repeat → run → what it said; and what was asked, by number."""
    marks = ",".join("?" * len(runs))
    score = "score" if with_scores else "NULL"
    rows = database.rows(
        f"SELECT part, repeat, run, items, prediction, {score} FROM answer WHERE run IN ({marks})",
        list(runs),
    )
    pieces: dict[tuple[int, int], dict[int, _Piece]] = {}
    for part, repeat, run, *rest in rows:
        pieces.setdefault((part, repeat), {})[run] = _Piece(*rest)
    items_of = {}
    for number in {piece.items for of_run in pieces.values() for piece in of_run.values()}:
        sql = "SELECT item, target, unit, content FROM item_list WHERE id = ?"
        *columns, content = database.rows(sql, [number])[0]
        key = None if content is None else np.frombuffer(content, np.uint64).reshape(-1, 2)
        items_of[number] = replace(unpack_asked(*columns), content=key)
    return pieces, items_of


def _joined(
    where: tuple[int, int],
    pieces: Sequence[_Piece],
    items_of: Mapping[int, ItemColumns],
    with_scores: bool,
) -> Answers:
    """The items that all pieces have, with the same target."""
    usual = items_of[pieces[0].items]
    rows = {
        number: _rows_of(usual, items_of[number]) for number in {piece.items for piece in pieces}
    }
    prediction = [_aligned(unpack(piece.prediction), rows[piece.items]) for piece in pieces]
    score = (
        [_aligned(_scores(piece), rows[piece.items]) for piece in pieces] if with_scores else None
    )
    part, repeat = (np.full(len(usual.item), number) for number in where)
    joined = Answers(
        part,
        repeat,
        usual.item,
        usual.target,
        usual.unit,
        np.stack(prediction),
        None if score is None else np.stack(score),
    )
    is_common = [at >= 0 for at in rows.values() if at is not None]
    return joined.taken(np.logical_and.reduce(is_common)) if is_common else joined


def _aligned(column: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    return column if rows is None else column[rows]


def _rows_of(usual: ItemColumns, other: ItemColumns) -> np.ndarray | None:
    """Where each item of the first stands in the other; -1: it does not, or with another target or
    another image.

    None: they are the same.
    """
    if usual is other:
        return None
    if not len(other.item):
        return np.full(len(usual.item), -1)
    order = np.argsort(other.item, kind="stable")
    at = np.searchsorted(other.item, usual.item, sorter=order)
    row = order[np.minimum(at, len(order) - 1)]
    is_same = (other.item[row] == usual.item) & (other.target[row] == usual.target)
    if usual.content is not None and other.content is not None:
        row_content, its = usual.content, other.content[row]
        is_known = row_content.any(axis=1) & its.any(axis=1)
        is_same &= (row_content == its).all(axis=1) | ~is_known
    return np.where(is_same, row, -1)


def _scores(piece: _Piece) -> np.ndarray:
    if piece.score is None:
        return np.full(len(unpack(piece.prediction)), np.nan)
    return np.frombuffer(piece.score, REAL)


def count_outcomes(database: Database, names: TextTable, run: int) -> dict[str, int]:
    rows = database.rows(
        "SELECT outcome, n FROM answer JOIN item_list ON item_list.id = items WHERE run = ?", [run]
    )
    counted: Counter[str] = Counter()
    for outcome, n in rows:
        if outcome is None:
            counted[OK] += n
            continue
        numbers, counts = np.unique(unpack(outcome), return_counts=True)
        texts = names.texts(numbers.tolist())
        counted.update(
            dict(zip(map(texts.__getitem__, numbers.tolist()), counts.tolist(), strict=True))
        )
    return dict(sorted(counted.items()))


def select_predictions(
    database: Database, names: TextTable, run: int, part: str | None = None
) -> pl.DataFrame:
    """One row per prediction, by part, repeat and id."""
    import polars as pl

    rows = database.rows(
        "SELECT text.value, repeat, content, item, target, unit, prediction, outcome, score, info "
        "FROM answer JOIN item_list ON item_list.id = items JOIN text ON text.id = part "
        f"WHERE run = ?{'' if part is None else ' AND text.value = ?'} "
        "ORDER BY text.value, repeat",
        [run] if part is None else [run, part],
    )
    frames = [_frame(names, *row) for row in rows]
    return pl.concat(frames) if frames else _frame(names, "", 0, None, *[b""] * 6, None)


def _frame(
    names: TextTable, part: str, repeat: int, content: bytes | None, *blobs: Any
) -> pl.DataFrame:
    import polars as pl

    item, target, unit, prediction, outcome, score, info = blobs
    n = len(unpack(item))

    def named(blob: bytes | None) -> pl.Series:
        if blob is None:
            return pl.repeat(OK, n, dtype=pl.String, eager=True)
        numbers, at = np.unique(unpack(blob), return_inverse=True)
        texts = names.texts(numbers[numbers > 0].tolist())
        return pl.Series(map(texts.get, numbers.tolist()), dtype=pl.String).gather(at)

    scores = np.full(n, np.nan) if score is None else np.frombuffer(score, REAL)
    texts = [None] * n if info is None else json.loads(zlib.decompress(info))
    digests = [b""] * n if content is None else np.frombuffer(content, CONTENT).tolist()
    return pl.DataFrame(
        {
            "part": pl.repeat(part, n, dtype=pl.String, eager=True),
            "repeat": pl.repeat(repeat, n, dtype=pl.Int64, eager=True),
            "id": named(item),
            "target": named(target),
            "prediction": named(prediction),
            "score": pl.Series(scores).fill_nan(None),
            "unit": named(unit),
            "outcome": named(outcome),
            "info": pl.Series(texts, dtype=pl.String),
            "content": pl.Series(
                [digest if any(digest) else None for digest in digests], dtype=pl.Binary
            ),
        },
    )


# --- packing ---


NUMBER = np.dtype("<i4")
REAL = np.dtype("<f8")
CONTENT = np.dtype("V16")
"""digest of what an item's images hold; zeros: not known"""


@dataclass(frozen=True, slots=True, eq=False)
class ItemColumns:
    """What was asked in one part."""

    item: np.ndarray
    target: np.ndarray
    unit: np.ndarray
    content: np.ndarray | None = None
    """16 bytes of each item's images, as two numbers; zeros, or None: not known"""


def insert_columns(
    connection: sqlite3.Connection,
    where: tuple[int, int, int],
    columns: Mapping[str, Sequence[Any]],
    numbers: Mapping[str, int],
) -> None:
    """Writes the predictions of a part: columns of names, in any order."""
    order = sorted(range(len(columns["item"])), key=columns["item"].__getitem__)
    rows = {name: [column[at] for at in order] for name, column in columns.items()}
    packed_items = [_pack(rows[name], numbers) for name in ("item", "target", "unit")]
    digests = [digest or bytes(CONTENT.itemsize) for digest in rows["content"]]
    content = b"".join(digests) if any(rows["content"]) else None
    scores = np.array([np.nan if score is None else score for score in rows["score"]], REAL)
    texts = json.dumps(rows["info"], ensure_ascii=False).encode()
    # None, not a blob, where all rows are as usual.
    packed = [
        _pack(rows["prediction"], numbers),
        None if all(name == OK for name in rows["outcome"]) else _pack(rows["outcome"], numbers),
        None if np.isnan(scores).all() else scores.tobytes(),
        None if all(text is None for text in rows["info"]) else zlib.compress(texts, level=3),
    ]
    insert_answer(
        connection, where, keep_items(connection, len(order), packed_items, content), packed
    )


def insert_answer(
    connection: sqlite3.Connection,
    where: tuple[int, int, int],
    items: int,
    packed: Sequence[bytes | None],
) -> None:
    """`packed`: prediction, outcome, score, info."""
    connection.execute(
        "INSERT INTO answer (run, part, repeat, items, prediction, outcome, score, info, sum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [*where, items, *packed, answer_sum(packed)],
    )


def keep_items(
    connection: sqlite3.Connection, n: int, packed_items: Sequence[bytes], content: bytes | None
) -> int:
    """The number of a list of items (packed: item, target, unit), which is kept once."""
    key = items_key(packed_items, content)
    item_list = connection.execute("SELECT id FROM item_list WHERE key = ?", [key]).fetchone()
    if item_list is None:
        item_list = connection.execute(
            "INSERT INTO item_list (key, n, item, target, unit, content) "
            "VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
            [key, n, *packed_items, content],
        ).fetchone()
    return int(item_list[0])


def _pack(names: Sequence[str | None], numbers: Mapping[str, int]) -> bytes:
    return np.array([0 if name is None else numbers[name] for name in names], NUMBER).tobytes()


def unpack(blob: bytes) -> np.ndarray:
    return np.frombuffer(blob, NUMBER)


def unpack_asked(item: bytes, target: bytes, unit: bytes) -> ItemColumns:
    return ItemColumns(unpack(item), unpack(target), unpack(unit))
