"""Shapes: the curves a creature is put together from, and where they go in a picture.

Creatures are drawn with a `Pen` in units of their own (x to the right, y down). A `Tube` is a spine
with a width: it gives an outline, and (u, v) places on it, u along the spine and v from the upper
to the lower edge, so that a pattern follows whatever bends. A `Layer` takes pens to their place.
Only +, -, ×, ÷ and square roots are used here: IEEE arithmetic gives the same result everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fieldmark.world.colour import Colour
from fieldmark.world.draw.raster import Point, Sprite, fill, pack
from fieldmark.world.rng import cosine, sine

Station = tuple[float, float, float]
"""x, y and half the width there"""

_HIGH = 222 / 256  # sine of 60°, to the accuracy a drawing needs
_RING = ((1.0, 0.0), (0.5, _HIGH), (-0.5, _HIGH), (-1.0, 0.0), (-0.5, -_HIGH), (0.5, -_HIGH))


@dataclass(frozen=True, slots=True)
class Tube:
    top: tuple[Point, ...]
    bottom: tuple[Point, ...]

    def at(self, u: float, v: float) -> Point:
        """The place u of the way along the spine (0..1), v of the way from upper to lower edge."""
        last = len(self.top) - 1
        along = 0.0 if u < 0 else last if u > 1 else u * last
        step = int(along)
        if step == last:
            step -= 1
        t = along - step
        (ax, ay), (bx, by) = self.top[step], self.top[step + 1]
        (cx, cy), (dx, dy) = self.bottom[step], self.bottom[step + 1]
        x1, y1 = ax + (bx - ax) * t, ay + (by - ay) * t
        x2, y2 = cx + (dx - cx) * t, cy + (dy - cy) * t
        return x1 + (x2 - x1) * v, y1 + (y2 - y1) * v

    def outline(self) -> list[Point]:
        return [*self.top, *reversed(self.bottom)]

    def patch(self, u0: float, u1: float, v0: float, v1: float, steps: int = 3) -> list[Point]:
        """The outline of a band that follows the tube."""
        ahead = [self.at(u0 + (u1 - u0) * step / steps, v0) for step in range(steps + 1)]
        back = [self.at(u1 - (u1 - u0) * step / steps, v1) for step in range(steps + 1)]
        return ahead + back


def tube(stations: Sequence[Station], lower: float = 1.0) -> Tube:
    """A tube round a spine; `lower` widens (or flattens) the side below the spine."""
    top, bottom = [], []
    last = len(stations) - 1
    for index, (x, y, half) in enumerate(stations):
        x0, y0, _ = stations[max(0, index - 1)]
        x1, y1, _ = stations[min(last, index + 1)]
        length = math.sqrt((x1 - x0) * (x1 - x0) + (y1 - y0) * (y1 - y0)) or 1.0
        nx, ny = (y1 - y0) / length, -(x1 - x0) / length
        top.append((x + nx * half, y + ny * half))
        bottom.append((x - nx * half * lower, y - ny * half * lower))
    return Tube(tuple(top), tuple(bottom))


def reach(origin: Point, length: float, turn: float) -> Point:
    """The point so far away in a direction; positive turns go up."""
    return origin[0] + length * cosine(turn), origin[1] - length * sine(turn)


@dataclass(frozen=True, slots=True)
class Facing:
    """A part with a front of its own, such as a head: places are relative to where it looks."""

    x: float
    y: float
    turn: float
    side: int = 1
    """-1 = it looks to the left"""

    def at(self, length: float, turn: float = 0.0) -> Point:
        total = self.turn + turn
        return self.x + self.side * length * cosine(total), self.y - length * sine(total)

    @property
    def tilt(self) -> float:
        """As `Pen.oval` counts it."""
        return -self.turn * self.side


class Pen:
    """Polygons in painter's order, in the units of what is drawn."""

    __slots__ = ("counts", "inks", "points", "smooth")

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.counts: list[int] = []
        self.smooth: list[bool] = []
        self.inks: list[int] = []

    def blob(self, outline: Sequence[Point], colour: Colour, alpha: int = 255) -> None:
        """A closed curve through the points."""
        self._add(outline, colour, alpha, True)

    def facet(self, outline: Sequence[Point], colour: Colour, alpha: int = 255) -> None:
        """A polygon with corners."""
        self._add(outline, colour, alpha, False)

    def _add(self, outline: Sequence[Point], colour: Colour, alpha: int, smooth: bool) -> None:
        self.points.extend(outline)
        self.counts.append(len(outline))
        self.smooth.append(smooth)
        self.inks.append(pack(colour, alpha))

    def oval(
        self, centre: Point, size: Point, colour: Colour, turn: float = 0.0, alpha: int = 255
    ) -> None:
        """An ellipse; `size` holds its half axes."""
        (x, y), (a, b) = centre, size
        c, s = cosine(turn), sine(turn)
        ring = [(x + a * u * c - b * v * s, y + a * u * s + b * v * c) for u, v in _RING]
        self._add(ring, colour, alpha, True)

    def stroke(self, stations: Sequence[Station], colour: Colour, alpha: int = 255) -> Tube:
        """A line whose width changes along its way, with blunt ends."""
        line = tube(stations)
        self._add(line.outline(), colour, alpha, True)
        return line


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a drawing goes: its origin, pixels a unit, turn, and whether it looks to the left."""

    x: float
    y: float
    scale: float
    turn: float = 0.0
    is_flipped: bool = False

    def apply(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        across = -self.scale if self.is_flipped else self.scale
        c, s = cosine(self.turn), sine(self.turn)
        x, y = points[:, 0] * across, points[:, 1] * self.scale
        return np.stack([x * c - y * s + self.x, x * s + y * c + self.y], axis=1)


@dataclass(slots=True)
class Layer:
    """What stands in one plane of a picture, in pixels."""

    chunks: list[NDArray[np.float64]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    smooth: list[bool] = field(default_factory=list)
    inks: list[int] = field(default_factory=list)

    def add(self, pen: Pen, placement: Placement) -> None:
        if pen.counts:
            self.add_points(pen, placement.apply(np.array(pen.points, dtype=np.float64)))

    def add_points(self, pen: Pen, points: NDArray[np.float64]) -> None:
        """A pen's drawing whose points are in pixels already."""
        self.chunks.append(points)
        self.counts += pen.counts
        self.smooth += pen.smooth
        self.inks += pen.inks

    def paint(self, size_px: int) -> Sprite | None:
        """None when nothing lies in the picture."""
        corners = np.concatenate(self.chunks) if self.chunks else np.zeros((0, 2))
        return fill(corners, self.counts, self.smooth, self.inks, size_px)
