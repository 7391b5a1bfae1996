"""How are leaves and the twigs of trees drawn? Growing upwards from the origin."""

from __future__ import annotations

from fieldmark.data.world._colour import dark, light, mix
from fieldmark.data.world._look import Look
from fieldmark.data.world._pattern import paint_markings
from fieldmark.data.world._pose import Anchors, Pose
from fieldmark.data.world._raster import Colour, Point
from fieldmark.data.world._shape import Pen, Tube, reach, tube

_WOOD: Colour = (104, 80, 58)


_BLADE = ((0.0, 0.08), (0.2, 0.75), (0.45, 1.0), (0.75, 0.66), (1.0, 0.04))


def draw_leaf(
    pen: Pen, look: Look, root: Point, shape: tuple[float, float, float], paint: Colour
) -> None:
    """A leaf of (length, half width, turn) with its veins, margin and what ails it."""
    length, half, turn = shape
    blade = tube([(*reach(root, length * along, turn), half * wide) for along, wide in _BLADE])
    is_toothed = look.species.has("toothed_leaves")
    outline = _toothed(blade, 5 if half > 6 else 3) if is_toothed else blade.outline()
    if look.species.traits["pattern"] == "bordered":
        pen.blob(outline, light(look.second, 0.3))
        pen.blob(blade.patch(0.06, 0.94, 0.14, 0.86), paint)
    elif is_toothed:
        pen.facet(outline, paint)
    else:
        pen.blob(outline, paint)
    _finish(pen, look, blade, paint, half)


def _finish(pen: Pen, look: Look, blade: Tube, paint: Colour, half: float) -> None:
    vein = light(paint, 0.6) if look.species.has("pale_veins") else dark(paint, 0.25)
    upper = [
        blade.at(u + du, v)
        for u in (0.2, 0.5, 0.72)
        for du, v in ((0.0, 0.48), (0.15, 0.14), (0.03, 0.48))
    ]
    lower = [
        blade.at(u + du, v)
        for u in (0.72, 0.5, 0.2)
        for du, v in ((0.03, 0.52), (0.15, 0.86), (0.0, 0.52))
    ]
    if half < 6:
        upper = lower = []
    pen.facet([blade.at(0.0, 0.46), *upper, blade.at(0.97, 0.5), *lower, blade.at(0.0, 0.54)], vein)
    if look.species.traits["pattern"] == "spotted":
        _spots(pen, look, blade, half)
    if look.is_sick:
        paint_sick(pen, look, blade, half)


def _spots(pen: Pen, look: Look, blade: Tube, half: float) -> None:
    dice, pale = look.dice("spots"), light(look.second, 0.3)
    for u, v in ((0.3, 0.3), (0.45, 0.7), (0.62, 0.35), (0.75, 0.6))[: 4 if half > 6 else 1]:
        size = half * dice.between(0.12, 0.22)
        pen.oval(blade.at(u + dice.around(0.08), v), (size, size), pale)


def _toothed(blade: Tube, steps: int) -> list[Point]:
    upper = [
        (blade.at(step / steps, 0.02), blade.at((step + 0.75) / steps, -0.13))
        for step in range(steps)
    ]
    lower = [
        (blade.at((step + 0.75) / steps, 1.13), blade.at(step / steps, 0.98))
        for step in range(steps)
    ]
    return [point for pair in (*upper, *reversed(lower)) for point in pair]


def paint_sick(pen: Pen, look: Look, blade: Tube, half: float) -> None:
    """Brown spots with yellow rims."""
    dice = look.dice("rust")
    for _ in range(4 if half > 6 else 1):
        place = blade.at(dice.between(0.15, 0.85), dice.between(0.15, 0.85))
        size = half * dice.between(0.16, 0.34)
        pen.oval(place, (size * 1.5, size * 1.3), (206, 186, 74))
        pen.oval(place, (size, size * 0.9), (94, 58, 34))


def draw_tree(pen: Pen, look: Look, pose: Pose) -> Anchors:
    dice = look.dice("growth")
    lean = 0.25 + pose.lean * 2 + dice.around(0.02)
    stations = [(0.0, 0.0, 4.2)]
    for _ in range(3):
        x, y, half = stations[-1]
        stations.append((*reach((x, y), 34, lean + dice.around(0.05)), half * 0.68))
    twig = pen.stroke(stations, _WOOD)
    leaf = {"ovate": _ovate, "lobed": _lobed, "pinnate": _pinnate, "palmate": _palmate}[
        look.species.kind
    ]
    size = (0.62 if look.is_young else 1.0) * (0.85 + 0.15 * look.form["limb"])
    for index, u in enumerate((0.16, 0.34, 0.52, 0.7, 0.86, 1.0)):
        side = -1 if index % 2 else 1
        turn = lean - side * dice.between(0.11, 0.19) if u < 1 else lean
        root = twig.at(u, 0.5)
        paint = mix(look.main, dark(look.main), dice.between(0.0, 0.6))
        stalk = reach(root, 7, turn)
        pen.stroke([(*root, 1.1), (*stalk, 0.9)], _WOOD)
        leaf(pen, look, (stalk, turn, size * dice.between(0.85, 1.1)), paint)
    if look.species.has("thorns"):
        for step in range(6):
            x, y = twig.at(0.08 + step * 0.14, 0.5)
            pen.facet(
                [(x - 2, y), (x + (9 if step % 2 else -9), y - 6), (x + 2, y - 3)], dark(_WOOD, 0.4)
            )
    if look.species.has("berries") and not look.is_young:
        for berry in range(7):
            x, y = twig.at(0.42 + 0.08 * (berry % 3), 0.5)
            place = (x + dice.around(13), y + 8 + dice.around(9))
            pen.oval(place, (4.6, 4.6), look.second)
            pen.oval((place[0] - 1.3, place[1] - 1.5), (1.2, 1.2), light(look.second, 0.7))
    paint_markings(pen, look, twig, 1.6)
    return Anchors(twig.at(1.0, 0.5), twig.at(0.5, 0.5), (0.0, 0.0))


Stalk = tuple[Point, float, float]
"""where a leaf begins, its direction and its size"""


def _ovate(pen: Pen, look: Look, stalk: Stalk, paint: Colour) -> None:
    root, turn, size = stalk
    draw_leaf(pen, look, root, (44 * size, 13 * size * look.form["stout"], turn), paint)


def _pinnate(pen: Pen, look: Look, stalk: Stalk, paint: Colour) -> None:
    root, turn, size = stalk
    pen.stroke([(*root, 1.1), (*reach(root, 46 * size, turn), 0.6)], dark(paint, 0.3))
    for pair in range(3):
        place = reach(root, (8 + 13 * pair) * size, turn)
        for side in (-0.17, 0.17):
            draw_leaf(
                pen, look, place, (19 * size, 4.8 * size * look.form["stout"], turn + side), paint
            )
    draw_leaf(pen, look, reach(root, 44 * size, turn), (18 * size, 4.9 * size, turn), paint)


def _cut(pen: Pen, look: Look, outline: list[Point], paint: Colour) -> None:
    """A leaf with lobes: pointed ones where the species is toothed, round ones otherwise."""
    draw = pen.facet if look.species.has("toothed_leaves") else pen.blob
    if look.species.traits["pattern"] == "bordered":
        draw(outline, light(look.second, 0.3))
        across, down = zip(*outline, strict=True)
        x, y = (min(across) + max(across)) / 2, (min(down) + max(down)) / 2
        outline = [(x + (px - x) * 0.82, y + (py - y) * 0.82) for px, py in outline]
    draw(outline, paint)


def _lobed(pen: Pen, look: Look, stalk: Stalk, paint: Colour) -> None:
    root, turn, size = stalk
    wide = 14 * size * look.form["stout"]
    spine = [
        (
            *reach(root, 50 * size * step / 10, turn),
            wide * (0.25 + 0.75 * (step % 2)) * (1 - step / 26),
        )
        for step in range(10)
    ]
    blade = tube([*spine, (*reach(root, 51 * size, turn), 2.0)])
    _cut(pen, look, blade.outline(), paint)
    _finish(pen, look, blade, paint, wide)


def _palmate(pen: Pen, look: Look, stalk: Stalk, paint: Colour) -> None:
    root, turn, size = stalk
    heart = reach(root, 10 * size, turn)
    ring = []
    for step in range(11):
        far = (31 if step % 2 else 13) * size * (1.0 if 3 <= step <= 7 else 0.78)
        ring.append(reach(heart, far * (0.8 + 0.2 * look.form["stout"]), turn + (step - 5) * 0.083))
    _cut(pen, look, [root, *ring], paint)
    blade = tube(
        [
            (*root, 3.0),
            (*reach(root, 18 * size, turn), 11 * size),
            (*reach(root, 36 * size, turn), 4 * size),
        ]
    )
    vein = light(paint, 0.5) if look.species.has("pale_veins") else dark(paint, 0.3)
    for step in (1, 3, 7, 9):
        pen.facet([(root[0] - 0.7, root[1]), ring[step], (root[0] + 0.7, root[1])], vein)
    _finish(pen, look, blade, paint, 9 * size)
