"""Reranking with a dual encoder: in which order does it put the results of a query?

By the cosine of the query's words and each image, without any prompt of its own, as INQUIRE does.
arXiv:2411.02537
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from fieldmark.embed import EmbedOptions, count_cut, embed_texts
from fieldmark.progress import Progress
from fieldmark.protocols._dual import projected, unit_rows
from fieldmark.protocols._features import embed_rows
from fieldmark.protocols._predictions import FitNotes, PartPredictions, left_out
from fieldmark.protocols._question import Question
from fieldmark.protocols.rerank.block import RerankBlock
from fieldmark.protocols.rerank.queries import (
    RankedQuery,
    drawn_rows,
    queries_of,
    ranked_frame,
    worth,
)
from fieldmark.tasks.split import Draw, PartItems

if TYPE_CHECKING:
    from fieldmark.models import DualEncoder


def rerank_by_cosine(
    question: Question, model: DualEncoder, options: EmbedOptions, progress: Progress
) -> PartPredictions:
    task, part = question.task, question.parts[0]
    block: RerankBlock = task.block("rerank")
    model = projected(model, block.projector)
    drawn = rows = drawn_rows(task, part, question.draw)
    features = embed_rows(model, question.root, rows, options, progress)
    rows = features.readable(rows, f"task {task.task!r}: none of the {{}} test")
    began = time.monotonic()
    queries = list(queries_of(block, rows))
    texts = [block.template.replace("{}", query.text) for query in queries]
    text_qd = unit_rows(embed_texts(model, texts, options, progress))
    ranked = []
    for query, text_d in zip(queries, text_qd, strict=True):
        image_kd = unit_rows(features.matrix(query.rows))
        score = np.einsum("kd,d->k", image_kd, text_d, dtype=np.float64)
        first = query.rows["id"][int(score.argmax())]
        ranked.append(RankedQuery(query, worth(query.is_relevant, score, block.k), first))
    fits = FitNotes("rerank")
    fits.add(None, {}, count_cut(model, texts).words("queries"))
    notes = fits.noted() | left_out(task, PartItems("", part.train, drawn), Draw(), features.bad)
    frame = ranked_frame(ranked, task.metric)
    return PartPredictions("", frame, 0, notes).timed(time.monotonic() - began)
