"""Multi-label fit: how are many yes-or-no questions about the same images learnt by one probe?

A probe with `is_multilabel = True` is fitted once a repeat, on a matrix of answers (rows × traits:
1 yes, 0 no, NaN unknown), whatever parts are asked for: what one part answers must not depend on
which others are still missing. It predicts 0 or 1 and a certainty for each row and trait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from fieldmark.errors import DataError, UsageError
from fieldmark.metrics import calibration
from fieldmark.protocols._features import RowFeatures
from fieldmark.protocols._predictions import FitNotes, PartPredictions, answer_frame, left_out
from fieldmark.protocols._score import NO, YES
from fieldmark.protocols.probe.block import ProbeBlock
from fieldmark.protocols.probe.fit import Fitted, fit_probe, units_of
from fieldmark.registry import short_name
from fieldmark.tasks import Task
from fieldmark.tasks.split import Draw, PartItems, draw_test, draw_train


def ask_jointly(
    task: Task,
    block: ProbeBlock,
    parts: Sequence[PartItems],
    draw: Draw,
    features: RowFeatures,
    device: str,
) -> Iterator[PartPredictions]:
    """The predictions of each part; all parts of a repeat come from one fit."""
    frames: dict[str, list[pl.DataFrame]] = {part.name: [] for part in parts}
    n_train, fits = [], FitNotes(block.classifier, is_joint=True)
    for repeat in range(draw.repeats):
        train = draw_train(task, parts[0], draw, repeat)
        train = features.readable(train, f"task {task.task!r}: none of the {{}} training")
        answer_nt = np.stack([_numbers(task, train, name) for name in task.traits], axis=1)
        _refuse_unanswered(task, answer_nt)
        probe = fit_probe(task, block, features.matrix(train), answer_nt, device, units_of(train))
        n_train.append(len(train))
        fits.add(probe.probe, {})
        for part in parts:
            test = draw_test(task, part, draw, repeat)
            test = features.readable(
                test, f"task {task.task!r}, part {part.name!r}: none of the {{}} test"
            )
            frames[part.name].append(_answers(task, part, probe, test, features, repeat))
    for part in parts:
        notes = (
            fits.noted()
            | _calibration(frames[part.name], probe)
            | left_out(task, part, draw, features.bad)
        )
        frame = pl.concat(frames[part.name])
        yield PartPredictions(part.name, frame, min(n_train), notes, groups=part.groups)


def _answers(
    task: Task,
    part: PartItems,
    probe: Fitted,
    test: pl.DataFrame,
    features: RowFeatures,
    repeat: int,
) -> pl.DataFrame:
    answer_nt, sure_nt = probe.ask(features.matrix(test))
    expected = (len(test), len(task.traits))
    if answer_nt.shape != expected or sure_nt.shape != expected:
        raise UsageError(
            f"probe {short_name(probe.classifier)!r} gave predictions of shape {answer_nt.shape} "
            f"for {len(test)} images and {len(task.traits)} traits, expected {expected}."
        )
    column = task.traits.index(part.name)
    # How the dataset writes yes and no.
    seen = set(part.train.get_column(part.name).drop_nulls().cast(pl.String).unique())
    yes, no = next(
        (pair for pair in zip(YES, NO, strict=True) if seen & set(pair)), (YES[0], NO[0])
    )
    labels = np.where(answer_nt[:, column] > 0, yes, no)
    return answer_frame(test, labels, sure_nt[:, column], repeat)


def _calibration(frames: Sequence[pl.DataFrame], fitted: Fitted) -> dict[str, Any]:
    """Of each repeat, where certainties are probabilities: of the yes or the no that was given."""
    if not hasattr(fitted.probe, "predict_proba"):
        return {}
    noted = []
    for frame in frames:
        sure_n = frame["score"].to_numpy()
        is_right_n = (frame["prediction"] == frame["target"]).to_numpy()
        noted.append(calibration(sure_n, is_right_n, np.where(is_right_n, sure_n, 1 - sure_n)))
    return {"calibration": noted}


def _numbers(task: Task, rows: pl.DataFrame, trait: str) -> np.ndarray:
    """1 yes, 0 no, NaN unknown."""
    texts = rows.get_column(trait).cast(pl.String).to_list()
    number_of = dict.fromkeys(YES, 1.0) | dict.fromkeys(NO, 0.0)
    for word in set(texts) - number_of.keys() - {None}:
        raise DataError(
            f"{task.line_of('traits')}  column {trait!r} of dataset {task.dataset!r} contains "
            f"{word!r}: expected {' or '.join(YES)}, {' or '.join(NO)}, or nothing."
        )
    return np.array([np.nan if word is None else number_of[word] for word in texts])


def _refuse_unanswered(task: Task, answer_nt: np.ndarray) -> None:
    for name, answer_n in zip(task.traits, answer_nt.T, strict=True):
        if np.isnan(answer_n).all():
            raise DataError(
                f"task {task.task!r}, part {name!r}: unknown in all {len(answer_n)} training "
                "images: at least one answer is needed."
            )
