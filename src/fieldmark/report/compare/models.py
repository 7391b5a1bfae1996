"""Comparison of two rows: which is better overall and at what, how sure is that, where do they
disagree?

Two models, two versions of one, or two setups of one model, item by item on the tasks both were
asked. Overall is the mean difference over these tasks, weighted alike; a unit that several tasks
ask about is one unit. Among several tasks some differ by chance: their p values are corrected
(Holm).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.report.chance import OPTIONS, choice_words, with_chance
from fieldmark.report.compare.paired import Paired, read_paired
from fieldmark.report.providers import asked_noun, pairing_metric, why_not_paired
from fieldmark.report.rows import Row, current_runs, names_with_caveats, read_table, superseded_note
from fieldmark.report.run_labels import main_protocol, model_name, without_version
from fieldmark.report.tiers import ColumnErrors, ColumnKey, averaged, errors_of, photo_sets
from fieldmark.stats import LEVEL, Comparison, Errors, compare_pair, holm, join
from fieldmark.store import RunFilter, Score, Store, nothing_stored
from fieldmark.words import first_few

N_CLASSES = 3
"""classes named for each side"""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Where one row is right and the other is not, counted in items: with several training draws,
    where one is right more often.
    """

    only_a: int
    only_b: int
    both: int
    neither: int
    a_gains: tuple[tuple[str, int, int], ...]
    """classes on which a leads most: name, items only a has right minus only b, items"""
    b_gains: tuple[tuple[str, int, int], ...]
    examples_a: tuple[str, ...]
    """ids of items only a has right"""
    examples_b: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparedTask:
    """One column of the table that both rows have."""

    a: Row
    b: Row
    comparison: Comparison
    p_corrected: float
    where: Disagreement | None = None
    """None for metrics that are not about single labels, and answers worth more or less"""
    n_left_out: int = 0
    """items that one of the two was not asked, or has no value of"""

    @property
    def verdict(self) -> str:
        """ "a", "b" or "tie", after Holm's correction."""
        return side_of(self.comparison, self.p_corrected)


@dataclass(frozen=True, slots=True)
class OverallDifference:
    """The difference of the means over the tasks that count."""

    comparison: Comparison
    mean_a: float
    mean_b: float
    columns: tuple[ColumnKey, ...]
    n_photo_sets: int
    score: Score
    """of one of these tasks: the unit that all are shown in"""
    noun: str
    """what was asked: photos or questions"""
    left_out: tuple[str, ...]
    """headings of the tasks it is not over: of another unit or direction, or not counted"""

    @property
    def metrics(self) -> list[str]:
        return sorted({metric for _, metric in self.columns})

    @property
    def verdict(self) -> str:
        """ "a", "b" or "tie"."""
        return side_of(self.comparison, self.comparison.p)


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Two rows of a table, a minus b."""

    a: str
    b: str
    overall: OverallDifference | None
    """None where no task counts"""
    tasks: tuple[ComparedTask, ...]
    not_compared: tuple[str, ...] = ()
    """tasks of both that nothing compares item by item, and why, a line each"""
    notes: tuple[str, ...] = ()
    """what is not shown, a line each"""
    setups: tuple[str, ...] = ()
    """which versions and settings were taken, and how to choose others, a sentence each"""

    @property
    def names(self) -> tuple[str, str]:
        """Of both rows, with what must be said of them."""
        names = names_with_caveats([row for task in self.tasks for row in (task.a, task.b)])
        return names[self.a], names[self.b]


def side_of(comparison: Comparison, p: float) -> str:
    """ "a", "b" or "tie" at that p."""
    if p > 1 - LEVEL:
        return "tie"
    return "a" if comparison.lead > 0 else "b"


def compare_models(
    store: Store,
    a: str,
    b: str,
    where: RunFilter | None = None,
    metric: str = "",
) -> RowComparison:
    """The two rows that `a` and `b` name, on the tasks both were asked, in the table's order."""
    table = read_table(store, where, metric, compare=False)
    if not table.rows:
        raise nothing_stored(store.path)
    (a, b), chosen_notes = choose_rows(store, table.rows, a, b)
    two = [row for row in table.rows if row.name in (a, b)]
    pairs: list[PairedErrors] = []
    answers: list[Paired] = []
    left_out, nothing = [], []
    for row_a, row_b in shared_rows(with_chance(store, two), a, b):
        loaded = pairing_metric(store, row_a.run, row_a.score.metric)
        if loaded is None:
            left_out.append(f"{row_a.heading}: {why_not_paired(row_a.run, row_a.score.metric)}")
            continue
        paired = read_paired(store, [row_a.runs, row_b.runs], loaded)
        column = errors_of(paired, row_a.run.root, with_blind=False)
        if column.errors is None:
            nothing.append(f"{row_a.heading}: no photo that both answered")
            continue
        pairs.append(PairedErrors(row_a, row_b, column))
        answers.append(paired)
    if not pairs and not nothing:
        raise DataError(
            f"{a!r} and {b!r} cannot be compared photo by photo on {left_out[0]}. "
            "`fieldmark table` shows their scores with intervals."
        )
    if not pairs:
        raise DataError(
            f"{a!r} and {b!r} answered no photo in common, so they cannot be compared: "
            "run both on the same data with the same --n-test and --seed."
        )
    shown = tuple(
        replace(task, where=_disagreement(store, paired), n_left_out=paired.n_left_out)
        for task, paired in zip(compare_tasks(pairs), answers, strict=True)
    )
    superseded = superseded_note(current_runs(store, where)[1])
    reasons = (*left_out, *nothing)
    overall = overall_of(pairs)
    return RowComparison(a, b, overall, shown, reasons, tuple(superseded), chosen_notes)


def shared_rows(rows: Sequence[Row], a: str, b: str) -> list[tuple[Row, Row]]:
    """The cells of two rows in the columns that both have."""
    columns: dict[ColumnKey, dict[str, Row]] = {}
    for row in rows:
        if row.name in (a, b) and row.is_stored and not row.score.part:
            columns.setdefault(row.column_key, {})[row.name] = row
    return [
        (column_rows[a], column_rows[b])
        for column_rows in columns.values()
        if len(column_rows) == 2
    ]


# --- from errors to differences ---


@dataclass(frozen=True, slots=True, eq=False)
class PairedErrors:
    """Two rows in one column, and the errors of their scores."""

    a: Row
    b: Row
    column: ColumnErrors
    at: tuple[int, int] = (0, 1)
    """places of the two among the rows whose errors these are"""
    known: Comparison | None = None
    """where they are compared already"""

    @property
    def errors(self) -> Errors:
        if self.column.errors is None:
            raise ValueError(f"{self.a.heading}: no photo that both answered")
        return self.column.errors


def compare_tasks(pairs: Sequence[PairedErrors]) -> tuple[ComparedTask, ...]:
    """Each column's difference, with p corrected over all of them."""
    compared = [pair.known or compare_pair(pair.errors, *pair.at) for pair in pairs]
    corrected = holm([comparison.p for comparison in compared])
    return tuple(
        ComparedTask(pair.a, pair.b, comparison, float(p))
        for pair, comparison, p in zip(pairs, compared, corrected, strict=True)
    )


def counted_tasks(pairs: Sequence[PairedErrors]) -> list[PairedErrors]:
    """The columns that the overall difference is over. Two rows may be compared at any training
    size, also where the table compares others.
    """
    rows = [row for pair in pairs for row in (pair.a, pair.b)]
    counted = set(averaged([replace(row, has_compared_size=True) for row in rows]))
    if not counted and len(pairs) == 1:  # a task alone needs no mean to be told
        return list(pairs)
    return [pair for pair in pairs if pair.a.column_key in counted]


def overall_of(
    pairs: Sequence[PairedErrors],
    joined: tuple[Comparison, float, float, int] | None = None,
) -> OverallDifference | None:
    """The mean difference over the columns that count.

    `joined`: where they are compared already, the comparison, the two means and the number of photo
    sets.
    """
    counted = counted_tasks(pairs)
    if not counted:
        return None
    if joined is None:
        photos = photo_sets([pair.column for pair in counted])
        errors = join([pair.errors.taken(pair.at) for pair in counted], photos)
        means = errors.value_m.tolist()
        joined = (compare_pair(errors, 0, 1), means[0], means[1], len(set(photos)))
    comparison, mean_a, mean_b, n_photo_sets = joined
    return OverallDifference(
        comparison,
        mean_a,
        mean_b,
        tuple(pair.a.column_key for pair in counted),
        n_photo_sets,
        counted[0].a.score,
        asked_noun(pair.a.run for pair in counted),
        tuple(pair.a.heading for pair in pairs if pair not in counted),
    )


# --- where they disagree ---


def _disagreement(store: Store, paired: Paired) -> Disagreement | None:
    answers = paired.answers
    is_valued = paired.metric.uses == "value"
    if is_valued and not np.isin(paired.answer_mn, (0, 1)).all():
        return None
    best = 1 if paired.metric.direction == "up" else 0
    right_2n = paired.answer_mn == best if is_valued else answers.prediction_mn == answers.target
    item_i, right_2i = _by_item(np.stack([answers.part, answers.item]), right_2n)
    lead_i = np.sign(right_2i[0] - right_2i[1]).astype(int)
    labels, code = np.unique(answers.target[item_i], return_inverse=True)
    gain_c = np.bincount(code, lead_i, len(labels)).astype(int)
    size_c = np.bincount(code, minlength=len(labels))
    names = store.texts(labels)
    classes = [
        (names[int(label)], int(gain), int(size))
        for label, gain, size in zip(labels, gain_c, size_c, strict=True)
        if not is_valued  # the target of such an item is a text of its own, not a class
    ]
    is_alike, is_mostly = lead_i == 0, right_2i[0] >= 0.5
    shown = [answers.item[item_i[lead_i == sign]][:N_CLASSES].tolist() for sign in (1, -1)]
    texts = store.texts({*shown[0], *shown[1]})
    examples = [tuple(texts[item] for item in items) for items in shown]
    return Disagreement(
        int((lead_i > 0).sum()),
        int((lead_i < 0).sum()),
        int((is_alike & is_mostly).sum()),
        int((is_alike & ~is_mostly).sum()),
        _leading(classes, 1),
        _leading(classes, -1),
        *examples,
    )


def _by_item(key_2n: np.ndarray, right_2n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each item stands first, and the share of its draws that each row has right."""
    _, first_i, code = np.unique(key_2n, axis=1, return_index=True, return_inverse=True)
    code = code.reshape(-1)
    n_i = np.bincount(code, minlength=len(first_i))
    shares = [np.bincount(code, right_n, len(first_i)) / n_i for right_n in right_2n]
    return first_i, np.stack(shares)


def _leading(
    classes: Sequence[tuple[str, int, int]], sign: int
) -> tuple[tuple[str, int, int], ...]:
    ahead = sorted(
        (gain for gain in classes if gain[1] * sign > 0), key=lambda c: (-c[1] * sign, c)
    )
    return tuple((name, abs(gain), size) for name, gain, size in ahead[:N_CLASSES])


# --- Choice of two rows: which two rows of the table do two names mean?
#
def _nothing_shared(store: Store, rows: Sequence[Row], a: str, b: str) -> str:
    tasks_b = {row.run.spec.task: row for row in rows if row.name == b}
    asked_a = [row for row in rows if row.name == a]
    pairs = [(row, tasks_b[row.run.spec.task]) for row in asked_a if row.run.spec.task in tasks_b]
    for pair in pairs:
        if any(OPTIONS in row.column for row in pair):
            offer_a, offer_b = map(choice_words, with_chance(store, pair))
            return (
                f"{a!r} and {b!r} did not answer the same question on {pair[0].task_name}: the "
                f"first chose among {offer_a}, the second among {offer_b}. "
                "`--ask choices=0` offers all classes."
            )
    return f"{a!r} and {b!r} did not answer the same question: compare two of one task and data."


# A name is a row's, a model's (`#` chooses a version, else the newest is taken), or a part of a
# row's name that fits one model only. Where a model has several setups, the one that both share.


def choose_rows(
    store: Store, rows: Sequence[Row], a: str, b: str
) -> tuple[tuple[str, str], tuple[str, ...]]:
    """The names of the two rows that these mean, and what to say of how they were chosen."""
    match_a, match_b = (_find(store, name, rows) for name in (a, b))
    pairs = [
        pair for pair in itertools.product(match_a.setups, match_b.setups) if pair[0] != pair[1]
    ]
    if not pairs:
        versions = ", ".join((match_a.label, *match_a.others))
        advice = (
            f"name two of its versions ({versions})" if match_a.others else "expected two models"
        )
        raise UsageError(f"{a!r} and {b!r} both mean {match_a.setups[0]!r}: {advice}.")
    columns_of = {
        name: {row.column_key for row in rows if row.name == name}
        for name in (*match_a.setups, *match_b.setups)
    }
    setups = {row.name: row.setup for row in rows}
    sizes = {name: {row.size for row in rows if row.name == name} for name in columns_of}
    competing = {row.name for row in rows if row.has_compared_size}

    def standing(pair: tuple[str, str]) -> tuple[Any, ...]:
        """The setups that both share, else the training size; of several, that of the table's
        verdict, else the largest.
        """
        n_shared = len(columns_of[pair[0]] & columns_of[pair[1]])
        largest = max(size for name in pair for size, _ in sizes[name])
        return (
            n_shared == 0,
            -n_shared,
            setups[pair[0]] != setups[pair[1]],
            sizes[pair[0]] != sizes[pair[1]],
            not competing.issuperset(pair),
            -largest,
            len(pair[0]) + len(pair[1]),
            pair,
        )

    chosen = min(pairs, key=standing)
    if not columns_of[chosen[0]] & columns_of[chosen[1]]:
        raise DataError(_nothing_shared(store, rows, *chosen))
    notes = [
        f"{match.label} is the newest of {len(match.others) + 1} versions (others: "
        f"{', '.join(match.others)})."
        for match in (match_a, match_b)
        if match.others
    ]
    several = [
        (match, next(setup for setup in match.setups if setup != name))
        for match, name in zip((match_a, match_b), chosen, strict=True)
        if len(match.setups) > 1
    ]
    if several:
        counts = " and ".join(f"{match.label} has {len(match.setups)}" for match, _ in several)
        notes.append(
            f"{counts} setups here: to compare another, give its full name, such as "
            f'"{several[0][1]}".'
        )
    return chosen, tuple(notes)


@dataclass(frozen=True, slots=True)
class _NameMatch:
    """What one name fits: a model in one version."""

    label: str
    setups: tuple[str, ...]
    """names of its rows"""
    others: tuple[str, ...]
    """older versions that the name fits as well"""


def _find(store: Store, name: str, rows: Sequence[Row]) -> _NameMatch:
    named = {run.id for run in store.runs(RunFilter(models=(name,)))}
    newest = sorted(rows, key=lambda row: (row.run.finished or "", row.run.id), reverse=True)
    fitting: list[Row] = []
    folded = name.lower()
    base, _, setup = folded.removesuffix(")").partition(" (")
    protocol = setup.partition(",")[0].partition(" ")[0]
    for does_fit in (
        lambda row: row.name == name,
        lambda row: row.model == name or row.run.id in named,
        # The end of a name: `runs/a/model` is not the beginning of `runs/a/model-two`.
        lambda row: (
            without_version(row.model, row.run.spec).lower().endswith((f":{folded}", f"/{folded}"))
        ),
        lambda row: folded in row.name.lower() or fnmatchcase(row.name.lower(), folded),
        # A setup that other tasks of these results show, and that is the only one here.
        lambda row: (
            not row.setup and base in row.model.lower() and main_protocol(row.run.spec) == protocol
        ),
    ):
        fitting = list(filter(does_fit, newest))
        if fitting:
            break
    models = sorted({without_version(row.model, row.run.spec) for row in fitting})
    if len(models) > 1:
        raise UsageError(
            f"{name!r} matches {len(models)} models; type more of the name: {first_few(models)}."
        )
    if not models:
        names = {text for row in rows for text in (row.name, row.model, model_name(row.run.spec))}
        short = {text.partition("?")[0].rpartition("/")[2] for text in names}
        raise UnknownName("model in these results", name, {*names, *short}, "fieldmark table")
    versions = list(dict.fromkeys(row.model for row in fitting))
    setups = dict.fromkeys(row.name for row in fitting if row.model == versions[0])
    return _NameMatch(versions[0], tuple(setups), tuple(versions[1:]))
