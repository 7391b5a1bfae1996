"""Full ranking (text-to-image retrieval over a gallery): which of millions of photos come first?

The photos were embedded before, by the image tower of the model that is asked; their vectors lie in
files, are read once, in order, and never all in memory. Queries are embedded here. What is right is
known of every photo of the gallery, so that a query is worth what its first k results are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fieldmark.data import load_dataset
from fieldmark.embed import EmbedOptions, count_cut, embed_texts, top_k
from fieldmark.errors import DataError, UsageError
from fieldmark.progress import Progress
from fieldmark.protocols._dual import projected, unit_rows
from fieldmark.protocols._predictions import FitNotes, PartPredictions
from fieldmark.protocols._question import Question, Workspace
from fieldmark.protocols.rerank.block import RerankBlock
from fieldmark.protocols.rerank.queries import (
    RankedQuery,
    drawn_rows,
    queries_of,
    ranked_frame,
    worth,
)
from fieldmark.tasks import Task
from fieldmark.tasks.split import PartItems, asked_rows, need_column

if TYPE_CHECKING:
    from fieldmark.models import DualEncoder

ADDED = ("gallery_digest", "positive_rows", "n_positives")
"""columns that count besides those of the block: what the vectors' files hold, the rows of the
gallery that are right, and how many photos are, in the gallery or not"""
_UNIT = 0.01
"""how far from 1 the length of a vector may be that counts as normalised"""


def why_no_gallery(block: RerankBlock) -> str | None:
    """Why the task cannot be asked of a gallery, as far as its file tells."""
    if not block.gallery:
        return (
            "the photos are in a gallery of features: say which model made them with "
            "`--rerank gallery=NAME`, a folder below embs"
        )
    if not block.k:
        return "say how many results count, as in `--rerank k=50`"
    return None


def query_part(task: Task, workspace: Workspace) -> PartItems:
    """The queries, with what the gallery holds and which of its rows are right."""
    block: RerankBlock = task.block("rerank")
    gallery, root = _open(task, block, workspace.root(task)), workspace.root(task)
    module: Any = load_dataset(task.dataset)
    rows = asked_rows(task, workspace.table(task))
    for column in (block.query, block.query_id, *block.groups):
        need_column(task, rows, column, "rerank")
    positives = module.find_positives(gallery, module.read_positives(root))
    first_rows = positives.rows.unique(("query_id", "image_path"), keep="first")
    by_query = first_rows.sort("row").group_by("query_id").agg(
        pl.col("row").cast(pl.String).str.join(",").alias("positive_rows")
    )  # fmt: skip
    part = rows.with_columns(
        pl.col(block.query_id).cast(pl.String).alias("unit"),
        pl.col(block.query).alias("target"),
        pl.lit(gallery.digest(workspace.contents)).alias("gallery_digest"),
    ).join(by_query, left_on="unit", right_on="query_id", how="left", maintain_order="left")
    return PartItems("", part.clear(), part)


def rank_gallery(
    question: Question, model: DualEncoder, options: EmbedOptions, progress: Progress
) -> PartPredictions:
    task, part = question.task, question.parts[0]
    block: RerankBlock = task.block("rerank")
    model = projected(model, block.projector)
    gallery = _open(task, block, question.root)
    if gallery.dim != model.dim:
        raise DataError(
            f"{gallery.arrays[0].parent}  contains vectors of {gallery.dim} numbers, and "
            f"{model.name!r} gives {model.dim}: expected embeddings of this very model."
        )
    began = time.monotonic()
    queries = list(queries_of(block, drawn_rows(task, part, question.draw)))
    texts = [block.template.replace("{}", query.text) for query in queries]
    text_qd = unit_rows(embed_texts(model, texts, options, progress))
    progress.start(f"{gallery.name}: photos ranked", gallery.n_rows)
    blocks = _seen(_unit_blocks(gallery), progress)
    index_qk, score_qk = top_k(text_qd, blocks, block.k)
    first_paths = gallery.paths_at(index_qk[:, 0].tolist())
    ranked, n_missing = [], 0
    for number, query in enumerate(queries):
        row = query.rows.row(0, named=True)
        right = {int(text) for text in (row["positive_rows"] or "").split(",") if text}
        relevant = np.array([int(index) in right for index in index_qk[number]])
        n_missing += row["n_positives"] - len(right)
        values = worth(relevant, score_qk[number], 0, row["n_positives"])
        ranked.append(RankedQuery(query, values, first_paths[number]))
    fits, cut_notes = FitNotes("rerank"), count_cut(model, texts).words("queries")
    if n_missing:
        cut_notes.append(
            f"{n_missing:,} photos that answer queries are not in the gallery: they count as missed"
        )
    fits.add(None, {}, cut_notes)
    frame = ranked_frame(ranked, task.metric)
    return PartPredictions("", frame, 0, fits.noted()).timed(time.monotonic() - began)


def _open(task: Task, block: RerankBlock, root: Path) -> Any:
    module: Any = load_dataset(task.dataset)
    if not hasattr(module, "open_gallery"):
        raise UsageError(
            f"{task.line_of('rerank')}  dataset {task.dataset!r} has no gallery of photos that "
            "were embedded before: remove `gallery`."
        )
    return module.open_gallery(root, block.gallery)


def _unit_blocks(gallery: Any) -> Iterator[np.ndarray]:
    """The vectors of length one; files of normalised ones are taken as they are."""
    for array in gallery.blocks():
        some = np.asarray(array[:: max(1, len(array) // 1000)], np.float32)
        if np.abs(np.linalg.norm(some, axis=1) - 1).max(initial=0.0) < _UNIT:
            yield array
            continue
        for start in range(0, len(array), 1 << 16):
            yield unit_rows(np.asarray(array[start : start + (1 << 16)], np.float32))


def _seen(blocks: Iterator[np.ndarray], progress: Progress) -> Iterator[np.ndarray]:
    for block in blocks:
        yield block
        progress.advance(len(block))
