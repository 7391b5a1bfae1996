"""Fish and whales: drawn from the side, looking right, the middle at the origin."""

from __future__ import annotations

from fieldmark.world.colour import dark, light, mix
from fieldmark.world.draw.appearance import Anchors, Appearance, Pose
from fieldmark.world.draw.pattern import paint_eye, paint_markings, paint_pattern
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Pen, Station, Tube, reach, tube
from fieldmark.world.rng import sine

_FISH = ((-48, 5), (-38, 7), (-22, 15), (0, 22), (20, 22.5), (36, 16), (47, 8), (52, 3))
_WHALE = ((-62, 3), (-50, 6), (-28, 14), (0, 19.5), (22, 20), (38, 17.5), (48, 12), (54, 6))


def _spine(profile: tuple[tuple[float, float], ...], look: Appearance, pose: Pose) -> list[Station]:
    """The back bends in a wave that grows towards the tail."""
    tilt = pose.lean * 2 + (0.09 * pose.neck if pose.neck < 0 else 0.04 * (pose.neck - 0.3))
    stations = []
    for along, half in profile:
        weight = (52 - along) / 100
        wave = 120 * pose.sway * weight * weight * sine(pose.phase + along / 160)
        x, y = reach((0.0, 0.0), along, tilt)
        wide = (
            half * look.form["stout"] * (1 + (look.form["head"] - 1) * (0.35 if along > 25 else 0))
        )
        stations.append((x, y + wave, wide))
    return stations


def draw_fish(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    has, fin = look.species.has, mix(look.second, look.main, 0.35)
    body = tube(_spine(_FISH, look, pose))
    _tail_fin(pen, look, body, pose)
    tall = 15 * look.form["ear"]
    if has("two_dorsal_fins"):
        _fin(pen, body, (0.34, 0.52, 0.0), tall * 0.9, look)
        _fin(pen, body, (0.58, 0.78, 0.0), tall * 1.1, look)
    else:
        _fin(pen, body, (0.34, 0.76, 0.0), tall, look)
    if has("adipose_fin"):
        _fin(pen, body, (0.12, 0.2, 0.0), 8.0, look)
    _fin(pen, body, (0.22, 0.42, 1.0), tall * 0.7, look)
    if has("pelvic_fin"):
        _fin(pen, body, (0.56, 0.66, 1.0), tall * 1.2, look)
    pen.blob(body.outline(), look.main)
    pen.blob(body.patch(0.1, 0.95, 0.72, 1.0, 5), light(look.main, 0.5))
    pen.blob(body.patch(0.06, 0.9, 0.0, 0.16, 5), dark(look.main, 0.22))
    paint_pattern(pen, look, body, look.second, 4.2, (0.1, 0.8, 0.1, 0.78))
    paint_markings(pen, look, body, 3.6)
    pen.blob(body.patch(0.79, 0.81, 0.18, 0.82, 2), dark(look.main, 0.4))
    root = body.at(0.74, 0.62)
    flap = 0.58 + 0.05 * sine(pose.phase * 2)
    pen.blob(
        [root, reach(root, 12, flap - 0.05), reach(root, 17, flap), reach(root, 12, flap + 0.07)],
        fin,
    )
    eye = body.at(0.9, 0.34)
    if has("eye_stripe"):
        pen.blob(body.patch(0.87, 0.93, 0.02, 0.98, 2), look.second)
    return Anchors(_mouth(pen, look, pose, body, eye), body.at(0.5, 0.0))


def _mouth(pen: Pen, look: Appearance, pose: Pose, body: Tube, eye: Point) -> Point:
    mouth = body.at(0.985, 0.6)
    lip = dark(look.main, 0.45)
    if pose.mouth > 0.2:
        pen.oval(mouth, (5 * pose.mouth + 1, 4.5 * pose.mouth), (90, 30, 34))
    corner = body.at(0.93, 0.68)
    bend = 6.0 if "deformed" in look.extras else 0.0
    pen.stroke([(*corner, 0.8), (mouth[0], mouth[1] + bend, 0.9)], lip)
    if look.species.has("barbel"):
        for shift in (0.0, 4.0):
            end = (mouth[0] - 4 - shift, mouth[1] + 14)
            pen.stroke(
                [
                    (mouth[0] - shift, mouth[1] + 1, 1.3),
                    (mouth[0] + 2, mouth[1] + 8, 1.0),
                    (*end, 0.6),
                ],
                lip,
            )
    paint_eye(pen, look, eye, 3.6 if look.is_young else 2.8, pose.is_asleep)
    return mouth


def _fin(
    pen: Pen, body: Tube, on_body: tuple[float, float, float], tall: float, look: Appearance
) -> None:
    """A fin from u0 to u1 on the upper (v = 0) or lower (v = 1) edge, swept back."""
    u0, u1, v = on_body
    up = -1.0 if v < 0.5 else 1.0
    (ax, ay), (bx, by) = body.at(u0, v), body.at(u1, v)
    inner_a, inner_b = body.at(u0, 0.5), body.at(u1, 0.5)
    rim = [
        (ax - tall * 0.35, ay + up * tall * 0.75),
        ((ax + bx) / 2 - tall * 0.1, (ay + by) / 2 + up * tall),
    ]
    paint = mix(look.second, look.main, 0.35)
    pen.blob([inner_a, *rim, (bx, by), inner_b], paint)
    for step in (0.25, 0.5, 0.75):
        x0, y0 = ax + (bx - ax) * step, ay + (by - ay) * step
        pen.stroke([(x0, y0, 0.5), (x0 - tall * 0.25, y0 + up * tall * 0.8, 0.3)], dark(paint, 0.3))


def _tail_fin(pen: Pen, look: Appearance, body: Tube, pose: Pose) -> None:
    root, size = body.at(0.0, 0.5), 24 * look.form["tail"]
    turn = 0.5 + pose.sway * 1.2
    upper, lower = reach(root, size, turn - 0.1), reach(root, size, turn + 0.1)
    notch = reach(root, size * (0.35 if look.species.has("forked_tail") else 0.95), turn)
    paint = mix(look.second, look.main, 0.35)
    pen.facet([body.at(0.1, 0.1), upper, notch, lower, body.at(0.1, 0.9)], paint)
    if look.species.has("tail_stripe"):
        pen.facet(
            [
                reach(root, size * 0.45, turn - 0.09),
                reach(root, size * 0.62, turn - 0.09),
                reach(root, size * 0.62, turn + 0.09),
                reach(root, size * 0.45, turn + 0.09),
            ],
            dark(look.main, 0.6),
        )


def draw_whale(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    body = tube(_spine(_WHALE, look, pose), 1.05)
    _fluke(pen, look, body, pose)
    if look.species.has("dorsal_fin"):
        tall = 17 * look.form["ear"]
        (ax, ay), (bx, by) = body.at(0.42, 0.02), body.at(0.6, 0.02)
        fin = [(ax, ay + 4), (ax - 5, ay - tall), (bx - 4, by - tall * 0.3), (bx, by + 4)]
        pen.blob(fin, dark(look.main, 0.1))
    mouth = _beak(pen, look, pose, body)
    pen.blob(body.outline(), look.main)
    pen.blob(body.patch(0.12, 0.97, 0.74, 1.0, 5), light(look.main, 0.4))
    paint_pattern(pen, look, body, look.second, 4.2, (0.15, 0.9, 0.08, 0.75))
    paint_markings(pen, look, body, 4.0)
    if look.species.has("collar"):
        pen.blob(body.patch(0.7, 0.77, 0.05, 0.95, 2), look.second)
    _flipper(pen, look, pose, body)
    eye = body.at(0.87, 0.52)
    if look.species.has("eye_stripe"):
        pen.oval((eye[0] - 4, eye[1] - 2), (8, 4), look.second, 0.04)
    paint_eye(pen, look, eye, 2.0, pose.is_asleep)
    pen.stroke([(*body.at(0.9, 0.7), 0.7), (mouth[0] - 2, mouth[1], 0.6)], dark(look.main, 0.4))
    return Anchors(mouth, body.at(0.5, 0.0))


def _beak(pen: Pen, look: Appearance, pose: Pose, body: Tube) -> Point:
    x, y = body.at(1.0, 0.5)
    beak = 12 * look.form["snout"]
    if pose.mouth > 0.2:
        throat = [body.at(0.94, 0.6), (x + beak * 0.8, y + 1), (x + beak * 0.6, y + 9)]
        pen.facet(throat, (150, 70, 74))
    line = [(*body.at(0.9, 0.62), 7.0), (x + beak * 0.5, y + 2, 5.0), (x + beak, y + 2, 2.6)]
    pen.stroke(line, look.main)
    return x + beak, y + 3


def _flipper(pen: Pen, look: Appearance, pose: Pose, body: Tube) -> None:
    root, length = body.at(0.66, 0.82), 24 * look.form["limb"]
    turn = 0.66 + 0.05 * sine(pose.phase)
    ends = ((0.7, -0.06), (1.0, 0.0), (0.5, 0.09))
    outline = [reach(root, length * far, turn + aside) for far, aside in ends]
    pen.blob([root, *outline], dark(look.main, 0.28))


def _fluke(pen: Pen, look: Appearance, body: Tube, pose: Pose) -> None:
    root, size = body.at(0.0, 0.5), 22 * look.form["tail"]
    lift = 60 * pose.sway
    paint = dark(look.main, 0.15)
    pen.blob(
        [
            body.at(0.06, 0.0),
            (root[0] - size * 0.5, root[1] - size * 0.5 + lift),
            (root[0] - size, root[1] - size * 0.3 + lift),
            (root[0] - size * 0.45, root[1] + lift * 0.6),
            (root[0] - size * 0.8, root[1] + size * 0.34 + lift),
            body.at(0.06, 1.0),
        ],
        paint,
    )
    if look.species.has("tail_stripe"):
        pen.blob(body.patch(0.06, 0.13, 0.0, 1.0, 1), look.second)
