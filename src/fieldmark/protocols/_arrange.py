"""What does a metric get of stored answers?

Answers are stored as label names with a certainty. A metric says by `uses` what it is computed
from, and here the rows become that: numbers, one row per item of the metric. Needs nothing but the
stored rows and the kinds recorded with the run, never the dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import Any, cast

import numpy as np
import polars as pl

from fieldmark.metrics import Metric
from fieldmark.stats import code_labels
from fieldmark.store import PartRecord

YES = ("true", "yes", "1")
NO = ("false", "no", "0")


def recorded_kinds(parts: Iterable[PartRecord]) -> dict[str, str]:
    """Class → kind, as the parts of a run recorded it."""
    found: dict[str, str] = {}
    for part in parts:
        found |= (part.info or {}).get("kinds", {})
    return found


def arrange(
    rows: pl.DataFrame,
    answers: Sequence[str],
    metric: Metric,
    kinds: Mapping[str, str] | None = None,
) -> tuple[pl.DataFrame, Metric]:
    """The rows with `target` and each column of answers as numbers, and the metric to apply.

    `answers` are columns of predicted labels; the certainty of column `x` stands in `score` for
    one column, else in `score x`. Also needed: part, repeat, id, target, unit.
    """
    rows = rows.with_columns(pl.col("unit").fill_null(pl.col("id")))
    if metric.uses == "score":
        return _signed(rows, answers), metric
    if metric.uses == "whole":
        return _whole(rows, answers), metric
    names = ("part", "target", *answers)
    coded = code_labels(*(rows.get_column(name).to_numpy() for name in names))
    numbers = rows.with_columns(
        pl.Series(name, code) for name, code in zip(names[1:], coded, strict=True)
    )
    if metric.uses == "kinds":
        return numbers, _with_kinds(metric, rows, coded, names[1:], kinds or {})
    return numbers, metric


def _signed(rows: pl.DataFrame, answers: Sequence[str]) -> pl.DataFrame:
    """1 for yes; certainty of yes, negative for no."""
    by_name = {each: "score" if len(answers) == 1 else f"score {each}" for each in answers}
    return rows.with_columns(
        pl.col("target").is_in(YES).cast(pl.Int64),
        *(
            pl.when(pl.col(each).is_in(YES)).then(_sure(score)).otherwise(-_sure(score)).alias(each)
            for each, score in by_name.items()
        ),
    )


def _sure(column: str) -> pl.Expr:
    """A model that does not say how sure it is, is sure."""
    return pl.col(column).fill_nan(None).fill_null(1.0)


def _whole(rows: pl.DataFrame, answers: Sequence[str]) -> pl.DataFrame:
    """One row per item that every part asked about: 1 where all its answers are right."""
    n_parts = rows.get_column("part").n_unique()
    is_right = [(pl.col(each) == pl.col("target")).all().cast(pl.Int64) for each in answers]
    items = rows.group_by("repeat", "id", maintain_order=True).agg(
        pl.col("part").n_unique(), pl.col("unit").first(), *is_right
    )
    whole = items.filter(pl.col("part") == n_parts)
    return whole.with_columns(pl.lit("").alias("part"), pl.lit(1).alias("target"))


def _with_kinds(
    metric: Metric,
    rows: pl.DataFrame,
    coded: Sequence[np.ndarray],
    names: Sequence[str],
    kinds: Mapping[str, str],
) -> Metric:
    """The metric with the kind of each class number ("" where nobody recorded it)."""
    n_classes = 1 + max((int(code.max()) for code in coded if len(code)), default=-1)
    kind_c = np.full(n_classes, "", dtype=object)
    for name, code in zip(names, coded, strict=True):
        label_n = rows.get_column(name).to_numpy()
        first = np.unique(code, return_index=True)[1]
        for place in first:
            kind_c[code[place]] = kinds.get(label_n[place], "")
    bound = partial(cast(Any, metric), kind=kind_c)
    return cast(Metric, update_wrapper(bound, metric))
