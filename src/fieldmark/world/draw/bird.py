"""Birds: drawn from the side, looking right, feet at the origin."""

from __future__ import annotations

from fieldmark.world.colour import dark, light
from fieldmark.world.draw.appearance import Anchors, Appearance, Pose
from fieldmark.world.draw.pattern import paint_eye, paint_markings, paint_pattern
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Facing, Pen, Tube, reach, tube
from fieldmark.world.rng import cosine, sine

_PITCH = {"songbird": 0.07, "raptor": 0.1, "waterfowl": 0.015, "wader": 0.045}
_NECK = {"songbird": 13.0, "raptor": 13.0, "waterfowl": 38.0, "wader": 44.0}
_LEG = {"songbird": 26.0, "raptor": 28.0, "waterfowl": 36.0, "wader": 34.0}
_HEAD = {"songbird": 15.0, "raptor": 15.0, "waterfowl": 12.5, "wader": 11.5}
_BILL = {"songbird": 13.0, "raptor": 12.0, "waterfowl": 17.0, "wader": 17.0}


def draw_bird(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    kind, form = look.species.kind, look.form
    leg = _LEG[kind] * form["limb"] * (1 - 0.85 * pose.crouch)
    pitch = _PITCH[kind] + pose.lean - 0.04 * pose.crouch - 0.05 * max(0.0, pose.stride - 0.6)
    if pose.neck < -0.4:
        pitch += (
            0.15 * pose.neck if kind == "waterfowl" else 0.09 * pose.neck
        )  # ducks tip up to feed
    hip = (0.0, -leg - 20 * form["stout"] - pose.bounce)
    body = _body(hip, pitch, form["stout"])
    _tail(pen, look, body, pitch + 0.07 * pose.tail)
    _legs(pen, look, pose, hip, leg, far=True)
    _legs(pen, look, pose, hip, leg, far=False)
    face, neck = _neck(look, pose, body, pitch)
    pen.blob(neck.outline(), look.main)
    pen.blob(body.outline(), look.main)
    pen.blob(body.patch(0.12, 1.0, 0.55, 1.0, 6), look.second)
    pen.blob(neck.patch(0.0, 0.75, 0.5, 1.0), look.second)
    paint_pattern(pen, look, body, look.contrast, 3.6, (0.35, 0.98, 0.56, 0.96))
    if look.species.has("collar"):
        pen.blob(neck.patch(0.35, 0.62, -0.05, 1.05, 2), dark(look.contrast, 0.3))
    _wing(pen, look, body)
    paint_markings(pen, look, body, 3.6)
    mouth = _head(pen, look, pose, face)
    return Anchors(mouth, body.at(0.45, 0.0))


def _body(hip: Point, pitch: float, stout: float) -> Tube:
    profile = ((-46, 6), (-34, 13), (-14, 22), (8, 26), (26, 24), (38, 15), (43, 6))
    spine = [(*reach(hip, along, pitch), half * stout) for along, half in profile]
    return tube(spine)


def _tail(pen: Pen, look: Appearance, body: Tube, turn: float) -> None:
    base, length = body.at(0.04, 0.4), 40 * look.form["tail"]
    end = reach(base, -length, turn)
    half = 8.0 if look.species.kind != "wader" else 5.0
    shade = dark(look.main, 0.22)
    tail = tube(
        [(*body.at(0.14, 0.35), 7.0), (*reach(base, -length * 0.5, turn), half * 0.8), (*end, half)]
    )
    pen.facet(
        [tail.top[0], tail.top[1], tail.top[2], tail.bottom[2], tail.bottom[1], tail.bottom[0]],
        shade,
    )
    if look.species.has("tail_stripe"):
        pen.facet(tail.patch(0.72, 0.9, 0.0, 1.0, 1), look.second)
    pen.facet(tail.patch(0.2, 1.0, 0.46, 0.54, 1), dark(shade, 0.35))


def _legs(pen: Pen, look: Appearance, pose: Pose, hip: Point, leg: float, far: bool) -> None:
    paint = dark(look.bare, 0.3) if far else look.bare
    offset, swing = (0.5, 4.0) if far else (0.0, -3.0)
    turn = pose.phase + offset
    step = pose.stride * 0.1 * sine(turn)
    lift = max(0.0, cosine(turn)) * pose.stride * 0.28
    top = (hip[0] + swing, -leg - 6 - pose.bounce)
    knee = reach(top, leg * 0.5 + 2, 0.75 + step + 0.01)
    foot = (knee[0] + leg * sine(step) * 0.6 - leg * 0.03, -lift * leg)
    if pose.crouch > 0.5:
        knee, foot = (top[0] - 3, top[1] + 4), (top[0] + 2, 0.0)
    pen.stroke([(*top, 4.0), (*knee, 1.9), (*foot, 1.7)], paint)
    toe = 7.0
    if look.species.kind == "waterfowl":
        pen.facet(
            [(foot[0] - 2, foot[1] - 2), (foot[0] + 10, foot[1] + 2), (foot[0] - 3, foot[1] + 2)],
            paint,
        )
    else:
        pen.stroke(
            [
                (foot[0] - toe * 0.6, foot[1] + 1, 1.1),
                (*foot, 1.8),
                (foot[0] + toe, foot[1] + 1, 1.1),
            ],
            paint,
        )
    if "tag" in look.extras and not far:
        ring = ((knee[0] + foot[0]) / 2, (knee[1] + foot[1]) / 2)
        pen.oval(ring, (4.2, 4.2), (250, 120, 20))


def _neck(look: Appearance, pose: Pose, body: Tube, pitch: float) -> tuple[Facing, Tube]:
    kind = look.species.kind
    root = body.at(0.86, 0.3)
    length = _NECK[kind] * (0.85 + 0.15 * look.form["limb"])
    rise = 0.0 if pose.crouch > 0.5 else pose.neck
    turn, bill = 0.15 + 0.09 * rise, pose.tilt + 0.01
    length *= 0.85 + 0.35 * max(0.0, rise) - 0.4 * min(0.0, rise)
    if pose.looks_back:
        turn, bill = 0.34, -0.08
    elif rise < 0:
        turn, bill = 0.15 + 0.27 * rise, 0.2 * rise
    head = reach(root, length, turn)
    bent = reach(root, length * 0.5, turn + (0.05 if rise >= 0 else -0.02))
    is_short = kind in ("songbird", "raptor")
    wide = 17 * look.form["stout"] if is_short else 11.5
    slim = 13.0 * look.form["head"] if is_short else 7.0
    neck = tube([(*body.at(0.72, 0.45), wide), (*bent, (wide + slim) / 2), (*head, slim)])
    return Facing(*head, bill + pitch * 0.3, -1 if pose.looks_back else 1), neck


def _head(pen: Pen, look: Appearance, pose: Pose, face: Facing) -> Point:
    kind, has = look.species.kind, look.species.has
    size = _HEAD[kind] * look.form["head"]
    head = face.at(0)
    if has("crest"):
        pen.facet(
            [
                face.at(size * 0.75, 0.2),
                face.at(size * 1.55, 0.28),
                face.at(size * 1.1, 0.31),
                face.at(size * 1.9, 0.36),
                face.at(size * 0.9, 0.42),
                head,
            ],
            dark(look.main, 0.3),
        )
    mouth = _bill(pen, look, pose, Facing(*face.at(size * 0.8), face.turn, face.side))
    pen.oval(head, (size * 1.08, size), look.main, face.tilt)
    if kind in ("songbird", "raptor"):
        pen.oval(face.at(size * 0.62, -0.13), (size * 0.55, size * 0.4), look.second, face.tilt)
    if has("cap"):
        cap = [face.at(size * 1.06, step / 20) for step in range(9)]
        pen.blob([*cap, face.at(size * 0.3, 0.3)], dark(look.contrast, 0.35))
    eye = face.at(size * 0.38, 0.1)
    if has("eye_stripe"):
        back, front = face.at(size * 0.98, 0.46), face.at(size, 0.02)
        pen.stroke([(*back, 1.2), (*eye, 3.4), (*front, 1.0)], light(look.second, 0.3))
    paint_eye(pen, look, eye, 2.9 if look.is_young else 2.4, pose.is_asleep)
    return mouth


def _bill(pen: Pen, look: Appearance, pose: Pose, face: Facing) -> Point:
    kind = look.species.kind
    length = _BILL[kind] * look.form["snout"] + 4
    thick = {"songbird": 4.6, "raptor": 5.4, "waterfowl": 4.6, "wader": 2.6}[kind]
    gape, bend = 0.075 * pose.mouth, 0.13 if "deformed" in look.extras else 0.0
    root, tip, under = (
        face.at(0),
        face.at(length, gape + bend),
        face.at(length * 0.92, -gape - bend * 1.4),
    )
    upper, lower = face.at(thick, 0.25), face.at(thick * 0.85, -0.25)
    if pose.mouth > 0.2:
        pen.facet([root, tip, under], (176, 60, 60))
    pen.facet([root, lower, under], dark(look.bare, 0.25))
    end = Facing(*tip, face.turn, face.side)
    if kind == "raptor":
        pen.facet(
            [
                root,
                upper,
                face.at(length * 0.9, 0.06),
                tip,
                end.at(thick * 1.2, -0.27),
                face.at(length * 0.7),
            ],
            look.bare,
        )
    elif kind == "waterfowl":
        pen.facet([root, upper, end.at(thick * 0.5, 0.25), end.at(thick * 0.5, -0.25)], look.bare)
    else:
        pen.facet([root, upper, tip, face.at(1, -0.25)], look.bare)
    return tip


def _wing(pen: Pen, look: Appearance, body: Tube) -> None:
    edge, fold = dark(look.main, 0.34), dark(look.main, 0.12)
    outline = [
        body.at(0.84, 0.3),
        body.at(0.62, 0.08),
        body.at(0.3, 0.1),
        body.at(0.02, 0.1),
        body.at(-0.0, 0.42),
        body.at(0.22, 0.62),
        body.at(0.5, 0.72),
        body.at(0.76, 0.6),
    ]
    pen.blob([(x - 0.8, y + 1.6) for x, y in outline], edge)
    pen.blob(outline, fold)
    for row, (start, v) in enumerate(((0.3, 0.56), (0.24, 0.44), (0.18, 0.32))):
        pen.blob(body.patch(0.0, start + 0.12 * row, v - 0.02, v + 0.025), edge)
    if look.species.has("wing_bar"):
        pen.blob(body.patch(0.46, 0.54, 0.14, 0.68, 2), light(look.second, 0.35))
