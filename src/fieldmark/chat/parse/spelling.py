"""Misspelt names (edit distance): which of many names does a text misspell?

Optimal string alignment: insert, delete, replace, swap of neighbours, with a limit that grows with
the name's length. The nearest name counts only if every name of another label is clearly farther.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

MARGIN = 2
"""edits by which the runner-up must be farther"""
_SHORTEST = 5
_BINS = 32


@dataclass(frozen=True, slots=True)
class Spellings:
    """Names with the letters each is made of, so that few have to be compared."""

    owners: Mapping[str, frozenset[str]]
    """name → the labels it stands for"""
    names: tuple[str, ...]
    letters_nb: np.ndarray
    """how often each name has letters of each of 32 bins"""


@dataclass(frozen=True, slots=True)
class NearestName:
    """What a text misspells."""

    label: str | None
    distance: int = 0
    is_tie: bool = False
    """a name of another species is about as near"""


def spellings(owners: Mapping[str, Iterable[str]]) -> Spellings:
    names = tuple(owners)
    return Spellings(
        {name: frozenset(labels) for name, labels in owners.items()}, names, _letters(names)
    )


def _letters(names: Sequence[str]) -> np.ndarray:
    import numpy as np

    letters_nb = np.zeros((len(names), _BINS), np.int16)
    for row, name in enumerate(names):
        for letter in name:
            letters_nb[row, ord(letter) % _BINS] += 1
    return letters_nb


def most_edits(name: str) -> int:
    """Edits a name of this length may have: none below 5 letters, then one for each 7.

    >>> [most_edits("x" * n) for n in (4, 5, 13, 14, 21, 40)]
    [0, 1, 1, 2, 3, 3]
    """
    return 0 if len(name) < _SHORTEST else min(3, max(1, len(name) // 7))


def nearest(text: str, names: Spellings, margin: int = MARGIN) -> NearestName:
    """The label of the name that `text` misspells, if there is one and only one.

    >>> nearest("melospiza meloida", spellings({"melospiza melodia": ["song sparrow"]})).label
    'song sparrow'
    """
    limit = most_edits(text)
    near = _within(text, names, limit) if limit else {}
    if not near:
        return NearestName(None)
    best = min(near.values())
    rivals = _within(text, names, best + margin - 1)
    label = None if len(rivals) > 1 else next(iter(rivals))
    return NearestName(label, best, is_tie=label is None)


def _within(text: str, names: Spellings, most: int) -> dict[str, int]:
    """label → distance of its nearest name, where that is at most so many edits away."""
    distances: dict[str, int] = {}
    for name in _candidates(text, names, most):
        distance = edits(text, name, most)
        if distance <= most:
            for label in names.owners[name]:
                distances[label] = min(distances.get(label, distance), distance)
    return distances


def _candidates(text: str, names: Spellings, most: int) -> list[str]:
    """Names whose letters differ little: one edit adds at most one letter and takes at most one,
    so more letters too many, or too few, than edits allowed rule a name out.
    """
    import numpy as np

    excess_nb = names.letters_nb - _letters([text])
    n_more = np.where(excess_nb > 0, excess_nb, 0).sum(axis=1)
    n_fewer = n_more - excess_nb.sum(axis=1)
    return [names.names[row] for row in np.flatnonzero(np.maximum(n_more, n_fewer) <= most)]


def edits(one: str, two: str, most: int) -> int:
    """The distance, or `most + 1` when it is larger.

    >>> edits("leo", "loe", 3), edits("panthera", "pantera", 3), edits("abc", "xyz", 1)
    (1, 1, 2)
    """
    if abs(len(one) - len(two)) > most:
        return most + 1
    before: list[int] = []
    above = list(range(len(two) + 1))
    for row, letter in enumerate(one, start=1):
        here = [row]
        for column, other in enumerate(two, start=1):
            cost = min(
                above[column] + 1, here[column - 1] + 1, above[column - 1] + (letter != other)
            )
            if row > 1 and column > 1 and letter == two[column - 2] and one[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            here.append(cost)
        if min(here) > most and (not above or min(above) > most):
            return most + 1
        before, above = above, here
    return min(above[-1], most + 1)
