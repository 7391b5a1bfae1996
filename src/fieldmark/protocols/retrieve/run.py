"""Retrieval run: where does each row's partner stand among all captions, and among all images?

Equal captions and equal images are embedded and compared once, and stand for all their rows. Two
rows are independent only if they share neither: rows joined by either are one unit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fieldmark.embed import (
    CandidateCounts,
    CutTexts,
    count_cut,
    embed_texts,
    rank_positives,
)
from fieldmark.errors import DataError
from fieldmark.metrics import average_precisions, first_positives, recall_at_k, reciprocal_rank
from fieldmark.progress import Progress
from fieldmark.protocols._dual import long_words, projected, too_long_for_clip, unit_rows
from fieldmark.protocols._features import RowFeatures, embed_options, embed_rows
from fieldmark.protocols._predictions import FitNotes, PartPredictions, left_out
from fieldmark.protocols._question import Question, Workspace, refs_of
from fieldmark.tasks import Strict, Task, Template
from fieldmark.tasks.split import (
    PartItems,
    Selection,
    asked_rows,
    draw_test,
    keep_selected,
    need_column,
)

if TYPE_CHECKING:
    from fieldmark.models import DualEncoder

TO_TEXT, TO_IMAGE = "image_to_text", "text_to_image"
DEPTHS = (1, 5, 10)


class RetrieveBlock(Strict):
    """How a dual encoder is asked: it finds the caption of an image, and the image of a caption."""

    caption: str = "caption"
    """the column of the captions"""
    template: Template = "{}"
    """the words around a caption, with {} where it stands"""
    projector: str = ""
    """which of its projections a model with several uses: `taxonomic` or `caption`"""


def caption_parts(task: Task, table: pl.DataFrame, selection: Selection) -> list[PartItems]:
    """The rows that have a caption, as two parts with the same rows."""
    block: RetrieveBlock = task.block("retrieve")
    rows = asked_rows(task, table)
    need_column(task, rows, block.caption, "retrieve")
    need_column(task, rows, task.unit, "unit")
    n_rows = len(rows)
    text = pl.col(block.caption).cast(pl.String).str.strip_chars().replace("", None)
    rows = rows.with_columns(
        text.alias(block.caption),
        pl.col("id").alias("target"),
        pl.col(task.unit).cast(pl.String).alias("unit"),
    ).drop_nulls(block.caption)
    if len(rows) < 2:
        raise DataError(
            f"task {task.task!r}: {len(rows)} of {n_rows} rows of dataset {task.dataset!r} have a "
            f"text in the column {block.caption!r}: at least two are needed."
        )
    rows = rows.sort("id")
    parts = [PartItems(name, rows.clear(), rows, is_joint=True) for name in (TO_TEXT, TO_IMAGE)]
    return keep_selected(task, parts, selection)


def caption_warnings(task: Task, parts: Sequence[PartItems]) -> list[str]:
    """Captions that CLIP does not read to their end."""
    block: RetrieveBlock = task.block("retrieve")
    texts = {block.template.replace("{}", caption) for caption in parts[0].test[block.caption]}
    long = too_long_for_clip(sorted(texts))
    sentence = long_words(long, len(texts), "captions") if long else ""
    return [f"{task.line_of('retrieve')}  {sentence}"] if long else []


def run(
    question: Question,
    part_names: Collection[str],
    model: DualEncoder,
    workspace: Workspace,
    progress: Progress,
) -> Iterator[PartPredictions]:
    """Both ways come from one pass over all scores, whichever are wanted."""
    options = embed_options(workspace)
    task = question.task
    block: RetrieveBlock = task.block("retrieve")
    model = projected(model, block.projector)
    part = question.parts[0]
    rows = draw_test(task, part, question.draw, 0)
    features = embed_rows(model, question.root, rows, options, progress)
    rows = features.readable(rows, f"task {task.task!r}: none of the {{}} test")
    began = time.monotonic()
    texts = [block.template.replace("{}", caption) for caption in rows[block.caption]]
    text_nd = embed_texts(model, texts, options, progress)
    pairs = Pairs.of(rows, texts, features)
    ranks = rank_positives(
        unit_rows(features.matrix(rows)[pairs.first_image]),
        unit_rows(text_nd[pairs.first_text]),
        (pairs.image_p, pairs.text_p),
        weight_q=np.bincount(pairs.image_n),
        weight_g=np.bincount(pairs.text_n),
    )
    notes = _notes(pairs, count_cut(model, texts))
    notes |= left_out(task, part, question.draw, features.bad)
    seconds = (time.monotonic() - began) / 2
    captions = rows[block.caption].to_list()
    for name in (part.name for part in question.parts if part.name in part_names):
        if name == TO_TEXT:
            values = worth(pairs.image_p, pairs, ranks.score_p, ranks.to_gallery, pairs.image_n)
            best = pairs.first_text[ranks.to_gallery.best_n[pairs.image_n]]
            queries, shown = rows["id"].to_list(), captions
        else:
            values = worth(pairs.text_p, pairs, ranks.score_p, ranks.to_query, pairs.text_n)
            best = pairs.first_image[ranks.to_query.best_n[pairs.text_n]]
            queries, shown = captions, rows["id"].to_list()
        frame = _frame(rows, pairs, values, (queries, shown, best), task.metric)
        yield PartPredictions(name, frame, 0, notes).timed(seconds)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which distinct image and which distinct text each row (n) has; pairs (p) are listed once."""

    image_n: np.ndarray
    text_n: np.ndarray
    first_image: np.ndarray
    """of each distinct image, the first row that has it"""
    first_text: np.ndarray
    image_p: np.ndarray
    text_p: np.ndarray
    pair_n: np.ndarray
    """the pair of each row"""
    unit_n: np.ndarray
    """rows that share an image, a text or a unit of the data are one"""

    @classmethod
    def of(cls, rows: pl.DataFrame, texts: Sequence[str], features: RowFeatures) -> Pairs:
        contents = [b"".join(features.keys[ref] for ref in refs if ref in features.keys)
                    for refs in refs_of(rows)]  # fmt: skip
        first_image, image_n = _distinct(contents)
        first_text, text_n = _distinct(texts)
        _, first_p, pair_n = np.unique(
            image_n * len(first_text) + text_n, return_index=True, return_inverse=True
        )
        units = rows["unit"].to_list()
        _, group_n = _distinct(
            [("unit", unit) if unit is not None else ("row", str(row))
             for row, unit in enumerate(units)]
        )  # fmt: skip
        unit_n = _joined(image_n, text_n, group_n)
        return cls(
            image_n, text_n, first_image, first_text, image_n[first_p], text_n[first_p], pair_n,
            unit_n,
        )  # fmt: skip


def _distinct(values: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Where each distinct value occurs first, and the number of every value, in that order."""
    numbers: dict[Any, int] = {}
    number_n = np.array([numbers.setdefault(value, len(numbers)) for value in values])
    first_row = np.full(len(numbers), len(number_n))
    np.minimum.at(first_row, number_n, np.arange(len(number_n)))
    return first_row, number_n


def _joined(*columns: np.ndarray) -> np.ndarray:
    """The number of the first row that each row is joined to, by equal numbers in any column."""
    n, offset = len(columns[0]), len(columns[0])
    edges = []
    for column in columns:
        edges.append(np.stack([np.arange(n), offset + column]))
        offset += int(column.max()) + 1
    row, node = np.concatenate(edges, axis=1)
    graph = coo_array((np.ones(len(row), bool), (row, node)), (offset, offset))
    component = connected_components(graph, directed=False)[1][:n]
    lowest = np.full(int(component.max()) + 1, n)
    np.minimum.at(lowest, component, np.arange(n))
    return np.asarray(lowest[component])


def worth(
    asks_p: np.ndarray,
    pairs: Pairs,
    score_p: np.ndarray,
    counts: CandidateCounts,
    asks_n: np.ndarray,
) -> dict[str, np.ndarray]:
    """Metric → what each row was worth, one way."""
    is_text = asks_p is pairs.image_p
    weight_c = np.bincount(pairs.text_n if is_text else pairs.image_n)
    weight_p = weight_c[pairs.text_p if is_text else pairs.image_p]
    better_n, equal_n = counts.better_any_p[pairs.pair_n], counts.equal_any_p[pairs.pair_n]
    given = (asks_p, score_p, counts.better_p, counts.equal_p, int(asks_n.max()) + 1, weight_p)
    hits = first_positives(*given)
    ranks = (hits.n_better, hits.n_equal)
    values = {f"recall_at_{k}": recall_at_k(better_n, equal_n, k) for k in DEPTHS}
    values["mrr"] = reciprocal_rank(better_n, equal_n)
    values |= {f"multi_recall_at_{k}": recall_at_k(*ranks, k, hits.n_tied)[asks_n] for k in DEPTHS}
    values["multi_mrr"] = reciprocal_rank(*ranks, hits.n_tied)[asks_n]
    values["multi_map"] = average_precisions(*given)[asks_n]
    return values


def _frame(
    rows: pl.DataFrame,
    pairs: Pairs,
    values: dict[str, np.ndarray],
    texts: tuple[list[str], list[str], np.ndarray],
    metric: str,
) -> pl.DataFrame:
    queries, shown, best = texts
    worth_n = [
        dict(zip(values, map(float, row), strict=True))
        for row in zip(*values.values(), strict=True)
    ]
    infos = [
        json.dumps({"values": item_worth, "query": query}, ensure_ascii=False)
        for item_worth, query in zip(worth_n, queries, strict=True)
    ]
    ids = rows["id"].to_list()
    return rows.select("id").with_columns(
        pl.Series("target", shown, pl.String),
        pl.Series("prediction", [shown[row] for row in best], pl.String),
        pl.Series("score", [item_worth.get(metric) for item_worth in worth_n], pl.Float64),
        pl.Series("unit", [ids[row] for row in pairs.unit_n], pl.String),
        pl.Series("info", infos, pl.String),
        pl.lit(0).alias("repeat"),
    )


def _notes(pairs: Pairs, cut: CutTexts) -> dict[str, Any]:
    fits = FitNotes("retrieve", is_joint=True)
    n, n_texts, n_images = len(pairs.image_n), len(pairs.first_text), len(pairs.first_image)
    notes = cut.words("captions")
    if n_texts < n or n_images < n:
        notes.append(
            f"some rows share a photo or a caption ({n:,} rows, {n_images:,} photos, {n_texts:,} "
            "captions), so a score that accepts only a row's own partner cannot reach 100 %"
        )
    fits.add(None, {}, notes)
    return fits.noted()
