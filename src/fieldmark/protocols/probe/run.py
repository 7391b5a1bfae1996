"""Probing run: how is a frozen backbone with a light probe asked all parts of a task?

Features of the training images fit the normalisation and the probe, features of the test images are
predicted; one probe per part and repeat, or one for all parts where they are learnt together.
Nothing of a test image ever reaches a fit.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fieldmark.embed import PatchFeatures
from fieldmark.errors import DataError, UsageError
from fieldmark.probes import Normaliser
from fieldmark.progress import Progress
from fieldmark.protocols._features import RowFeatures, embed_options, embed_rows
from fieldmark.protocols._predictions import FitNotes, PartPredictions, answer_frame, left_out
from fieldmark.protocols._question import Question, Workspace
from fieldmark.protocols.probe.block import ProbeBlock
from fieldmark.protocols.probe.fit import Fitted, device_of, fit_probe, new_probe, units_of
from fieldmark.protocols.probe.joint import ask_jointly
from fieldmark.protocols.probe.reject import choose_threshold
from fieldmark.tasks import Task
from fieldmark.tasks.split import (
    Draw,
    PartItems,
    draw_test,
    draw_train,
    kinds_of,
    rows_of,
)

if TYPE_CHECKING:
    from fieldmark.models import Backbone

Answer = tuple[pl.DataFrame, np.ndarray, np.ndarray]
"""rows asked about, labels, certainties"""
Drawn = tuple[pl.DataFrame, pl.DataFrame]
"""readable training and test rows of one repeat"""
MOST_ANSWERS = 1 << 22
"""draws × test images at a time: 32 MB"""


def run(
    question: Question,
    part_names: Collection[str],
    model: Backbone,
    workspace: Workspace,
    progress: Progress,
) -> Iterator[PartPredictions]:
    """The predictions of each wanted part, as they come; none depends on which are wanted."""
    options = embed_options(workspace)
    task, draw = question.task, question.draw
    block: ProbeBlock = task.block("probe")
    parts = [part for part in question.parts if part.name in part_names]
    seen = seen_by(block, model)
    rows = rows_of(task, parts, draw)
    features = embed_rows(seen, question.root, rows, options, progress, block.pool)
    progress.start(f"{task.task} with {model.name}", len(parts))
    began = time.monotonic()
    common = (draw, features, device_of(model))
    if parts and parts[0].is_joint:
        answers = ask_jointly(task, block, parts, *common)
    else:
        answers = (_PartRun(task, block, part, *common).ask() for part in parts)
    for predictions in answers:
        progress.advance()
        now = time.monotonic()
        yield predictions.timed(now - began)
        began = time.monotonic()


def seen_by(block: ProbeBlock, model: Backbone) -> Backbone:
    """The backbone whose features a probe looks at."""
    return PatchFeatures(model) if block.features == "patches" else model


class _PartRun:
    """One part on its way from rows to predictions."""

    def __init__(
        self,
        task: Task,
        block: ProbeBlock,
        part: PartItems,
        draw: Draw,
        features: RowFeatures,
        device: str,
    ) -> None:
        self.task, self.block, self.part, self.draw = task, block, part, draw
        self.features, self.device = features, device
        self.name = f"task {task.task!r}" + (f", part {part.name!r}" if part.name else "")
        self.n_train: list[int] = []
        self.notes: dict[str, Any] = {}
        self.fits = FitNotes(block.classifier)
        self.calibration: list[dict[str, float]] = []

    def ask(self) -> PartPredictions:
        frames = [
            answer_frame(rows, answer, sure, repeat)
            for repeat, (rows, answer, sure) in enumerate(self._answers())
        ]
        kinds = kinds_of(self.part)
        if kinds:
            self.notes["kinds"] = kinds
        targets = pl.concat([self.part.train["target"], self.part.test["target"]])
        self.notes["n_classes"] = targets.drop_nulls().n_unique()
        if any(self.calibration):
            self.notes["calibration"] = self.calibration
        self.notes |= self.fits.noted()
        self.notes |= left_out(self.task, self.part, self.draw, self.features.bad)
        return PartPredictions(
            self.part.name,
            pl.concat(frames),
            min(self.n_train),
            self.notes,
            groups=self.part.groups,
        )

    def _answers(self) -> Iterator[Answer]:
        """One answer per repeat."""
        repeats = range(self.draw.repeats)
        if self.block.leave_one_out:
            yield from (self._leave_one_out(self._test(repeat)) for repeat in repeats)
            return
        drawn = (self._drawn(repeat) for repeat in repeats)
        probe = new_probe(self.task, self.block)
        if self.draw.repeats > 1 and hasattr(probe, "predict_repeats") and not self.block.reject:
            every = list(drawn)
            answers = ask_together(probe, self.block, every, self.features)
            for (_, test), (answer, sure) in zip(every, answers, strict=True):
                yield test, answer, sure
            return
        for train, test in drawn:
            answer, sure = self._fit_predict(train, test)
            yield test, answer, sure

    def _test(self, repeat: int) -> pl.DataFrame:
        rows = draw_test(self.task, self.part, self.draw, repeat)
        return self.features.readable(rows, f"{self.name}: none of the {{}} test")

    def _drawn(self, repeat: int) -> Drawn:
        test = self._test(repeat)
        drawn = draw_train(self.task, self.part, self.draw, repeat)
        train = self.features.readable(drawn, f"{self.name}: none of the {{}} training")
        # Leaving out broken images must not leave one class: any score would be a sham.
        had, has = (rows.get_column("target").unique() for rows in (drawn, train))
        if len(had) > 1 and len(has) == 1:
            raise DataError(
                f"{self.name}: without the images that cannot be read, all {len(train)} training "
                f"images have the label {has[0]!r}: at least two classes are needed."
            )
        self.n_train.append(len(train))
        is_seen = test.get_column("target").is_in(train["target"].unique().to_list())
        self.notes["n_test_of_unseen_classes"] = int((~is_seen).sum())
        return train, test

    def _fit(self, train: pl.DataFrame) -> Fitted:
        x, y = self.features.matrix(train), train["target"].to_numpy()
        return fit_probe(self.task, self.block, x, y, self.device, units_of(train))

    def _fit_predict(
        self, train: pl.DataFrame, test: pl.DataFrame
    ) -> tuple[np.ndarray, np.ndarray]:
        label = self.block.reject
        if label:
            train = train.filter(pl.col("target") != label)
        fitted = self._fit(train)
        x_test = self.features.matrix(test)
        answer, sure = fitted.ask_labels(x_test)
        if not label:
            self.fits.add(fitted.probe, {})
            self.calibration.append(fitted.calibration(x_test, test["target"].to_list()))
            return answer, sure
        kinds = kinds_of(self.part)
        threshold = choose_threshold(self.task, train, self.features, self._fit, kinds)
        answer = threshold.apply(answer, sure, label)
        self.notes["n_rejected"] = int((answer == label).sum())
        self.fits.add(fitted.probe, threshold.chosen, threshold.notes)
        return answer, sure

    def _leave_one_out(self, rows: pl.DataFrame) -> Answer:
        """Answers for every row whose label occurs again; the others stay in the gallery."""
        x = self.features.matrix(rows)
        probe = new_probe(self.task, self.block)
        if not hasattr(probe, "predict_leave_one_out"):
            raise UsageError(
                f"task {self.task.task!r}: probe {self.block.classifier!r} does not support "
                "leave_one_out."
            )
        probe.fit(Normaliser(self.block.normalise).fit(x).transform(x), rows["target"].to_numpy())
        answer, sure = probe.predict_leave_one_out()
        self.fits.add(probe, {})
        has_mate = rows.get_column("target").is_duplicated()
        if not has_mate.any():
            raise DataError(
                f"task {self.task.task!r}: no label occurs twice, so no image has a match."
            )
        self.n_train.append(len(rows))
        self.notes["coverage"] = has_mate.sum() / len(rows)
        mask = has_mate.to_numpy()
        return rows.filter(has_mate), answer[mask], sure[mask]


def ask_together(
    probe: Any, block: ProbeBlock, drawn: Sequence[Drawn], features: RowFeatures
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Labels (and unknown certainties) of each repeat's test rows, in their order, in one pass.

    A probe with `predict_repeats(x_pool, y_pool, draws, x_test, normalise)` gives the labels of all
    draws at once, the same as one fit per draw gives. Labels go in as numbers, and so many draws at
    a time that what comes back stays small.
    """
    pool, test = (_every(rows) for rows in zip(*drawn, strict=True))
    names, code_n = np.unique(pool["target"].to_numpy(), return_inverse=True)
    in_pool, in_test = ({item: row for row, item in enumerate(rows["id"])} for rows in (pool, test))
    x_pool, x_test = features.matrix(pool), features.matrix(test)
    n_together = max(1, MOST_ANSWERS // max(1, len(test)))
    for start in range(0, len(drawn), n_together):
        some = drawn[start : start + n_together]
        rows = [[in_pool[item] for item in train["id"]] for train, _ in some]
        code_rt = probe.predict_repeats(x_pool, code_n, rows, x_test, block.normalise)
        for code_t, (_, part_test) in zip(code_rt, some, strict=True):
            test_rows = [in_test[item] for item in part_test["id"]]
            yield names[code_t[test_rows]], np.full(len(test_rows), np.nan)


def _every(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Each row that any repeat has, once."""
    columns = [frame.select("id", "target") for frame in frames]
    same = all(frame is frames[0] for frame in frames)
    return columns[0] if same else pl.concat(columns).unique("id", maintain_order=True)
