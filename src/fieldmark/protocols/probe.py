"""How is a frozen backbone with a light probe asked a task?

Features of the training images fit the normalisation and the probe, features of the test images are
predicted; one probe per part and repeat. Nothing of a test image ever reaches a fit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from fieldmark.embed import EmbedOptions
from fieldmark.errors import DataError, FieldmarkError, UsageError
from fieldmark.probes import Normaliser, load_probe
from fieldmark.progress import Progress
from fieldmark.protocols._features import RowFeatures, embed_rows
from fieldmark.protocols._items import (
    Draw,
    PartItems,
    content_of,
    draw_test,
    draw_train,
    rows_of,
)
from fieldmark.protocols._predictions import PartPredictions
from fieldmark.registry import is_file_reference, short_name
from fieldmark.tasks import ProbeBlock, Task

if TYPE_CHECKING:
    from fieldmark.models import Backbone

SMALL_FIT = 20_000_000
"""values in the training matrix, above which several BLAS threads pay"""
SUMMARY = "a frozen backbone's features, a light classifier on top"


def why_not(task: Task, draw: Draw) -> str | None:
    """Why this task cannot be asked like this, or None."""
    if task.probe is None:
        return f"task {task.task!r} has no `probe` block"
    if draw.n_train == 0:
        return "n_train = 0: a probe cannot learn from 0 training images"
    if draw.n_test == 0:
        return "n_test = 0: without a test image there is no score"
    return None


def run(
    task: Task,
    parts: Sequence[PartItems],
    model: Backbone,
    root: Path,
    draw: Draw,
    options: EmbedOptions,
    progress: Progress,
) -> Iterator[PartPredictions]:
    """The predictions of each part, as they come."""
    if task.probe is None:
        raise UsageError(f"task {task.task!r} has no `probe` block.")
    rows = rows_of(task, parts, draw)
    features = embed_rows(model, root, rows, options, progress, task.probe.pool)
    progress.start(f"{task.task} with {model.name}", len(parts))
    for part in parts:
        began = time.monotonic()
        predictions = _ask_part(task, task.probe, part, draw, features)
        progress.advance()
        yield predictions.timed(time.monotonic() - began)


def _ask_part(
    task: Task, block: ProbeBlock, part: PartItems, draw: Draw, features: RowFeatures
) -> PartPredictions:
    name = f"task {task.task!r}" + (f", part {part.name!r}" if part.name else "")
    columns: list[pl.DataFrame] = []
    n_train, notes = [], dict[str, Any]()
    for repeat in range(draw.repeats):
        test = draw_test(task, part, draw, repeat)
        test = features.readable(test, f"{name}: none of the {{}} test")
        if block.leave_one_out:
            train = test
            answer, sure, asked = _leave_one_out(task, block, test, features)
            notes["coverage"] = len(asked) / len(test)
        else:
            drawn = draw_train(task, part, draw, repeat)
            train = features.readable(drawn, f"{name}: none of the {{}} training")
            _refuse_lost_classes(name, drawn, train)
            asked = test
            answer, sure = _fit_predict(task, block, train, test, features)
            unseen = ~test.get_column("target").is_in(train["target"].unique().to_list())
            notes["n_test_of_unseen_classes"] = int(unseen.sum())
        n_train.append(len(train))
        columns.append(
            asked.select("id", "target", "unit").with_columns(
                pl.Series("prediction", answer, pl.String),
                pl.Series("score", sure, pl.Float64),
                pl.lit(repeat).alias("repeat"),
            )
        )
    notes["content"] = content_of(task, part, draw, features.keys)
    if features.bad:
        notes["n_bad_images"] = len(features.bad)
    return PartPredictions(part.name, pl.concat(columns), min(n_train), notes, groups=part.groups)


def _refuse_lost_classes(name: str, drawn: pl.DataFrame, train: pl.DataFrame) -> None:
    """Leaving out broken images must not leave one class: any score would be a sham."""
    had, has = (rows.get_column("target").unique() for rows in (drawn, train))
    if len(had) > 1 and len(has) == 1:
        raise DataError(
            f"{name}: without the images that cannot be read, all {len(train)} training images "
            f"have the label {has[0]!r}: at least two classes are needed."
        )


def _fit_predict(
    task: Task,
    block: ProbeBlock,
    train: pl.DataFrame,
    test: pl.DataFrame,
    features: RowFeatures,
) -> tuple[np.ndarray, np.ndarray]:
    x_train, x_test = features.matrix(train), features.matrix(test)
    normaliser = Normaliser(block.normalise).fit(x_train)
    with _fitting_threads(x_train), _told_by_name(block.classifier):
        probe = _probe(task, block).fit(normaliser.transform(x_train), train["target"].to_numpy())
        x_test = normaliser.transform(x_test)
        answer = _checked(block.classifier, probe.predict(x_test), len(test))
        return answer, _certainty(probe, x_test)


@contextmanager
def _told_by_name(classifier: str) -> Iterator[None]:
    """Whatever a user's probe raises, with its name, in one line."""
    try:
        yield
    except Exception as error:
        if isinstance(error, FieldmarkError) or not is_file_reference(classifier):
            raise
        first = (str(error).strip() or "no message").splitlines()[0].rstrip(".")
        raise UsageError(
            f"probe {short_name(classifier)!r} failed: {type(error).__name__}: {first} "
            "(--debug shows where)."
        ) from error


def _checked(classifier: str, answer: Any, n: int) -> np.ndarray:
    """One label, or None for no answer, per image."""
    labels = np.asarray(answer, dtype=object)
    if labels.shape != (n,):
        raise UsageError(
            f"probe {short_name(classifier)!r} gave predictions of shape {labels.shape} for {n} "
            f"images, expected ({n},)."
        )
    odd = [each for each in labels if each is not None and not isinstance(each, str)]
    if odd:
        raise UsageError(
            f"probe {short_name(classifier)!r} predicted {odd[0]!r}, expected one of the labels "
            "it was trained with."
        )
    return labels


def _fitting_threads(x_train: np.ndarray) -> AbstractContextManager[Any]:
    """One thread for small fits: two made a 192 × 192 ridge grid 9 × slower on two busy cores."""
    is_small = x_train.size < SMALL_FIT
    return threadpool_limits(1) if is_small else nullcontext()


def _certainty(probe: Any, x_test: np.ndarray) -> np.ndarray:
    """How sure the probe is of each answer; not known for a user's probe that does not say."""
    if hasattr(probe, "predict_score"):
        return np.asarray(probe.predict_score(x_test), np.float64)
    return np.full(len(x_test), np.nan)


def _leave_one_out(
    task: Task, block: ProbeBlock, rows: pl.DataFrame, features: RowFeatures
) -> tuple[np.ndarray, np.ndarray, pl.DataFrame]:
    """Answers for every row whose label occurs again; the others stay in the gallery."""
    x = features.matrix(rows)
    probe = _probe(task, block)
    if not hasattr(probe, "predict_leave_one_out"):
        raise UsageError(f"task {task.task!r}: probe {block.classifier!r} cannot leave one out.")
    probe.fit(Normaliser(block.normalise).fit(x).transform(x), rows["target"].to_numpy())
    answer, sure = probe.predict_leave_one_out()
    has_mate = rows.get_column("target").is_duplicated()
    if not has_mate.any():
        raise DataError(
            f"task {task.task!r}: no label occurs twice, so nothing can be found again."
        )
    mask = has_mate.to_numpy()
    return answer[mask], sure[mask], rows.filter(has_mate)


def _probe(task: Task, block: ProbeBlock) -> Any:
    try:
        return load_probe(block.classifier, block.params)
    except FieldmarkError as error:
        raise UsageError(f"task {task.task!r}, key 'probe': {error}") from error
