"""Does the polygon filler agree with the definition of the inside of a polygon?"""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark.world.draw.raster import fill, pack
from fieldmark.world.draw.shapes import Layer, Pen, Placement, tube
from fieldmark.world.rng import Rng

SIZE = 20
Corners = list[tuple[float, float]]
NEAR = 0.08  # pixels: corners are rounded to 1/32 of a pixel, so such samples may fall either way


def _edges(corners: Corners) -> list[tuple[float, float, float, float]]:
    return [(*one, *other) for one, other in zip(corners, [*corners[1:], corners[0]], strict=True)]


def _inside(x: float, y: float, corners: Corners) -> bool:
    """Even-odd rule, one point at a time."""
    is_in = False
    for x1, y1, x2, y2 in _edges(corners):
        if (y1 > y) != (y2 > y) and x < (x2 - x1) * (y - y1) / (y2 - y1) + x1:
            is_in = not is_in
    return is_in


def _is_near_an_edge(x: float, y: float, corners: Corners) -> bool:
    for x1, y1, x2, y2 in _edges(corners):
        length = (x2 - x1) ** 2 + (y2 - y1) ** 2 or 1.0
        t = min(1.0, max(0.0, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length))
        if (x1 + t * (x2 - x1) - x) ** 2 + (y1 + t * (y2 - y1) - y) ** 2 < NEAR**2:
            return True
    return False


@pytest.mark.parametrize("case", range(8))
def test_fill_agrees_with_a_brute_force(case: int) -> None:
    """Random polygons, partly outside the picture, self-crossing ones included."""
    rng = Rng("polygon", case)
    corners = [
        (rng.below(1280) / 32 - 8, rng.below(1280) / 32 - 8) for _ in range(3 + rng.below(6))
    ]
    canvas = _filled(corners)
    for row in range(SIZE):
        for column in range(SIZE):
            spots = [(column + dx, row + dy) for dx in (0.25, 0.75) for dy in (0.25, 0.75)]
            sure = [spot for spot in spots if not _is_near_an_edge(*spot, corners)]
            least = sum(_inside(*spot, corners) for spot in sure)
            assert least <= round(canvas[row, column] / 63.75) <= least + 4 - len(sure)


def _filled(corners: Corners) -> np.ndarray:
    sprite = fill(np.array(corners), [len(corners)], [False], [pack((255, 255, 255))], SIZE)
    canvas = np.zeros((SIZE, SIZE))
    if sprite is not None:
        alpha = np.asarray(sprite.image.getchannel("A"))
        height, width = alpha.shape
        canvas[sprite.y : sprite.y + height, sprite.x : sprite.x + width] = alpha
    return canvas


def test_later_polygons_cover_earlier_ones() -> None:
    pen, layer = Pen(), Layer()
    pen.facet([(2, 2), (20, 2), (20, 20), (2, 20)], (255, 0, 0))
    pen.facet([(8, 8), (12, 8), (12, 12), (8, 12)], (0, 0, 255))
    layer.add(pen, Placement(0, 0, 1))
    sprite = layer.paint(SIZE)
    assert sprite is not None
    assert (sprite.x, sprite.y) == (2, 2)
    assert sprite.image.getpixel((0, 0)) == (255, 0, 0, 255)
    assert sprite.image.getpixel((8, 8)) == (0, 0, 255, 255)


def test_nothing_in_the_picture_paints_nothing() -> None:
    assert Layer().paint(SIZE) is None
    pen, layer = Pen(), Layer()
    pen.oval((-100, -100), (5, 5), (1, 2, 3))
    layer.add(pen, Placement(0, 0, 1))
    assert layer.paint(SIZE) is None


def test_an_oval_has_the_area_of_an_ellipse() -> None:
    pen, layer = Pen(), Layer()
    pen.oval((0, 0), (9, 5), (255, 255, 255), turn=0.1)
    layer.add(pen, Placement(12, 12, 1))
    sprite = layer.paint(SIZE)
    assert sprite is not None
    area = np.asarray(sprite.image.getchannel("A")).sum() / 255
    assert area == pytest.approx(np.pi * 9 * 5, rel=0.05)


def test_patterns_stay_on_the_tube() -> None:
    body = tube([(0, 0, 4), (10, 0, 6), (20, 5, 3)])
    assert body.at(0, 0) == body.top[0] and body.at(1, 1) == body.bottom[-1]
    (x, y), (top_x, top_y) = body.at(0.5, 0.5), body.at(0.5, 0.0)
    assert (x, y) == pytest.approx((10, 0)) and top_y < y
    assert len(body.patch(0.2, 0.4, 0.1, 0.9, 3)) == 8
    assert (top_x - x) ** 2 + (top_y - y) ** 2 == pytest.approx(36)
