"""Comparison set: which rows of a table answer the same question, and so share a verdict?

Two things make questions differ although task, data and metric are the same. A language model that
chooses among 8 of 24 labels has an easier one: rows that chose among other options stand in a
column of their own. And more training images nearly always help: sizes of one model do not compete,
but each column compares its models at one size. Tiers, verdicts, ranks and plots rest on this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fieldmark.errors import FieldmarkError
from fieldmark.report.cells import Row
from fieldmark.report.chance import is_asked, n_classes, options_shown, settings_key
from fieldmark.report.providers import is_valued, pairing_metric
from fieldmark.report.ways import head_of
from fieldmark.store import Store

LIKE = 1.25
"""all labels of the test photos, and all classes of the task, may be so many times each other"""


# --- options ---


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a language model chose from."""

    n: int
    """options at most; 0: it answered in words of its own"""
    n_turns: int
    """rotations of them, all of which must be right"""
    is_all: bool
    """were all labels offered?"""


def by_options(store: Store, rows: Sequence[Row]) -> list[Row]:
    """The rows in columns of one number of options; models that chose among all classes keep the
    plain heading.
    """
    known: dict[tuple[object, ...], _Offer | None] = {}
    keys = [settings_key(row) for row in rows]
    for row, key in zip(rows, keys, strict=True):
        if key not in known:
            known[key] = _Offer(*options_shown(store, row.run)) if _chooses(store, row) else None
    if not any(known.values()):
        return list(rows)
    offers = [known[key] for key in keys]
    most = _all_classes(store, rows, offers)
    words = [_words(offer, most[row.column]) for row, offer in zip(rows, offers, strict=True)]
    questions: dict[str, set[str]] = {}
    for row, text in zip(rows, words, strict=True):
        questions.setdefault(row.column, set()).add(text)
    return [
        replace(row, column=f"{row.column}\noptions={text}")
        if text and len(questions[row.column]) > 1
        else row
        for row, text in zip(rows, words, strict=True)
    ]


def _chooses(store: Store, row: Row) -> bool:
    """Was a language model asked for a label?"""
    if is_valued(row.run) or not is_asked(store.finished_parts(row.run.id)):
        return False
    try:
        metric = pairing_metric(store, row.run, row.score.metric)
    except FieldmarkError:  # a user's own metric whose file is not here
        return True
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


def _words(offer: _Offer | None, n_all: int) -> str:
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
            columns.setdefault(row.place, []).append(row)
    chosen = {place: _common_size(mine) for place, mine in columns.items()}
    left = {
        place: {id(row) for row in mine} - {id(row) for row in _at(mine, chosen[place])}
        for place, mine in columns.items()
    }
    notes = [
        f"{columns[place][0].heading}: the verdict compares models {_trained(chosen[place])}. "
        "Other sizes have no letter; `fieldmark plot curve` shows them."
        for place, out in left.items()
        if out
    ]
    return [
        replace(row, has_compared_size=id(row) not in left.get(row.place, ())) for row in rows
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
    """The rows of that size; of a protocol without any, those that saw no training images."""
    trained = {head_of(row.run.spec) for row in rows if row.size == size}
    return [
        row
        for row in rows
        if row.size == size or (row.size[0] == 0 and head_of(row.run.spec) not in trained)
    ]


def _trained(size: Size) -> str:
    number, words = size
    if number == 0:
        return "without training photos"
    return f"trained on {words}" + ("" if "per class" in words else " photos")
