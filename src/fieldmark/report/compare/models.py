"""Comparison of two models: which is better at what, how sure is that, where do they disagree?

Only runs that asked the same question in the same way are paired, item by item. Among several
questions some differ by chance: p values are corrected (Holm) over all questions shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.report.cells import Row
from fieldmark.report.labels import model_labels, model_name, newest_first
from fieldmark.report.paired import Paired, read_paired
from fieldmark.report.providers import pairing_metric, why_not_paired
from fieldmark.report.rows import current_runs, read_table, superseded_note
from fieldmark.stats import Comparison, compare, holm
from fieldmark.store import Run, RunFilter, RunSpec, Store, nothing_stored

N_CLASSES = 3
"""classes named for each side"""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Where one model is right and the other is not."""

    only_a: int
    only_b: int
    both: int
    neither: int
    a_gains: tuple[tuple[str, int, int], ...]
    """classes on which a leads most: name, items only a has right minus only b, items"""
    b_gains: tuple[tuple[str, int, int], ...]
    examples_a: tuple[str, ...]
    """ids of items only a has right, those b was surest of first where that is known"""
    examples_b: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparedTask:
    """One column of a table: the same question asked of both models."""

    a: Row
    b: Row
    comparison: Comparison
    p_corrected: float
    where: Disagreement | None
    """None for metrics that are not about single labels, and answers worth more or less"""
    n_unanswered: int

    @property
    def verdict(self) -> str:
        """ "a", "b" or "tie"."""
        if self.p_corrected > 1 - self.comparison.level:
            return "tie"
        return "a" if self.comparison.lead > 0 else "b"


def compare_models(
    store: Store, a: str, b: str, tasks: Sequence[str] = (), metric: str = ""
) -> list[ComparedTask]:
    """The questions both models were asked, in the order of the table.

    Those that cannot be compared item by item are left out; `not_compared` tells of them.
    """
    both = _find_both(store, a, b, tasks)
    first, second = (model.label for model in both)
    pairs = _pairs(store, both, tasks, metric)
    if not pairs:
        raise DataError(
            f"{first!r} and {second!r} have no finished run of the same task, asked the same way: "
            "`fieldmark table --long` shows what there is."
        )
    asked = [_compare_task(store, *pair) for pair in pairs]
    questions = [question for question in asked if question is not None]
    if not questions:
        why = why_not_paired(pairs[0][0].run, pairs[0][0].score.metric)
        raise DataError(
            f"{first!r} and {second!r} cannot be compared item by item on "
            f"{pairs[0][0].run.spec.task_name!r}: {why}. `fieldmark table` shows their scores "
            "with intervals."
        )
    if not any(question.comparison.n for question in questions):
        raise DataError(
            f"{first!r} and {second!r} answered no item in common, so nothing can be paired: run "
            "both on the same data with the same --n-test and --seed."
        )
    corrected = holm([question.comparison.p for question in questions])
    return [
        replace(question, p_corrected=float(p))
        for question, p in zip(questions, corrected, strict=True)
    ]


def not_compared(
    store: Store, a: str, b: str, tasks: Sequence[str] = (), metric: str = ""
) -> list[str]:
    """The questions of both models that cannot be compared item by item, a line each."""
    pairs = _pairs(store, _find_both(store, a, b, tasks), tasks, metric)
    return [
        f"{row.run.spec.task_name}: {why_not_paired(row.run, row.score.metric)}"
        for row, _ in pairs
        if pairing_metric(store, row.run, row.score.metric) is None
    ]


def comparison_notes(store: Store, a: str, b: str, tasks: Sequence[str] = ()) -> list[str]:
    """Which versions of the models were taken, and what is not shown, a line each."""
    notes = []
    both = _find_both(store, a, b, tasks)
    for model in both:
        if model.others:
            n = len(model.others) + 1
            notes.append(
                f"{model.label} is the newest of {n} versions (others: {', '.join(model.others)})."
            )
    where = RunFilter(models=tuple(model_name(model.spec) for model in both), tasks=tuple(tasks))
    return [*notes, *superseded_note(current_runs(store, where)[1])]


@dataclass(frozen=True, slots=True)
class _ModelVersion:
    """A model, in one version."""

    label: str
    """as tables call it"""
    spec: RunSpec
    others: tuple[str, ...] = ()
    """older versions that the given name fits as well"""

    def is_of(self, run: Run) -> bool:
        mine, its = self.spec, run.spec
        return (model_name(mine), mine.model_version) == (model_name(its), its.model_version)


def _find_both(
    store: Store, a: str, b: str, tasks: Sequence[str]
) -> tuple[_ModelVersion, _ModelVersion]:
    runs = [run for run in current_runs(store)[0] if run.state == "done"] or store.runs()
    if not runs:
        raise nothing_stored(store.path)
    labels = model_labels(runs)
    asked = {run.id for run in store.runs(RunFilter(tasks=tuple(tasks)))}
    order = newest_first([run for run in runs if run.id in asked]) or newest_first(runs)
    first, second = (_find_model(store, name, order, labels) for name in (a, b))
    if first.label == second.label:
        versions = ", ".join((first.label, *first.others))
        wanted = f"name two of its versions ({versions})" if first.others else "expected two models"
        raise UsageError(f"{a!r} and {b!r} both name {first.label!r}: {wanted}.")
    return first, second


def _find_model(
    store: Store, name: str, runs: Sequence[Run], labels: Mapping[int, str]
) -> _ModelVersion:
    """The model of that name (`#` chooses a version, else the newest is taken), or the only one
    whose name contains it or matches * and ?. `runs`: the newest first.
    """
    named = {run.id for run in store.runs(RunFilter(models=(name,)))}
    for does_fit in (
        lambda run: labels[run.id] == name,
        lambda run: run.id in named,
        lambda run: name in labels[run.id] or fnmatchcase(labels[run.id], name),
    ):
        fitting = list(filter(does_fit, runs))
        if fitting:
            break
    models = sorted({model_name(run.spec) for run in fitting})
    if len(models) > 1:
        shown = ", ".join(models[:5]) + (", ..." if len(models) > 5 else "")
        raise UsageError(f"{name!r} fits {len(models)} models ({shown}): expected one.")
    if not models:
        known = {*labels.values(), *(model_name(run.spec) for run in runs)}
        short = {model.partition("?")[0].rpartition("/")[2]: model for model in known}
        raise UnknownName("model in these results", name, {*known, *short}, "fieldmark table")
    versions = list(dict.fromkeys(labels[run.id] for run in fitting))
    return _ModelVersion(versions[0], fitting[0].spec, tuple(versions[1:]))


def _pairs(
    store: Store, both: tuple[_ModelVersion, _ModelVersion], tasks: Sequence[str], metric: str
) -> list[tuple[Row, Row]]:
    where = RunFilter(models=tuple(model_name(model.spec) for model in both), tasks=tuple(tasks))
    columns: dict[tuple[str, str], dict[int, Row]] = {}
    for row in read_table(store, where, metric, compare=False).rows:
        for side, model in enumerate(both):
            if model.is_of(row.run):
                mine = columns.setdefault((row.column, row.score.metric), {})
                mine[side] = replace(row, model=model.label)
    return [(mine[0], mine[1]) for mine in columns.values() if len(mine) == 2]


def _compare_task(store: Store, a: Row, b: Row) -> ComparedTask | None:
    metric = pairing_metric(store, a.run, a.score.metric)
    if metric is None:
        return None
    paired = read_paired(store, [a.runs, b.runs], metric)
    comparison = compare(paired.items, paired.answer_mn[0], paired.answer_mn[1], paired.metric)
    where = _disagreement(store, paired)
    return ComparedTask(a, b, comparison, comparison.p, where, paired.n_unanswered)


def _disagreement(store: Store, paired: Paired) -> Disagreement | None:
    asked = paired.asked
    is_valued = paired.metric.uses == "value"
    if is_valued and not np.isin(paired.answer_mn, (0, 1)).all():
        return None
    best = 1 if paired.metric.direction == "up" else 0
    is_a, is_b = paired.answer_mn == best if is_valued else asked.prediction_mn == asked.target
    gain = is_a.astype(int) - is_b
    labels, code = np.unique(asked.target, return_inverse=True)
    gain_c = np.bincount(code, gain, len(labels)).astype(int)
    size_c = np.bincount(code, minlength=len(labels))
    names = store.texts(labels)
    classes = [
        (names[int(label)], int(gain), int(size))
        for label, gain, size in zip(labels, gain_c, size_c, strict=True)
        if not is_valued  # the target of such an item is a text of its own, not a class
    ]
    examples = [_examples(store, paired, gain == sign) for sign in (1, -1)]
    return Disagreement(
        int((gain > 0).sum()),
        int((gain < 0).sum()),
        int((is_a & is_b).sum()),
        int((~is_a & ~is_b).sum()),
        _leading(classes, 1),
        _leading(classes, -1),
        *examples,
    )


def _leading(
    classes: Sequence[tuple[str, int, int]], sign: int
) -> tuple[tuple[str, int, int], ...]:
    ahead = sorted(
        (gain for gain in classes if gain[1] * sign > 0), key=lambda c: (-c[1] * sign, c)
    )
    return tuple((name, abs(gain), size) for name, gain, size in ahead[:N_CLASSES])


def _examples(store: Store, paired: Paired, which: np.ndarray) -> tuple[str, ...]:
    numbers = paired.asked.item[which][:N_CLASSES]
    names = store.texts(numbers)
    return tuple(names[int(number)] for number in numbers)


def counts(questions: Sequence[ComparedTask]) -> Mapping[str, int]:
    """How many questions each side wins."""
    verdicts = [question.verdict for question in questions]
    return {side: verdicts.count(side) for side in ("a", "b", "tie")}
