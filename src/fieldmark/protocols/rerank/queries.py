"""Queries and their results (reranking): which images does each query come with, and what is an
order of them worth?

An item of a run is a query: what its answer was worth is one number per metric, and intervals are
over queries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fieldmark import draws
from fieldmark.embed import EmbedOptions, count_cut, embed_texts
from fieldmark.errors import DataError
from fieldmark.metrics import average_precision_at_k, ndcg_at_k, reciprocal_rank_at_k
from fieldmark.progress import Progress
from fieldmark.protocols._dual import projected, unit_rows
from fieldmark.protocols._features import embed_rows
from fieldmark.protocols._predictions import FitNotes, PartPredictions, left_out
from fieldmark.protocols._question import Question
from fieldmark.protocols._score import NO, YES, Scoring, score_answers
from fieldmark.protocols.rerank.block import RerankBlock
from fieldmark.store import Score
from fieldmark.tasks import Task
from fieldmark.tasks.split import Draw, PartItems, asked_rows, need_column

if TYPE_CHECKING:
    from fieldmark.models import DualEncoder


@dataclass(frozen=True, slots=True)
class Query:
    """A query and the images that were found for it."""

    id: str
    text: str
    rows: pl.DataFrame
    """of its results: id, image, crop, target (yes or no)"""
    groups: Mapping[str, str]

    @property
    def is_relevant(self) -> np.ndarray:
        return self.rows["target"].is_in(YES).to_numpy()


def result_part(task: Task, table: pl.DataFrame) -> PartItems:
    """Every result of every query the task asks about, one row each."""
    block: RerankBlock = task.block("rerank")
    rows = asked_rows(task, table)
    for column in result_columns(block):
        need_column(task, rows, column, "rerank")
    rows = rows.with_columns(
        pl.col(block.relevant).cast(pl.String).str.to_lowercase().alias("target"),
        pl.col(block.query_id).cast(pl.String).alias("unit"),
    ).filter(pl.col("image").is_not_null(), pl.col("unit").is_not_null())
    strange = rows.filter(~pl.col("target").is_in([*YES, *NO]) | pl.col("target").is_null())
    if rows.is_empty() or len(strange):
        what = f"{strange['target'][0]!r} of row {strange['id'][0]!r}" if len(strange) else "no row"
        raise DataError(
            f"{task.line_of('rerank')}  column {block.relevant!r} of dataset {task.dataset!r}: "
            f"{what}: expected yes or no."
        )
    # A query has one text
    text = pl.col(block.query).cast(pl.String).str.strip_chars().replace("", None)
    texts = rows.group_by("unit").agg(text.unique().sort(nulls_last=True).alias("texts"))
    for query, unit_texts in texts.sort("unit").iter_rows():
        if len(unit_texts) != 1 or unit_texts[0] is None:
            has = " and ".join("nothing" if one is None else repr(one) for one in unit_texts[:2])
            raise DataError(
                f"{task.line_of('rerank')}  column {block.query!r} of dataset {task.dataset!r} "
                f"has {has} for the query {query!r}: expected one text for each query."
            )
    return PartItems("", rows.clear(), rows.sort("id"))


def result_columns(block: RerankBlock) -> tuple[str, ...]:
    return block.query, block.query_id, block.relevant, *block.groups


def drawn_rows(task: Task, part: PartItems, draw: Draw) -> pl.DataFrame:
    """All results of the queries that are drawn: `n_test` is a number of queries."""
    if draw.n_test < 0:
        return part.test
    every = part.test["unit"].unique().sort().to_list()
    chosen = draws.sample(every, draw.n_test, draw.seed, task.task, "", "test")
    return part.test.filter(pl.col("unit").is_in(chosen))


def tested_queries(task: Task, part: PartItems, draw: Draw) -> pl.DataFrame:
    """One row a query, whatever its results: a query is an item and a unit."""
    name, query = pl.lit(""), pl.col("unit")
    rows = drawn_rows(task, part, draw).unique("unit", maintain_order=True)
    return rows.select(name.alias("part"), query.alias("id"), name.alias("target"), query)


def queries_of(block: RerankBlock, rows: pl.DataFrame) -> Iterator[Query]:
    """By name of the query."""
    for (name,), query_rows in rows.sort("id").group_by("unit", maintain_order=True):
        row = query_rows.row(0, named=True)
        groups = {column: str(row[column]) for column in block.groups if row[column]}
        yield Query(str(name), str(row[block.query]), query_rows, groups)


def worth(
    relevant: np.ndarray, score: np.ndarray, k: int, n_positives: int | None = None
) -> dict[str, float]:
    """Metric → what an order of results was worth; `n_positives`: right ones there are in all."""
    total = int(relevant.sum()) if n_positives is None else n_positives
    if k and len(score) > k:
        best = np.lexsort((np.arange(len(score)), -score))[:k]
        relevant, score = relevant[best], score[best]
    return {
        "ap_at_k": average_precision_at_k(relevant, score, total),
        "ndcg_at_k": ndcg_at_k(relevant, score, total),
        "mrr": reciprocal_rank_at_k(relevant, score),
    }


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """A query with what its order of results was worth."""

    query: Query
    values: Mapping[str, float] | None
    first: str | None = None
    """the result that came first; None where the order is not complete"""
    outcome: str = "ok"
    about: Mapping[str, Any] | None = None
    """what else is to be stored"""


def ranked_frame(ranked: Sequence[RankedQuery], metric: str) -> pl.DataFrame:
    """One row a query, as the store wants it."""
    rows = [
        {
            "id": one.query.id,
            "target": one.query.text,
            "unit": one.query.id,
            "prediction": one.first,
            "score": (one.values or {}).get(metric),
            "outcome": one.outcome,
            "info": json.dumps(
                {
                    **({"values": dict(one.values)} if one.values is not None else {}),
                    "groups": dict(one.query.groups),
                    "query": one.query.text,
                    **(one.about or {}),
                },
                ensure_ascii=False,
            ),
            "repeat": 0,
        }
        for one in ranked
    ]
    texts = ("id", "target", "unit", "prediction", "outcome", "info")
    schema = dict.fromkeys(texts, pl.String) | {"score": pl.Float64, "repeat": pl.Int64}
    return pl.DataFrame(rows, schema)


def score_groups(scoring: Scoring, predictions: pl.DataFrame) -> list[Score]:
    """Scores of the queries of each group, by the groups that are stored with them."""
    infos = [json.loads(info) if info else {} for info in predictions["info"]]
    groups = [info.get("groups") or {} for info in infos]
    scores = []
    for pair in sorted({pair for query_groups in groups for pair in query_groups.items()}):
        is_member = pl.Series([query_groups.get(pair[0]) == pair[1] for query_groups in groups])
        query_groups = score_answers(
            replace(scoring, parts={"": {}}), predictions.filter(is_member)
        )
        named = f"{pair[0]}: {pair[1]}"
        scores += [replace(score, part=named, is_primary=False) for score in query_groups]
    return scores


def rerank_by_cosine(
    question: Question, model: DualEncoder, options: EmbedOptions, progress: Progress
) -> PartPredictions:
    """With a dual encoder: by the cosine of the query's words and each image, without any prompt of
    its own, as INQUIRE does. arXiv:2411.02537
    """
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
        top = query.rows["id"][int(score.argmax())]
        ranked.append(RankedQuery(query, worth(query.is_relevant, score, block.k), top))
    fits = FitNotes("rerank")
    fits.add(None, {}, count_cut(model, texts).words("queries"))
    notes = fits.noted() | left_out(task, PartItems("", part.train, drawn), Draw(), features.bad)
    frame = ranked_frame(ranked, task.metric)
    return PartPredictions("", frame, 0, notes).timed(time.monotonic() - began)
