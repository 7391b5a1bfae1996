"""Where do names stand beside points without lying on one another?

Vega-Lite moves no labels, so places are chosen here: the sides of a point are tried in turn against
all points and the labels that stand already. A name that fits nowhere is left out, and said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CHARACTER, HEIGHT, GAP = 4.6, 11.0, 6.0
"""pixels of a letter at 9 points, of a line, and between a point and its name"""


@dataclass(frozen=True, slots=True)
class Place:
    """A label's anchor relative to its point."""

    align: str
    dx: float
    dy: float


def _places(first: int) -> tuple[Place, ...]:
    """In the order tried; `first` is 1 where the space below a point is freer, else -1."""
    near, far = 0.8 * HEIGHT, GAP + HEIGHT / 2
    return (
        Place("left", GAP, first * near),
        Place("right", -GAP, -first * near),
        Place("left", GAP, 0),
        Place("right", -GAP, 0),
        Place("center", 0, first * far),
        Place("center", 0, -first * far),
        Place("left", GAP, -first * near),
        Place("right", -GAP, first * near),
        Place("left", 0, first * 2 * near),
        Place("left", 0, -first * 2 * near),
    )


Box = tuple[float, float, float, float]


def place_labels(
    texts: Sequence[str],
    points: Sequence[tuple[float, float]],
    size: tuple[float, float],
    first: int = 1,
) -> list[Place | None]:
    """A place for each text beside its point, or None; earlier ones choose first.

    `points` holds all points, those of the texts first; pixels from the left and the top.
    """
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    found: list[Place | None] = []
    for text, point in zip(texts, points, strict=False):
        place = next(_free(text, point, taken, size, first), None)
        if place is not None:
            taken.append(_box(text, point, place))
        found.append(place)
    return found


def _free(
    text: str,
    point: tuple[float, float],
    taken: Sequence[Box],
    size: tuple[float, float],
    first: int,
) -> Iterator[Place]:
    for place in _places(first):
        left, top, right, bottom = box = _box(text, point, place)
        is_inside = left >= -2 and top >= -8 and right <= size[0] + 12 and bottom <= size[1] + 2
        if is_inside and not any(_overlap(box, other) for other in taken):
            yield place


def _box(text: str, point: tuple[float, float], place: Place) -> Box:
    width = CHARACTER * len(text)
    start = {"left": 0.0, "right": -width, "center": -width / 2}[place.align]
    left, middle = point[0] + place.dx + start, point[1] + place.dy
    return left, middle - HEIGHT / 2, left + width, middle + HEIGHT / 2


def _overlap(first: Box, second: Box) -> bool:
    return (
        first[0] < second[2]
        and second[0] < first[2]
        and first[1] < second[3]
        and second[1] < first[3]
    )
