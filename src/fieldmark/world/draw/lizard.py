"""Lizards and newts: drawn from the side, low on the ground, looking right."""

from __future__ import annotations

from fieldmark.world.colour import Colour, dark, light
from fieldmark.world.draw.appearance import Anchors, Appearance, Pose
from fieldmark.world.draw.pattern import paint_eye, paint_markings, paint_pattern
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Facing, Pen, Tube, reach, tube
from fieldmark.world.rng import cosine, sine


def draw_lizard(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    form = look.form
    height = (18 * form["limb"]) * (1 - 0.75 * pose.crouch) + 6 * form["stout"] + pose.bounce * 0.4
    body = _body(look, pose, height)
    tail = _tail(pen, look, pose, body)
    shade = dark(look.main, 0.3)
    hind, fore = body.at(0.12, 0.7), body.at(0.78, 0.75)
    _leg(pen, look, (pose, 0.5), (hind[0] + 8, hind[1]), shade)
    _leg(pen, look, (pose, 0.0), (fore[0] + 8, fore[1]), shade)
    if look.species.has("crest"):
        spikes = []
        for step in range(10):
            spikes += [body.at(0.05 + step * 0.09, 0.05), body.at(0.08 + step * 0.09, -0.42)]
        pen.facet([*spikes, body.at(0.95, 0.3), body.at(0.05, 0.3)], look.second)
    face, neck = _neck(look, pose, body)
    pen.blob(neck.outline(), look.main)
    pen.blob(body.outline(), look.main)
    pen.blob(body.patch(0.0, 1.0, 0.74, 1.0, 5), light(look.main, 0.4))
    paint_pattern(pen, look, body, look.second, 2.9, (0.04, 0.96, 0.06, 0.74))
    paint_pattern(pen, look, tail, look.second, 2.0, (0.05, 0.7, 0.1, 0.8))
    paint_markings(pen, look, body, 2.8)
    if look.species.has("tail_stripe"):
        pen.blob(tail.patch(0.3, 0.42, 0.0, 1.0, 2), look.second)
    if look.species.has("collar") or "tag" in look.extras:
        paint = (250, 120, 20) if "tag" in look.extras else look.second
        pen.blob(neck.patch(0.35, 0.62, 0.0, 1.0, 1), paint)
    _leg(pen, look, (pose, 0.0), hind, look.main)
    _leg(pen, look, (pose, 0.5), fore, look.main)
    return Anchors(_head(pen, look, pose, face), body.at(0.5, 0.0))


def _body(look: Appearance, pose: Pose, height: float) -> Tube:
    lift = 0.012 + pose.lean + (0.035 if pose.neck > 0.6 else 0.0)
    profile = ((-44, 7), (-34, 9.5), (-12, 12), (10, 12.5), (28, 11), (40, 8))
    stations = []
    for along, half in profile:
        x, y = reach((0.0, -height), along, lift)
        stations.append(
            (x, y + 40 * pose.sway * sine(along / 90 + pose.phase), half * look.form["stout"])
        )
    return tube(stations)


def _tail(pen: Pen, look: Appearance, pose: Pose, body: Tube) -> Tube:
    length = 78 * look.form["tail"]
    x, y = body.at(0.03, 0.5)
    wave = 200 * pose.sway
    floor = min(-2.0, y + 12)
    return pen.stroke(
        [
            (x + 6, y, 8.0 * look.form["stout"]),
            (x - length * 0.3, (y + floor) / 2 - wave * 0.3, 5.6),
            (x - length * 0.65, floor - wave * 0.5 - 6 * pose.tail, 3.2),
            (x - length, floor - 4 + wave * 0.5 - 12 * max(0.0, pose.tail), 0.8),
        ],
        look.main,
    )


def _leg(pen: Pen, look: Appearance, gait: tuple[Pose, float], hip: Point, paint: Colour) -> None:
    pose, offset = gait
    turn = pose.phase + offset
    swing, lift = pose.stride * sine(turn), max(0.0, cosine(turn)) * pose.stride
    size = look.form["limb"]
    knee = (hip[0] - 9 * size + 9 * swing, hip[1] * 0.62 - 3)
    foot = (hip[0] - 1 + 15 * swing * size, -1.0 - 8 * lift)
    pen.stroke([(*hip, 5.4), (*knee, 3.8), (*foot, 2.2)], paint)
    for toe in (-4.0, 2.0, 7.0):
        pen.stroke([(*foot, 1.4), (foot[0] + toe, foot[1] + 1.6, 0.6)], paint)


def _neck(look: Appearance, pose: Pose, body: Tube) -> tuple[Facing, Tube]:
    rise = pose.neck
    turn = 0.02 + (0.1 * rise if rise > 0 else 0.14 * rise)
    root, start = body.at(0.97, 0.45), body.at(0.82, 0.5)
    head = reach(root, 15.0, turn)
    side, look_turn = 1, turn * 0.5 + pose.tilt + (0.09 * rise if rise < 0 else 0.02)
    if pose.looks_back:
        head, side, look_turn = reach(root, 11.0, 0.22), -1, -0.08
    slim = 7.4 * (0.5 + 0.5 * look.form["head"])
    return Facing(*head, look_turn, side), tube(
        [(*start, 9.5 * look.form["stout"]), (*root, 8.5), (*head, slim)]
    )


def _head(pen: Pen, look: Appearance, pose: Pose, face: Facing) -> Point:
    size = 9.0 * look.form["head"]
    snout = 15 * (0.5 + 0.5 * look.form["snout"])
    gape = 0.09 * pose.mouth
    jaw = face.at(size * 0.3 + snout * 0.9, -0.03 - gape)
    if "deformed" in look.extras:
        jaw = face.at(size * 0.3 + snout * 0.9, -0.12)
    if pose.mouth > 0.2:
        pen.facet([face.at(0, 0), face.at(size * 0.4 + snout, 0.03), jaw], (190, 80, 90))
    pen.stroke([(*face.at(-size * 0.3), size * 0.5), (*jaw, size * 0.28)], light(look.main, 0.3))
    pen.stroke(
        [
            (*face.at(-size * 0.8), size * 0.75),
            (*face.at(size * 0.1, 0.1), size),
            (*face.at(size * 0.45 + snout * 0.5, 0.03), size * 0.62),
            (*face.at(size * 0.4 + snout, 0.02), size * 0.32),
        ],
        look.main,
    )
    eye = face.at(size * 0.5, 0.14)
    if look.species.has("eye_stripe"):
        pen.stroke(
            [
                (*face.at(-size * 0.9, -0.02), 1.4),
                (*eye, 2.8),
                (*face.at(size * 0.3 + snout * 0.8, 0.03), 0.8),
            ],
            look.second,
        )
    paint_eye(pen, look, eye, 2.7 if look.is_young else 2.1, pose.is_asleep)
    return face.at(size * 0.4 + snout)
