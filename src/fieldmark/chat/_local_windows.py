"""How is a text that is longer than the context read?

In windows: every token is predicted once, in the first window after the token that begins a text,
in each later one after at least the token before it; the last one reaches as far back as there is
room. So lm-evaluation-harness cuts texts for its rolling log-likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    head: tuple[int, ...]
    """read first, predicted by none of this window; at least one token"""
    ids: tuple[int, ...]
    """predicted; all but the last are read too"""


def windows(begin: int, ids: Sequence[int], room: int | None) -> Iterator[Window]:
    """Windows in which at most `room` tokens are read; none for an empty text.

    >>> [(each.head, each.ids) for each in windows(0, (1, 2, 3, 4, 5), 3)]
    [((0,), (1, 2, 3)), ((2, 3), (4, 5))]
    """
    whole, most = (begin, *ids), room or len(ids) + 1
    for start in range(0, len(ids), most):
        end = min(start + most, len(ids))
        first = max(0, end - most)
        yield Window(whole[first : start + 1], whole[start + 1 : end + 1])
