"""How are a few drawn from very many, without going through all of them?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fieldmark import draws


def shuffle(ids: Sequence[str], *key: object) -> Iterator[str]:
    """The ids in a drawn order; the first k of any number of ids take k draws.

    Fisher and Yates, with only the places that were swapped kept. A pool of half a million
    photos is not gone through for each question.
    """
    moved: dict[int, int] = {}
    for place in range(len(ids)):
        other = place + draws.number(*key, place) % (len(ids) - place)
        chosen = moved.get(other, other)
        moved[other] = moved.get(place, place)
        yield ids[chosen]
