"""Plants and mushrooms: twigs of trees with their leaves, flowering herbs, caps on stems.

All grow upwards from the origin.
"""

from __future__ import annotations

from fieldmark.world.colour import Colour, dark, light, mix
from fieldmark.world.draw.appearance import Anchors, Appearance, Pose
from fieldmark.world.draw.pattern import paint_markings, paint_pattern
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Pen, Tube, reach, tube
from fieldmark.world.rng import Rng

_WOOD: Colour = (104, 80, 58)


_BLADE = ((0.0, 0.08), (0.2, 0.75), (0.45, 1.0), (0.75, 0.66), (1.0, 0.04))


def draw_leaf(
    pen: Pen, look: Appearance, root: Point, shape: tuple[float, float, float], paint: Colour
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


def _finish(pen: Pen, look: Appearance, blade: Tube, paint: Colour, half: float) -> None:
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


def _spots(pen: Pen, look: Appearance, blade: Tube, half: float) -> None:
    rng, pale = look.rng("spots"), light(look.second, 0.3)
    for u, v in ((0.3, 0.3), (0.45, 0.7), (0.62, 0.35), (0.75, 0.6))[: 4 if half > 6 else 1]:
        size = half * rng.between(0.12, 0.22)
        pen.oval(blade.at(u + rng.around(0.08), v), (size, size), pale)


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


def paint_sick(pen: Pen, look: Appearance, blade: Tube, half: float) -> None:
    """Brown spots with yellow rims."""
    rng = look.rng("rust")
    for _ in range(4 if half > 6 else 1):
        spot = blade.at(rng.between(0.15, 0.85), rng.between(0.15, 0.85))
        size = half * rng.between(0.16, 0.34)
        pen.oval(spot, (size * 1.5, size * 1.3), (206, 186, 74))
        pen.oval(spot, (size, size * 0.9), (94, 58, 34))


def draw_tree(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    rng = look.rng("growth")
    lean = 0.25 + pose.lean * 2 + rng.around(0.02)
    stations = [(0.0, 0.0, 4.2)]
    for _ in range(3):
        x, y, half = stations[-1]
        stations.append((*reach((x, y), 34, lean + rng.around(0.05)), half * 0.68))
    twig = pen.stroke(stations, _WOOD)
    leaf = {"ovate": _ovate, "lobed": _lobed, "pinnate": _pinnate, "palmate": _palmate}[
        look.species.kind
    ]
    size = (0.62 if look.is_young else 1.0) * (0.85 + 0.15 * look.form["limb"])
    for index, u in enumerate((0.16, 0.34, 0.52, 0.7, 0.86, 1.0)):
        side = -1 if index % 2 else 1
        turn = lean - side * rng.between(0.11, 0.19) if u < 1 else lean
        root = twig.at(u, 0.5)
        paint = mix(look.main, dark(look.main), rng.between(0.0, 0.6))
        stalk = reach(root, 7, turn)
        pen.stroke([(*root, 1.1), (*stalk, 0.9)], _WOOD)
        leaf(pen, look, (stalk, turn, size * rng.between(0.85, 1.1)), paint)
    if look.species.has("thorns"):
        for step in range(6):
            x, y = twig.at(0.08 + step * 0.14, 0.5)
            pen.facet(
                [(x - 2, y), (x + (9 if step % 2 else -9), y - 6), (x + 2, y - 3)], dark(_WOOD, 0.4)
            )
    if look.species.has("berries") and not look.is_young:
        for berry in range(7):
            x, y = twig.at(0.42 + 0.08 * (berry % 3), 0.5)
            spot = (x + rng.around(13), y + 8 + rng.around(9))
            pen.oval(spot, (4.6, 4.6), look.second)
            pen.oval((spot[0] - 1.3, spot[1] - 1.5), (1.2, 1.2), light(look.second, 0.7))
    paint_markings(pen, look, twig, 1.6)
    return Anchors(twig.at(1.0, 0.5), twig.at(0.5, 0.5))


Stalk = tuple[Point, float, float]
"""where a leaf begins, its direction and its size"""


def _ovate(pen: Pen, look: Appearance, stalk: Stalk, paint: Colour) -> None:
    root, turn, size = stalk
    draw_leaf(pen, look, root, (44 * size, 13 * size * look.form["stout"], turn), paint)


def _pinnate(pen: Pen, look: Appearance, stalk: Stalk, paint: Colour) -> None:
    root, turn, size = stalk
    pen.stroke([(*root, 1.1), (*reach(root, 46 * size, turn), 0.6)], dark(paint, 0.3))
    for pair in range(3):
        leaf_root = reach(root, (8 + 13 * pair) * size, turn)
        for side in (-0.17, 0.17):
            draw_leaf(
                pen,
                look,
                leaf_root,
                (19 * size, 4.8 * size * look.form["stout"], turn + side),
                paint,
            )
    draw_leaf(pen, look, reach(root, 44 * size, turn), (18 * size, 4.9 * size, turn), paint)


def _cut(pen: Pen, look: Appearance, outline: list[Point], paint: Colour) -> None:
    """A leaf with lobes: pointed ones where the species is toothed, round ones otherwise."""
    draw = pen.facet if look.species.has("toothed_leaves") else pen.blob
    if look.species.traits["pattern"] == "bordered":
        draw(outline, light(look.second, 0.3))
        across, down = zip(*outline, strict=True)
        x, y = (min(across) + max(across)) / 2, (min(down) + max(down)) / 2
        outline = [(x + (px - x) * 0.82, y + (py - y) * 0.82) for px, py in outline]
    draw(outline, paint)


def _lobed(pen: Pen, look: Appearance, stalk: Stalk, paint: Colour) -> None:
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


def _palmate(pen: Pen, look: Appearance, stalk: Stalk, paint: Colour) -> None:
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


_GREEN: Colour = (70, 124, 52)


def draw_herb(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    rng, form = look.rng("growth"), look.form
    height = 92 * (0.7 + 0.3 * form["limb"])
    lean = 0.25 + pose.lean * 2 + rng.around(0.012)
    middle = reach((0.0, 0.0), height * 0.5, lean)
    top = reach(middle, height * 0.5, lean + rng.around(0.03))
    stem = tube([(0.0, 0.0, 2.4), (*middle, 2.0), (*top, 1.6)])
    for pair in range(3):
        for side in (-1, 1):
            root = stem.at(0.08 + 0.2 * pair + 0.05 * side, 0.5)
            turn = 0.25 - side * rng.between(0.12, 0.2)
            length = 34 * (1 - 0.2 * pair) * form["ear"]
            draw_leaf(
                pen,
                look,
                root,
                (length, length * 0.2, turn),
                mix(_GREEN, dark(_GREEN), rng.between(0, 0.5)),
            )
    pen.blob(stem.outline(), mix(_GREEN, (120, 100, 60), 0.2))
    _stem_marks(pen, look, stem)
    flower = {"daisy": _daisy, "bell": _bells, "spike": _spike}[look.species.kind]
    flower(pen, look, stem, rng)
    paint_markings(pen, look, tube([(top[0] - 14, top[1], 12.0), (top[0] + 14, top[1], 12.0)]), 1.4)
    return Anchors(top, top)


def _stem_marks(pen: Pen, look: Appearance, stem: Tube) -> None:
    for step in range(9):
        x, y = stem.at(0.12 + step * 0.09, 0.5)
        side = 1 if step % 2 else -1
        if look.species.has("thorns"):
            pen.facet([(x, y - 2), (x + side * 7, y - 4), (x, y + 3)], (120, 70, 50))
    if look.species.has("hairy_stem"):
        for step in range(12):
            x, y = stem.at(0.1 + step * 0.075, 0.5)
            pen.facet([(x - 6, y - 2), (x, y - 0.4), (x + 6, y - 2), (x, y + 0.5)], (214, 218, 190))


def _daisy(pen: Pen, look: Appearance, stem: Tube, rng: Rng) -> None:
    centre = stem.at(1.0, 0.5)
    size = (9 if look.is_young else 25) * look.form["head"]
    petals = 11
    for petal in range(petals):
        turn = petal / petals + rng.around(0.01)
        blade = tube(
            [
                (*reach(centre, size * 0.2, turn), size * 0.07),
                (*reach(centre, size * 0.65, turn), size * 0.17),
                (*reach(centre, size, turn), size * 0.07),
            ]
        )
        pen.blob(blade.outline(), dark(look.main, 0.18) if petal % 2 else look.main)
        _petal_paint(pen, look, blade, size)
    pen.oval(centre, (size * 0.32, size * 0.3), _heart(look))
    pen.oval(
        (centre[0] - size * 0.06, centre[1] - size * 0.08),
        (size * 0.16, size * 0.14),
        light(_heart(look), 0.3),
    )


def _heart(look: Appearance) -> Colour:
    return (62, 36, 28) if look.species.has("dark_centre") else look.second


def _petal_paint(pen: Pen, look: Appearance, blade: Tube, size: float) -> None:
    if look.species.traits["pattern"] == "spotted":
        pen.oval(blade.at(0.6, 0.5), (size * 0.06, size * 0.06), dark(look.second, 0.2))
    elif look.species.traits["pattern"] == "bordered":
        pen.blob(blade.patch(0.8, 1.0, 0.0, 1.0, 1), look.second)


def _bells(pen: Pen, look: Appearance, stem: Tube, rng: Rng) -> None:
    size = (8 if look.is_young else 17) * look.form["head"]
    for flower, u in enumerate((0.62, 0.8, 1.0)):
        side = -1 if flower % 2 else 1
        x, y = stem.at(u, 0.5)
        tip = (x + side * size * (1.0 + rng.around(0.3)), y - size * 0.3)
        pen.stroke([(x, y, 1.1), ((x + tip[0]) / 2, y - size * 0.6, 1.0), (*tip, 0.8)], _GREEN)
        bell = tube(
            [
                (tip[0], tip[1], size * 0.3),
                (tip[0], tip[1] + size * 0.5, size * 0.55),
                (tip[0], tip[1] + size * 1.1, size * 0.62),
                (tip[0], tip[1] + size * 1.35, size * 0.85),
            ]
        )
        pen.blob(bell.outline(), look.main)
        pen.blob(bell.patch(0.1, 0.95, 0.44, 0.56), dark(look.main, 0.2))
        pen.oval((tip[0], tip[1] + size * 1.36), (size * 0.62, size * 0.2), _heart(look))
        paint_pattern(pen, look, bell, dark(look.second, 0.1), size * 0.1, (0.2, 0.9, 0.1, 0.9))
        if look.species.traits["pattern"] == "bordered":
            pen.blob(bell.patch(0.84, 0.98, 0.0, 1.0, 2), look.second)


def _spike(pen: Pen, look: Appearance, stem: Tube, rng: Rng) -> None:
    size = (3.4 if look.is_young else 6.6) * look.form["head"]
    for step in range(8):
        u = 0.5 + step * 0.07
        for side in (-1, 1):
            x, y = stem.at(u, 0.5)
            far = size * (1.3 - 0.09 * step)
            spot = (x + side * far * 0.8 + rng.around(1.0), y + rng.around(1.5))
            pen.oval(
                spot,
                (far, far * 0.75),
                look.main if side < 0 else dark(look.main, 0.2),
                0.08 * side,
            )
            pen.oval(spot, (far * 0.32, far * 0.3), _heart(look))
            if look.species.traits["pattern"] != "plain":
                pen.oval(
                    (spot[0] + side * far * 0.6, spot[1]), (far * 0.25, far * 0.3), look.second
                )


def draw_mushroom(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    young = 0.72 if look.is_young else 1.0
    height, wide = 54 * look.form["limb"] * young, 34 * look.form["stout"] * young
    lean = 0.25 + pose.lean * 2 + look.rng("growth").around(0.02)
    x, y = top = reach((0.0, 0.0), height, lean)
    flesh = light(look.second, 0.15)
    middle = reach((0.0, 0.0), height * 0.4, lean)
    stem = pen.stroke([(0.0, 2.0, 9.0), (*middle, 6.6), (*top, 6.0)], flesh)
    _stem_paint(pen, look, stem, flesh)
    _gills(pen, look, top, wide, flesh)
    tall = wide * (0.95 if look.species.kind == "bonnet" else 0.62) / young
    profile = (
        (-1.0, 0.16, 0.2),
        (-0.72, 0.36, 0.42),
        (0.0, 0.45, 0.62),
        (0.72, 0.36, 0.42),
        (1.0, 0.16, 0.2),
    )
    cap = tube([(x + wide * dx, y - tall * dy, tall * half) for dx, dy, half in profile], 0.9)
    pen.blob(cap.outline(), look.main)
    _cap_paint(pen, look, cap, wide)
    return Anchors(top, cap.at(0.5, 0.0))


def _stem_paint(pen: Pen, look: Appearance, stem: Tube, flesh: Colour) -> None:
    pen.blob(stem.patch(0.0, 1.0, 0.62, 1.0), dark(flesh, 0.18))
    if look.species.has("volva"):
        sheath = [(-13, 3), (-12, -12), (-6, -7), (0, -14), (6, -7), (12, -12), (13, 3)]
        pen.blob(sheath, light(flesh, 0.3))
    if look.species.has("ring"):
        x, y = stem.at(0.66, 0.5)
        ring = [(x - 11, y + 3), (x - 6, y - 3), (x + 6, y - 3), (x + 11, y + 3), (x, y + 6)]
        pen.blob(ring, light(flesh, 0.35))


def _gills(pen: Pen, look: Appearance, top: Point, wide: float, flesh: Colour) -> None:
    x, y = top
    gills = light(flesh, 0.5) if look.species.has("pale_gills") else dark(flesh, 0.35)
    pen.oval((x, y + 1), (wide * 0.96, wide * 0.24), gills)
    for step in range(-4, 5):
        low = y + wide * 0.2 * (1 - step * step / 22)
        line = [(x + step * wide * 0.06, y - 1, 0.4), (x + step * wide * 0.2, low, 0.5)]
        pen.stroke(line, dark(gills, 0.3))


def _cap_paint(pen: Pen, look: Appearance, cap: Tube, wide: float) -> None:
    if look.species.traits["pattern"] == "striped":
        for step in range(9):
            u = 0.1 + step * 0.1
            line = [(*cap.at(0.5 + (u - 0.5) * 0.4, 0.12), 0.5), (*cap.at(u, 0.86), 1.3)]
            pen.stroke(line, dark(look.main, 0.35))
    else:
        paint_pattern(pen, look, cap, light(look.second, 0.2), wide * 0.085, (0.1, 0.9, 0.1, 0.85))
    if look.species.has("dark_centre"):
        pen.oval(cap.at(0.5, 0.22), (wide * 0.3, wide * 0.13), dark(look.main, 0.5))
    paint_markings(pen, look, cap, wide * 0.06)
    pen.oval(cap.at(0.36, 0.25), (wide * 0.2, wide * 0.06), light(look.main, 0.6), -0.04, 120)
    if look.is_sick:
        paint_sick(pen, look, cap, wide * 0.6)
