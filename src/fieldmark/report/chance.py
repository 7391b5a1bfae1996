"""Chance level (random guessing) and comparison sets: what was there to choose from, and which rows
of a table answer the same question?

Whoever chooses among 8 options is right in one of 8 without looking, whoever chooses among 24
classes in one of 24: scores of the two are no match without these levels. A language model's
options are stored with its answers; any other model chooses among the classes of the task. What
always giving the commonest answer scores is `blind` of a column's study.

Two things make questions differ although task, data and metric are the same. A language model that
chooses among 8 of 24 labels has an easier one: rows that chose among other options stand in a
column of their own. And more training images nearly always help: sizes of one model do not compete,
but each column compares its models at one size, and with those that saw none. Tiers, verdicts,
ranks and plots rest on this.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmark.report.providers import is_valued, metric_here
from fieldmark.store import PartRecord, Run, Store, canonical_json

if TYPE_CHECKING:
    from fieldmark.report.rows import Row

MOST_LETTERS = 26
LIKE = 1.25
"""all labels of the test photos, and all classes of the task, may be so many times each other"""


@dataclass(frozen=True, slots=True)
class ChanceLevel:
    """What guessing scores."""

    value: float
    among: str
    """what there is to guess: `8 options`, `24 classes`"""


def with_chance(store: Store, rows: Sequence[Row]) -> list[Row]:
    """The rows with their chance level, as far as it is known. Models that were asked in the same
    way had the same options, so that one of them tells for all.
    """
    level_of: dict[tuple[Any, ...], ChanceLevel | None] = {}
    result = []
    for row in rows:
        if is_valued(row.run) or row.score.part or not row.is_stored:
            result.append(row)
            continue
        key = (*settings_key(row), row.score.metric)
        if key not in level_of:
            level_of[key] = chance_level(store, row.run, row.score.metric)
        result.append(replace(row, chance=level_of[key]))
    return result


def settings_key(row: Row) -> tuple[Any, ...]:
    """The same for models that were asked in the same way."""
    spec = row.run.spec
    return spec.task_name, spec.protocol, canonical_json(spec.settings), spec.n_test, spec.rows


def chance_level(store: Store, run: Run, name: str) -> ChanceLevel | None:
    """Of accuracy and of macro accuracy; None of other metrics, and where answers are free."""
    from fieldmark.report.compare.paired import score_rule

    metric = metric_here(store, run, name)
    form = metric.closed_form if metric and metric.uses == "prediction" else ""
    if form not in ("right", "recall"):
        return None
    parts = store.finished_parts(run.id)
    guesses = _of_options(store, run) if is_asked(parts) else _of_classes(store, run, parts)
    rule = score_rule(run)
    if rule not in ("mean", "pooled"):
        guesses = [guess for guess in guesses if guess.part == rule]
    if not guesses or any(guess.n_options == 0 for guess in guesses):
        return None
    strata: dict[tuple[str, ...], list[float]] = {}
    for guess in guesses:
        part = guess.part if rule == "mean" else ""
        stratum = (part, guess.target) if form == "recall" else (part,)
        strata.setdefault(stratum, []).append(guess.chance)
    means: dict[str, list[float]] = {}
    for (part, *_), shares in strata.items():
        means.setdefault(part, []).append(float(np.mean(shares)))
    return ChanceLevel(
        float(np.mean([np.mean(unit_chances) for unit_chances in means.values()])), _words(guesses)
    )


@dataclass(frozen=True, slots=True)
class _Guess:
    """What there was to choose from, of one item."""

    part: str
    target: str
    n_options: int
    """0: any words"""
    n_turns: int = 1
    """rotations of the options, all of which must be right"""
    noun: str = "options"

    @property
    def chance(self) -> float:
        return float(self.n_options) ** -self.n_turns


def _words(guesses: Sequence[_Guess]) -> str:
    """
    >>> _words([_Guess("", "a", 8), _Guess("", "a", 2)])
    '2 to 8 options'
    """
    numbers = sorted({guess.n_options for guess in guesses})
    count = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
    turned = ", right in all rotations" if any(guess.n_turns > 1 for guess in guesses) else ""
    return f"{count} {guesses[0].noun}{turned}"


def is_asked(parts: Sequence[PartRecord]) -> bool:
    """Did the run send requests to a language model?"""
    return any("n_requests" in (part.info or {}) for part in parts)


def _of_options(store: Store, run: Run) -> list[_Guess]:
    frame = store.predictions(run.id).select("part", "target", "info")
    labels: dict[str, set[str]] = {}
    for part, target in frame.select("part", "target").unique().iter_rows():
        labels.setdefault(part, set()).add(target)
    guesses = []
    for part, target, text in frame.iter_rows():
        info = _facts(text)
        options, n_turns = info.get("options") or (), max(1, len(info.get("turns") or ()))
        n = len(options)
        if options and target not in options:  # a trait, yes or no
            n = max(2, len(labels[part]))
        guesses.append(_Guess(part, target, n, n_turns))
    return guesses


def _of_classes(store: Store, run: Run, parts: Sequence[PartRecord]) -> list[_Guess]:
    """The classes that a part noted; else those among its targets and answers."""
    answers = store.answers([run.id])
    names = store.texts({*answers.part.tolist(), *answers.target.tolist()} - {0})
    noted = {part.part: (part.info or {}).get("n_classes") for part in parts}
    guesses = []
    for number in np.unique(answers.part).tolist():
        part_items = answers.taken(answers.part == number)
        part = names.get(number, "")
        seen = np.unique(np.concatenate([part_items.target, part_items.prediction_mn[0]]))
        n = noted.get(part) or int((seen > 0).sum())
        targets = np.unique(part_items.target[part_items.target > 0], return_counts=True)
        guesses += [
            _Guess(part, names[target], n, noun="classes")
            for target, count in zip(*(column.tolist() for column in targets), strict=True)
            for _ in range(count)
        ]
    return guesses


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a language model chose from."""

    n: int
    """options at most; 0: it answered in words of its own"""
    n_turns: int
    """rotations of them, all of which must be right"""
    is_all: bool
    """were all labels offered?"""


def _offered(store: Store, run: Run) -> _Offer:
    offered: dict[str, set[str]] = {}
    fewest: dict[str, int] = {}
    most, n_turns = 0, 1
    for part, text in store.predictions(run.id).select("part", "info").iter_rows():
        info = _facts(text)
        options = info.get("options") or ()
        offered.setdefault(part, set()).update(options)
        fewest[part] = min(fewest.get(part, len(options)), len(options))
        most, n_turns = max(most, len(options)), max(n_turns, len(info.get("turns") or ()))
    is_all = most > 0 and all(fewest[part] == len(every) for part, every in offered.items())
    return _Offer(most, n_turns, is_all)


def n_classes(store: Store, run: Run) -> int:
    """The classes that a run without options chose among, in the part that has most."""
    parts = store.finished_parts(run.id)
    return max((guess.n_options for guess in _of_classes(store, run, parts)), default=0)


def _facts(info: str | None) -> Mapping[str, Any]:
    try:
        info_fields = json.loads(info) if info else {}
    except ValueError:
        return {}
    return info_fields if isinstance(info_fields, dict) else {}


# --- the place of the right option ---


def by_position(store: Store, run: Run) -> list[tuple[int, int]]:
    """How many items have the right option in the first place, the second, ..., and how many of
    these were answered rightly. [] where options were not shuffled, or every rotation was asked.
    """
    if is_valued(run) or not is_asked(store.finished_parts(run.id)):
        return []
    counts: dict[int, list[int]] = {}
    orders = set()
    frame = store.predictions(run.id).select("target", "prediction", "info")
    for target, prediction, text in frame.iter_rows():
        info = _facts(text)
        position = info.get("position_of_truth")
        if position is None or "turns" in info:
            continue
        orders.add(tuple(info["options"]))
        count = counts.setdefault(position, [0, 0])
        count[0] += 1
        count[1] += prediction == target
    n_places = max(counts, default=-1) + 1
    if len(orders) < 2 or n_places > MOST_LETTERS:
        return []
    return [(n, right) for n, right in (counts.get(turn, [0, 0]) for turn in range(n_places))]


def position_words(counts: Sequence[tuple[int, int]]) -> str:
    """
    >>> position_words([(10, 8), (10, 7)]), position_words([(4, 4), (6, 3)]), position_words([])
    ('A 80 · B 70 (n=10 each)', 'A 100 · B 50 (n=4 to 6 each)', '')
    """
    if not counts:
        return ""
    shares = [
        f"{chr(65 + position)} {100 * right / n:.0f}" if n else f"{chr(65 + position)} –"
        for position, (n, right) in enumerate(counts)
    ]
    sizes = sorted({n for n, _ in counts})
    count = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    return f"{' · '.join(shares)} (n={count} each)"


# --- options ---


OPTIONS = "\noptions="
"""what the heading of a column ends with, before their number"""


def by_options(store: Store, rows: Sequence[Row]) -> list[Row]:
    """The rows in columns of one number of options; models that chose among all classes keep the
    plain heading.
    """
    offer_of: dict[tuple[object, ...], _Offer | None] = {}
    keys = [settings_key(row) for row in rows]
    for row, key in zip(rows, keys, strict=True):
        if key not in offer_of:
            offer_of[key] = _offered(store, row.run) if _chooses(store, row) else None
    if not any(offer_of.values()):
        return list(rows)
    offers = [offer_of[key] for key in keys]
    most = _all_classes(store, rows, offers)
    texts = [_offer_words(offer, most[row.column]) for row, offer in zip(rows, offers, strict=True)]
    questions: dict[str, set[str]] = {}
    for row, text in zip(rows, texts, strict=True):
        questions.setdefault(row.column, set()).add(text)
    return [
        replace(row, column=f"{row.column}{OPTIONS}{text}")
        if text and len(questions[row.column]) > 1
        else row
        for row, text in zip(rows, texts, strict=True)
    ]


def _chooses(store: Store, row: Row) -> bool:
    """Was a language model asked for a label?"""
    if is_valued(row.run) or not is_asked(store.finished_parts(row.run.id)):
        return False
    metric = metric_here(store, row.run, row.score.metric)
    return metric is None or metric.uses == "prediction"


def _all_classes(
    store: Store, rows: Sequence[Row], offers: Sequence[_Offer | None]
) -> dict[str, int]:
    """How many classes each column has, as models that had no options noted it; else the most
    options that any model had.
    """
    most: dict[str, int] = {}
    noted: dict[str, int] = {}
    for row, offer in zip(rows, offers, strict=True):
        if offer is not None:
            most[row.column] = max(most.get(row.column, 0), offer.n)
    for row, offer in zip(rows, offers, strict=True):
        if offer is None and row.column in most and row.column not in noted and row.is_stored:
            noted[row.column] = n_classes(store, row.run)
    return {row.column: 0 for row in rows} | most | {k: n for k, n in noted.items() if n}


def _offer_words(offer: _Offer | None, n_all: int) -> str:
    """ "" for a choice among all classes."""
    if offer is None:
        return ""
    turned = " in all rotations" if offer.n_turns > 1 else ""
    is_whole = offer.is_all and n_all <= LIKE * offer.n
    return turned.strip() if is_whole else f"{offer.n or 'none'}{turned}"


# --- training sizes ---


def at_one_size(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The rows, with those marked that compete; and a line for each column where some do not."""
    columns: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.is_stored and not row.score.part and not row.stand_in:
            columns.setdefault(row.column_key, []).append(row)
    chosen = {column: _common_size(column_rows) for column, column_rows in columns.items()}
    left = {
        column: {id(row) for row in column_rows}
        - {id(row) for row in _at(column_rows, chosen[column])}
        for column, column_rows in columns.items()
    }
    notes = [
        f"{columns[column][0].heading}: the letters compare only models "
        f"{trained_words([row.size for row in columns[column] if id(row) not in out])}. "
        "`fieldmark plot curve` shows the others."
        for column, out in left.items()
        if out
    ]
    return [
        replace(row, has_compared_size=id(row) not in left.get(row.column_key, ())) for row in rows
    ], notes


Size = tuple[float, str]


def _common_size(rows: Sequence[Row]) -> Size:
    """The size at which most models can be compared; of several that which most of them were
    trained at, then the largest.
    """

    def standing(size: Size) -> tuple[int, int, Size]:
        return (
            len({row.model for row in _at(rows, size)}),
            len({row.model for row in rows if row.size == size}),
            size,
        )

    return max({row.size for row in rows}, key=standing)


def _at(rows: Sequence[Row], size: Size) -> list[Row]:
    """The rows of that size, and those that saw no training images: they have no advantage."""
    return [row for row in rows if row.size == size or row.size[0] == 0]


def trained_words(sizes: Collection[Size]) -> str:
    """
    >>> trained_words([(12, "12")]), trained_words([(0, "0"), (5, "5 per class")])
    ('with 12 training photos (or examples)', 'with 5 training photos per class, or with none')
    """
    trained = sorted({size for size in sizes if size[0]})
    if len(trained) != 1:
        return "at one training size each" if trained else "without training photos"
    number, _, per_class = trained[0][1].partition(" ")
    text = f"with {number} training photos" + (f" {per_class}" if per_class else " (or examples)")
    return text + (", or with none" if any(not size[0] for size in sizes) else "")
