"""Choice of two rows: which two rows of the table do two names mean?

A name is a row's, a model's (`#` chooses a version, else the newest is taken), or a part of a row's
name that fits one model only. Where a model has several setups, the one that both share.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.report.rows import Row
from fieldmark.report.run_labels import model_name
from fieldmark.store import RunFilter, Store


@dataclass(frozen=True, slots=True)
class RowPair:
    """The names of two rows, and what to say of how they were chosen."""

    a: str
    b: str
    notes: tuple[str, ...] = ()


def choose_rows(store: Store, rows: Sequence[Row], a: str, b: str) -> RowPair:
    """The two rows that these names mean."""
    first, second = (_find(store, name, rows) for name in (a, b))
    pairs = [pair for pair in itertools.product(first.setups, second.setups) if pair[0] != pair[1]]
    if not pairs:
        versions = ", ".join((first.label, *first.others))
        wanted = f"name two of its versions ({versions})" if first.others else "expected two rows"
        raise UsageError(f"{a!r} and {b!r} both name {first.setups[0]!r}: {wanted}.")
    places = {
        name: {row.column_key for row in rows if row.name == name}
        for name in (*first.setups, *second.setups)
    }
    setups = {row.name: row.setup for row in rows}

    def standing(pair: tuple[str, str]) -> tuple[bool, int, bool, int, tuple[str, str]]:
        n_shared = len(places[pair[0]] & places[pair[1]])
        words = len(pair[0]) + len(pair[1])
        return n_shared == 0, -n_shared, setups[pair[0]] != setups[pair[1]], words, pair

    chosen = min(pairs, key=standing)
    if not places[chosen[0]] & places[chosen[1]]:
        raise DataError(
            f"{chosen[0]!r} and {chosen[1]!r} share no column of the table: compare two that "
            "answered the same task, on the same data, among the same options."
        )
    notes = [note for match in (first, second) for note in match.version_note()]
    notes += [
        f"{match.label} has {len(match.setups)} setups here: to compare another, give its full "
        f'name, such as "{next(setup for setup in match.setups if setup != name)}".'
        for match, name in zip((first, second), chosen, strict=True)
        if len(match.setups) > 1
    ]
    return RowPair(*chosen, tuple(notes))


@dataclass(frozen=True, slots=True)
class _NameMatch:
    """What one name fits: a model in one version."""

    label: str
    setups: tuple[str, ...]
    """names of its rows"""
    others: tuple[str, ...]
    """older versions that the name fits as well"""

    def version_note(self) -> list[str]:
        if not self.others:
            return []
        n, others = len(self.others) + 1, ", ".join(self.others)
        return [f"{self.label} is the newest of {n} versions (others: {others})."]


def _find(store: Store, name: str, rows: Sequence[Row]) -> _NameMatch:
    named = {run.id for run in store.runs(RunFilter(models=(name,)))}
    newest = sorted(rows, key=lambda row: (row.run.finished or "", row.run.id), reverse=True)
    fitting: list[Row] = []
    for does_fit in (
        lambda row: row.name == name,
        lambda row: row.model == name or row.run.id in named,
        lambda row: name in row.name or fnmatchcase(row.name, name),
    ):
        fitting = list(filter(does_fit, newest))
        if fitting:
            break
    models = sorted({model_name(row.run.spec) for row in fitting})
    if len(models) > 1:
        shown = ", ".join(models[:5]) + (", ..." if len(models) > 5 else "")
        raise UsageError(f"{name!r} fits {len(models)} models ({shown}): expected one.")
    if not models:
        known = {text for row in rows for text in (row.name, row.model, model_name(row.run.spec))}
        short = {text.partition("?")[0].rpartition("/")[2] for text in known}
        raise UnknownName("model in these results", name, {*known, *short}, "fieldmark table")
    versions = list(dict.fromkeys(row.model for row in fitting))
    setups = dict.fromkeys(row.name for row in fitting if row.model == versions[0])
    return _NameMatch(versions[0], tuple(setups), tuple(versions[1:]))
