"""String interning: how does a name become a number, and back?

Item ids, labels, units and part names stand once in the table `text`. Both directions are
remembered while the store is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from fieldmark.errors import DataError
from fieldmark.store.database import Database

T = TypeVar("T")

_AT_ONCE = 10_000
"""values in one IN (...): below SQLite's limit of 32,766"""


@dataclass(frozen=True, slots=True)
class TextTable:
    """The table `text`, as far as it was read."""

    database: Database
    _numbers: dict[str, int] = field(default_factory=dict)
    _texts: dict[int, str] = field(default_factory=dict)

    def intern(self, values: Iterable[str | None]) -> Mapping[str, int]:
        """The numbers of all values but None, and more; makes the missing ones.

        Only within `database.writing()`; `forget` must follow if that is rolled back.
        """
        missing = [value for value in dict.fromkeys(values) if value not in self._numbers]
        names = _checked(missing)
        self.find(names)
        ((highest,),) = self.database.rows("SELECT coalesce(max(id), 0) FROM text")
        fresh = [value for value in names if value not in self._numbers]
        numbered = [(value, number) for number, value in enumerate(fresh, start=highest + 1)]
        self.database.connection.executemany("INSERT INTO text (value, id) VALUES (?, ?)", numbered)
        self._numbers.update(numbered)
        return self._numbers

    def find(self, values: Sequence[str]) -> Mapping[str, int]:
        """The numbers of those values that have one, and more."""
        for some in _chunks([value for value in values if value not in self._numbers]):
            marks = ",".join("?" * len(some))
            sql = f"SELECT value, id FROM text WHERE value IN ({marks})"
            self._numbers.update(self.database.rows(sql, some))
        return self._numbers

    def forget(self) -> None:
        self._numbers.clear()
        self._texts.clear()

    def texts(self, numbers: Iterable[int]) -> Mapping[int, str]:
        """The names behind the numbers, and more."""
        for some in _chunks([number for number in numbers if number not in self._texts]):
            marks = ",".join("?" * len(some))
            sql = f"SELECT id, value FROM text WHERE id IN ({marks})"
            self._texts.update(self.database.rows(sql, some))
        return self._texts


def _chunks(values: Sequence[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def _checked(values: Iterable[str | None]) -> list[str]:
    names = [value for value in values if value is not None]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a name is text, found {name!r} ({type(name).__name__})")
        if not name.isascii():
            _check_unicode(name)
    return names


def _check_unicode(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"the name {name!r} is not valid Unicode and cannot be stored: rename it."
        ) from error
