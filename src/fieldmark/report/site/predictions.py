"""Packed predictions: how do the answers of all models on a task travel to the page?

As columns of small whole numbers beside a dictionary of names, packed: a length, a JSON header,
then the columns one after the other, little-endian, each starting at a multiple of four; all of it
gzipped. A label is stored as its number plus one, so that 0 means no answer. Texts that were
answered are labels here, and `sure` is what each was worth: the text does not tell if it is right.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fieldmark.errors import UnknownName
from fieldmark.protocols import may_fail, protocol_of
from fieldmark.report.compare.paired import score_rule
from fieldmark.report.providers import is_valued, value_metric
from fieldmark.report.rows import Row, Table, read_table
from fieldmark.report.site.summary import columns_of, public_table
from fieldmark.report.table.verdict import named
from fieldmark.report.tiers import LEAST_ASKED
from fieldmark.store import OK, UNANSWERED, Score, Store

_NO_SCORE = 255
RIGHT, GRADED, TEXTS = "right", "graded", "texts"
LONGEST = 400
"""letters of an answer's text that the page knows"""
THUMB_BYTES = 6
"""of a thumbnail's name"""


@dataclass(frozen=True, slots=True)
class ColumnData:
    """What was asked and answered in one column; arrays have one entry per item."""

    ids: list[str]
    labels: list[str]
    parts: list[str]
    arrays: Mapping[str, np.ndarray]
    """id, part, target, unit; answer and sure of each model by its number: `answer 0`, `sure 0`"""
    models: list[str]
    rule: str
    """how parts make one score: "mean", "pooled", or the part whose score it is"""
    ranges: list[tuple[float, float] | None]
    """what 0 and 254 stand for in a model's `sure`; None: not known"""
    scores: list[list[Any]]
    """of parts: model, part, value, low, high, n"""
    judged: str = ""
    """how texts are judged: "right" (worth 1) or not, "graded", or only "texts"; "": labels"""

    def times_wrong(self) -> dict[str, int]:
        """How many models answered wrongly, by item id; 0 of texts, which have no photos."""
        target = self.arrays["target"]
        wrong = np.zeros(len(target), np.int64)
        for number in range(len(self.models) if not self.judged else 0):
            answer = self.arrays[f"answer {number}"]
            wrong += (answer != target) & (answer > 0)
        total = np.bincount(self.arrays["id"], wrong, len(self.ids))
        return {item: int(n) for item, n in zip(self.ids, total, strict=True)}


def task_predictions(store: Store, column: str, table: Table | None = None) -> bytes:
    """The packed predictions of the column of that name (as `build_summary` names it)."""
    columns = columns_of(table or public_table(read_table(store, compare=False)))
    if column not in columns:
        raise UnknownName("column of these results", column, columns)
    rows = asked_alike(store, columns[column])
    return pack(read_column(store, rows, store.scores()))


def asked_alike(store: Store, rows: Sequence[Row]) -> list[Row]:
    """The rows that were asked what most of them were: one that was asked about other or few
    photos would leave nothing that all of them share.
    """
    cells = [[(row.run.id, 0) for row in rows]]
    has_mn = store.drawn_answers(cells).prediction_mn >= 0
    if len(rows) < 2 or not has_mn.size:
        return list(rows)
    share_m = has_mn.mean(axis=1).tolist()
    return [row for row, share in zip(rows, share_m, strict=True) if share >= LEAST_ASKED]


def others_note(rows: Sequence[Row], kept: Sequence[Row]) -> str:
    """Whose predictions are not shown beside those of the others."""
    names = [row.name for row in rows if row not in kept]
    if not names:
        return ""
    were, their = ("was", "its") if len(names) == 1 else ("were", "their")
    what = f"{were} asked about other or fewer photos: {their} predictions are not shown"
    return f"{named(names)} {what}."


def read_column(
    store: Store,
    rows: Sequence[Row],
    scores: Mapping[int, list[Score]],
) -> ColumnData:
    """The answers of all rows of a column to the items they share, by part, repeat and id."""
    answers = store.answers([row.run.id for row in rows], with_scores=True)
    judged = _judged(rows, answers.score_mn)
    ids, item = _named(store, answers.item)
    parts, part = _named(store, answers.part)
    labels, label = _named(store, np.concatenate([answers.target[None], answers.prediction_mn]))
    unit = np.unique(np.where(answers.unit > 0, answers.unit, answers.item), return_inverse=True)[1]
    order = np.lexsort((item, answers.repeat, part))
    arrays = {
        "id": item[order],
        "part": part[order],
        "repeat": answers.repeat[order],
        "target": label[0][order] + 1,
        "unit": unit[order],
    }
    ranges = []
    for number, answer in enumerate(label[1:]):
        score = np.full(len(order), np.nan)
        if answers.score_mn is not None and judged != TEXTS:
            score = answers.score_mn[number]
        sure, span = _quantised(score[order])
        arrays |= {f"answer {number}": answer[order] + 1, f"sure {number}": sure}
        ranges.append(span)
    shown = [_cut(label) for label in labels] if judged else labels
    return ColumnData(
        ids, shown, parts, arrays, [row.name for row in rows], score_rule(rows[0].run),
        ranges, _part_scores(rows, scores), judged,
    )  # fmt: skip


def _cut(text: str) -> str:
    """An answer may be pages long: what a page of the site shows of it."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _judged(rows: Sequence[Row], score_mn: np.ndarray | None) -> str:
    row = rows[0]
    if not is_valued(row.run):
        return ""
    if score_mn is None or row.score.metric != value_metric(row.run):
        return TEXTS
    finite = score_mn[np.isfinite(score_mn)]
    return RIGHT if row.score.higher_is_better and np.isin(finite, (0, 1)).all() else GRADED


def pack(data: ColumnData, thumbs: Mapping[str, str] | None = None) -> bytes:
    """`thumbs`: item id → name of its thumbnail."""
    arrays = {name: _smallest(array) for name, array in data.arrays.items()}
    if thumbs:
        empty = "00" * THUMB_BYTES
        names = "".join(thumbs.get(item, empty) for item in data.ids)
        arrays["thumb"] = np.frombuffer(bytes.fromhex(names), np.uint8)
    blobs, layout, at = [], {}, 0
    for name, array in arrays.items():
        blob = array.astype(array.dtype.newbyteorder("<")).tobytes()
        layout[name] = [at, len(array), array.dtype.itemsize]
        blobs.append(blob + b"\0" * (-len(blob) % 4))
        at += len(blobs[-1])
    header = {
        "n": len(data.arrays["id"]), "ids": data.ids, "labels": data.labels, "parts": data.parts,
        "models": data.models, "rule": data.rule, "ranges": data.ranges, "scores": data.scores,
        "judged": data.judged, "layout": layout,
    }  # fmt: skip
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    packed = len(text).to_bytes(4, "little") + text + b"".join(blobs)
    return gzip.compress(packed, compresslevel=6, mtime=0)


def pack_replies(store: Store, rows: Sequence[Row], data: ColumnData) -> bytes:
    """What models that answer were asked and wrote: JSON, row → [prompt, reply, why it is none]
    of each item in the order of `data` (null: nothing is known), gzipped. b"" where no row has any.
    """
    arrays = (data.arrays[name].tolist() for name in ("part", "repeat", "id"))
    order = {
        (data.parts[part], repeat, data.ids[item]): at
        for at, (part, repeat, item) in enumerate(zip(*arrays, strict=True))
    }
    texts: dict[int, list[list[str] | None]] = {}
    for number, row in enumerate(rows):
        if not may_fail(protocol_of(row.run.spec.protocol)):
            continue
        frame = store.predictions(row.run.id).filter(pl.col("info").is_not_null())
        dialogues: list[list[str] | None] = [None] * len(order)
        columns = frame.select("part", "repeat", "id", "outcome", "info")
        for part, repeat, item, outcome, info in columns.iter_rows():
            answer = json.loads(info)
            if (at := order.get((part, repeat, item))) is not None and (
                "text" in answer or "prompt" in answer
            ):
                dialogues[at] = [
                    answer.get("prompt", ""),
                    answer.get("text") or answer.get("error", ""),
                    _why_unread(outcome, answer),
                ]
        if any(dialogues):
            texts[number] = dialogues
    text = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=6, mtime=0) if texts else b""


def _why_unread(outcome: str, answer: Mapping[str, Any]) -> str:
    """ "" for an answer that was read."""
    if outcome == OK:
        return ""
    if not answer.get("text") and outcome == "unparsed":
        return "the reply is empty"
    return str(answer.get("how") or UNANSWERED.get(outcome, outcome))


def _named(store: Store, numbers: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The names behind the numbers, sorted, and the place of each; -1 for 0, which has no name."""
    distinct, at = np.unique(numbers, return_inverse=True)
    texts = store.texts(distinct[distinct > 0])
    names = sorted({texts[number] for number in distinct[distinct > 0].tolist()})
    rank_of = {name: rank for rank, name in enumerate(names)}
    code = np.array([rank_of[texts[n]] if n > 0 else -1 for n in distinct.tolist()], np.int64)
    return names, code[at].reshape(numbers.shape)


def _quantised(score: np.ndarray) -> tuple[np.ndarray, tuple[float, float] | None]:
    """255 steps between the lowest and the highest score: enough to sort and to show."""
    score = np.asarray(score, np.float64)
    is_known = np.isfinite(score)
    steps = np.full(len(score), _NO_SCORE, np.int64)
    if not is_known.any():
        return steps, None
    low, high = float(score[is_known].min()), float(score[is_known].max())
    width = (high - low) or 1.0
    steps[is_known] = np.rint((score[is_known] - low) / width * (_NO_SCORE - 1)).astype(np.int64)
    return steps, (low, high)


def _smallest(array: np.ndarray) -> np.ndarray:
    top = int(array.max(initial=0))
    return array.astype(np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32)


def _part_scores(rows: Sequence[Row], scores: Mapping[int, list[Score]]) -> list[list[Any]]:
    return [
        [number, score.part, *(_round(v) for v in (score.value, score.low, score.high)), score.n]
        for number, row in enumerate(rows)
        for score in scores.get(row.run.id, ())
        if score.part and score.metric == row.score.metric
    ]


def _round(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(float(value), 5)
