"""Which of two models is better at what, how sure is that, and where do they disagree?

Only runs that asked the same question in the same way are paired, item by item. Among several
questions some differ by chance: p values are corrected (Holm) over all questions shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.report.documents import has_documents, metric_of, why_not_paired
from fieldmark.report.paired import Paired, read_paired
from fieldmark.report.rows import Row, model_labels, read_table, task_name
from fieldmark.report.training import METRIC, spread
from fieldmark.stats import Comparison, VarianceParts, compare, holm
from fieldmark.store import RunFilter, Store, nothing_stored

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
class Question:
    """One column of a table: the same question asked of both models."""

    a: Row
    b: Row
    found: Comparison
    p_corrected: float
    where: Disagreement | None
    """None for metrics that are not about single labels, and documents worth more or less"""
    n_unanswered: int
    spreads: tuple[VarianceParts | None, VarianceParts | None] = (None, None)
    """of a and b: the test items' share of the score's spread, and the training's"""

    @property
    def verdict(self) -> str:
        """ "a", "b" or "tie"."""
        if self.p_corrected > 1 - self.found.level:
            return "tie"
        return "a" if self.found.lead > 0 else "b"


def compare_models(
    store: Store, a: str, b: str, tasks: Sequence[str] = (), metric: str = ""
) -> list[Question]:
    """The questions both models were asked, in the order of the table.

    Those that cannot be compared item by item are left out; `not_compared` tells of them.
    """
    known = _known(store)
    if not known:
        raise nothing_stored(store.path)
    first, second = pick_model(a, set(known)), pick_model(b, set(known))
    if first == second:
        raise UsageError(f"{a!r} and {b!r} both name {first!r}: expected two models.")
    pairs = _pairs(store, (known[first], known[second]), tasks, metric)
    if not pairs:
        raise DataError(
            f"{first!r} and {second!r} have no finished run of the same task, asked the same way: "
            "`fieldmark table --long` shows what there is."
        )
    asked = [_ask(store, *pair) for pair in pairs]
    found = [each for each in asked if each is not None]
    if not found:
        why = why_not_paired(pairs[0][0].score.metric)
        raise DataError(
            f"{first!r} and {second!r} cannot be compared item by item on "
            f"{task_name(pairs[0][0].run.spec)!r}: {why}. `fieldmark table` shows their scores "
            "with intervals."
        )
    if not any(each.found.n for each in found):
        raise DataError(
            f"{first!r} and {second!r} answered no item in common, so nothing can be paired: run "
            "both on the same data with the same --n-test and --seed."
        )
    corrected = holm([each.found.p for each in found])
    return [replace(each, p_corrected=float(p)) for each, p in zip(found, corrected, strict=True)]


def not_compared(
    store: Store, a: str, b: str, tasks: Sequence[str] = (), metric: str = ""
) -> list[str]:
    """The questions of both models that cannot be compared item by item, a line each."""
    known = _known(store)
    both = known[pick_model(a, set(known))], known[pick_model(b, set(known))]
    pairs = _pairs(store, both, tasks, metric)
    return [
        f"{task_name(row.run.spec)}: {why_not_paired(row.score.metric)}"
        for row, _ in pairs
        if metric_of(store, row.run, row.score.metric) is None
    ]


_Model = tuple[str, str]
"""name and version"""


def _known(store: Store) -> dict[str, _Model]:
    """The models by what tables call them: two versions of one are two models."""
    runs = [run for run in store.runs() if run.state == "done"] or store.runs()
    labels = model_labels(runs)
    return {labels[run.id]: (run.spec.model, run.spec.model_version) for run in runs}


def pick_model(name: str, known: set[str]) -> str:
    """The model of that name, or the only one whose name contains it or matches * and ?."""
    if name in known:
        return name
    found = sorted(each for each in known if name in each or fnmatchcase(each, name))
    if len(found) > 1:
        shown = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
        raise UsageError(f"{name!r} fits {len(found)} models ({shown}): expected one.")
    if not found:
        short = {each.partition("?")[0].rpartition("/")[2]: each for each in known}
        raise UnknownName("model in these results", name, {*known, *short}, "fieldmark table")
    return found[0]


def _pairs(
    store: Store, both: tuple[_Model, _Model], tasks: Sequence[str], metric: str
) -> list[tuple[Row, Row]]:
    a, b = both
    where = RunFilter(models=(a[0], b[0]), tasks=tuple(tasks))
    columns: dict[tuple[str, str], dict[_Model, Row]] = {}
    for row in read_table(store, where, metric, compare=False).rows:
        model = row.run.spec.model, row.run.spec.model_version
        columns.setdefault((row.column, row.score.metric), {})[model] = row
    return [(mine[a], mine[b]) for mine in columns.values() if a in mine and b in mine]


def _ask(store: Store, a: Row, b: Row) -> Question | None:
    metric = metric_of(store, a.run, a.score.metric)
    if metric is None:
        return None
    paired = read_paired(store, [a.run, b.run], metric)
    found = compare(paired.items, paired.answer_mn[0], paired.answer_mn[1], paired.metric)
    where = _disagreement(store, paired)
    is_told = a.score.metric == METRIC and a.run.spec.repeats > 1 and not has_documents(a.run)
    both = (a, b) if is_told else ()
    spreads = [spread(paired.asked, number) for number in range(len(both))] or [None, None]
    return Question(a, b, found, found.p, where, paired.n_unanswered, (spreads[0], spreads[1]))


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
        if not is_valued  # the target of a document is a text of its own, not a class
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
        (each for each in classes if each[1] * sign > 0), key=lambda c: (-c[1] * sign, c)
    )
    return tuple((name, abs(gain), size) for name, gain, size in ahead[:N_CLASSES])


def _examples(store: Store, paired: Paired, which: np.ndarray) -> tuple[str, ...]:
    numbers = paired.asked.item[which][:N_CLASSES]
    names = store.texts(numbers)
    return tuple(names[int(each)] for each in numbers)


def counts(questions: Sequence[Question]) -> Mapping[str, int]:
    """How many questions each side wins."""
    verdicts = [each.verdict for each in questions]
    return {side: verdicts.count(side) for side in ("a", "b", "tie")}
