"""Four-legged mammals: drawn from the side, looking right, feet at the origin."""

from __future__ import annotations

from fieldmark.world.colour import Colour, dark, light, mix
from fieldmark.world.draw.appearance import Anchors, Appearance, Pose
from fieldmark.world.draw.pattern import paint_eye, paint_markings, paint_pattern
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Facing, Pen, Tube, reach, tube
from fieldmark.world.rng import cosine, sine

_NECK = {"deer": 38.0, "fox": 22.0, "horse": 36.0, "cat": 18.0, "bear": 16.0, "squirrel": 14.0}
_HEAD = {"deer": 11.0, "fox": 12.5, "horse": 12.5, "cat": 13.5, "bear": 15.0, "squirrel": 13.5}
_MUZZLE = {"deer": 20.0, "fox": 19.0, "horse": 20.0, "cat": 13.0, "bear": 18.0, "squirrel": 13.0}
_GAITS = {"walking": (0.0, 0.5, 0.25, 0.75), "running": (0.0, 0.1, 0.5, 0.6)}


def draw_mammal(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    kind, form = look.species.kind, look.form
    leg = 56 * form["limb"] * (1 - 0.86 * pose.crouch)
    height = leg + 15 * form["stout"] + pose.bounce
    stretch = 1 + 0.07 * max(0.0, pose.stride - 0.9) * sine(pose.phase)
    body = _body((0.0, -height), pose.lean, form["stout"], stretch)
    hind, fore = body.at(0.14, 0.62), body.at(0.84, 0.66)
    _tail(pen, look, pose, body)
    shade = dark(look.main, 0.3)
    gait = _GAITS["running" if pose.stride > 1 else "walking"]
    _leg(pen, look, (pose, gait[2]), (hind[0] + 6, hind[1]), True, shade)
    _leg(pen, look, (pose, gait[3]), (fore[0] - 5, fore[1]), False, shade)
    face, neck = _neck(look, pose, body)
    if look.species.has("mane"):
        _mane(pen, look, neck)
    pen.blob(body.outline(), look.main)
    pen.blob(body.patch(0.14, 0.9, 0.72, 1.0, 5), light(look.main, 0.35))
    pen.blob(neck.outline(), look.main)
    _leg(pen, look, (pose, gait[0]), hind, True, look.main)
    _leg(pen, look, (pose, gait[1]), fore, False, look.main)
    if look.species.has("white_rump"):
        pen.blob(body.patch(0.0, 0.15, 0.1, 0.75, 3), (240, 236, 226))
    paint_pattern(pen, look, body, look.second, 4.6, (0.06, 0.94, 0.04, 0.74))
    if look.species.traits["pattern"] != "plain":
        paint_pattern(pen, look, neck, look.second, 2.6, (0.25, 0.9, 0.05, 0.8))
    paint_markings(pen, look, body, 4.2)
    if look.species.has("collar") or "tag" in look.extras:
        paint = (250, 120, 20) if "tag" in look.extras else look.second
        pen.blob(neck.patch(0.5, 0.68, -0.04, 1.04, 2), paint)
    mouth = _head(pen, look, pose, face, _HEAD[kind] * form["head"])
    return Anchors(mouth, body.at(0.5, 0.0))


def _body(centre: Point, lean: float, stout: float, stretch: float) -> Tube:
    profile = ((-52, 9), (-44, 17), (-26, 21), (0, 20.5), (24, 22.5), (42, 19), (52, 11))
    return tube(
        [(*reach(centre, along * stretch, lean), half * stout) for along, half in profile], 1.06
    )


def _tail(pen: Pen, look: Appearance, pose: Pose, body: Tube) -> None:
    kind, length = look.species.kind, 44 * look.form["tail"]
    root, rise = body.at(0.02, 0.25), 0.62 - 0.16 * pose.tail
    if pose.crouch > 0.5:
        rise = 0.52
    bushy = {"fox": 8.5, "squirrel": 13.0, "horse": 4.5, "cat": 3.8}.get(kind, 5.0)
    if kind == "squirrel":
        rise = 0.36 + 0.12 * pose.crouch
    middle = reach(root, length * 0.5, rise)
    tip = reach(middle, length * 0.5, rise + (-0.14 if kind in ("cat", "squirrel") else 0.05))
    paint = dark(look.main, 0.1)
    tail = pen.stroke(
        [
            (*root, 4.0),
            (*middle, bushy),
            (*reach(middle, length * 0.3, rise), bushy * 0.9),
            (*tip, 1.5),
        ],
        paint,
    )
    if look.species.has("tail_stripe"):
        pen.blob(tail.patch(0.55, 0.8, -0.02, 1.02, 2), look.second)
    if kind == "horse":
        pen.stroke([(*middle, 5.0), (*tip, 4.0)], dark(look.main, 0.5))


def _leg(
    pen: Pen, look: Appearance, gait: tuple[Pose, float], hip: Point, is_hind: bool, paint: Colour
) -> None:
    pose, offset = gait
    thick = {"bear": 1.35, "horse": 1.1, "deer": 0.85}.get(look.species.kind, 1.0)
    thick *= 0.6 + 0.4 * look.form["limb"]
    if pose.crouch > 0.5:
        ahead = 20 if is_hind else 26
        pen.stroke(
            [(*hip, 10 * thick), (hip[0] - 4, -5, 7 * thick), (hip[0] + ahead, -3, 4)], paint
        )
        return
    turn = pose.phase + offset
    swing = 0.085 * pose.stride * sine(turn)
    lift = max(0.0, cosine(turn)) * pose.stride
    length = -hip[1] - pose.bounce
    bend = (0.03 if is_hind else -0.012) + lift * (0.05 if is_hind else -0.07)
    knee = reach(hip, length * 0.52, 0.75 + swing - bend)
    foot = reach(knee, length * 0.5, 0.75 + swing * 0.9 + bend * 0.9 - lift * 0.07)
    foot = (foot[0], min(-1.0, foot[1]) if lift else -1.0)
    upper = 11.5 if is_hind else 9.0
    pen.stroke([(*hip, upper * thick), (*knee, 4.6 * thick), (*foot, 3.0 * thick)], paint)
    hoof = dark(look.main, 0.6)
    pen.blob(
        [
            (foot[0] - 3.4 * thick, foot[1] - 3),
            (foot[0] + 4.2 * thick, foot[1] - 2),
            (foot[0] + 5.2 * thick, foot[1] + 1.4),
            (foot[0] - 3.6 * thick, foot[1] + 1.4),
        ],
        hoof,
    )


def _neck(look: Appearance, pose: Pose, body: Tube) -> tuple[Facing, Tube]:
    kind = look.species.kind
    rise = pose.neck
    drop = -body.at(0.9, 0.4)[1]
    length = _NECK[kind] * (0.8 + 0.2 * look.form["limb"])
    head_turn = -0.09 + pose.tilt
    if rise < 0:
        turn = 0.1 + 0.26 * rise
        length += max(0.0, drop - length - 18) * -rise * 0.55
        head_turn = -0.09 + 0.1 * rise
    else:
        turn = 0.08 + 0.11 * rise
    if pose.looks_back:
        turn, head_turn = 0.28, -0.13
    root, start = body.at(0.9, 0.3), body.at(0.8, 0.42)
    head = reach(root, length, turn)
    middle = reach(root, length * 0.5, turn)
    base = 17 * look.form["stout"]
    slim = _HEAD[kind] * 0.82 * (0.5 + 0.5 * look.form["head"])
    neck = tube([(*start, base), (*middle, (base + slim) * 0.47), (*head, slim)])
    return Facing(*head, head_turn, -1 if pose.looks_back else 1), neck


def _mane(pen: Pen, look: Appearance, neck: Tube) -> None:
    paint = dark(look.second, 0.15)
    spikes = []
    for step in range(6):
        u = 0.15 + step * 0.16
        spikes += [neck.at(u, 0.1), neck.at(u + 0.06, -0.36)]
    pen.facet([*spikes, neck.at(1.05, 0.2), neck.at(0.1, 0.3)], paint)


def _head(pen: Pen, look: Appearance, pose: Pose, face: Facing, size: float) -> Point:
    kind, has = look.species.kind, look.species.has
    muzzle = _MUZZLE[kind] * (0.45 + 0.55 * look.form["snout"])
    _ear(pen, look, face, size, is_far=True)
    if has("horns"):
        _horns(pen, look, face, size)
    _jaw(pen, look, pose, face, (size, muzzle))
    _snout(pen, look, face, (size, muzzle))
    if has("eye_stripe"):
        back, front = face.at(size * 0.9, 0.44), face.at(size * 0.3 + muzzle * 0.8, 0.03)
        pen.stroke([(*back, 1.6), (*face.at(size * 0.45, 0.12), 3.6), (*front, 1.2)], look.second)
    paint_eye(pen, look, face.at(size * 0.42, 0.12), 2.7 if look.is_young else 2.1, pose.is_asleep)
    _ear(pen, look, face, size, is_far=False)
    return face.at(size * 0.6 + muzzle * 0.95, -0.03)


def _jaw(pen: Pen, look: Appearance, pose: Pose, face: Facing, build: tuple[float, float]) -> None:
    size, muzzle = build
    is_deformed = "deformed" in look.extras
    jaw = face.at(size * 0.7 + muzzle * 0.8, -0.035 - 0.09 * pose.mouth)
    if is_deformed:
        jaw = face.at(size * 0.7 + muzzle * 1.1, -0.15)
    if pose.mouth > 0.2 or is_deformed:
        lip = face.at(size * 0.6 + muzzle * 0.9, -0.01)
        pen.facet([face.at(size * 0.5, -0.05), lip, jaw], (150, 46, 50))
    line = [(*face.at(size * 0.4, -0.08), size * 0.42), (*jaw, size * 0.2)]
    pen.stroke(line, dark(look.main, 0.14))


def _snout(pen: Pen, look: Appearance, face: Facing, build: tuple[float, float]) -> None:
    size, muzzle = build
    blunt = {"bear": 0.5, "horse": 0.5, "cat": 0.42}.get(look.species.kind, 0.34)
    skull = [(*face.at(-size * 0.75), size * 0.7), (*face.at(0), size)]
    nose = [(*face.at(size * 0.75), size * 0.72), (*face.at(size * 0.55 + muzzle), size * blunt)]
    pen.stroke([*skull, *nose], look.main)
    cheek = face.at(size * 0.5 + muzzle * 0.75, -0.02)
    pen.oval(cheek, (muzzle * 0.3, size * blunt * 0.8), light(look.main, 0.4), face.tilt)
    tip = face.at(size * 0.55 + muzzle * 1.02, 0.012)
    pen.oval(tip, (size * 0.2, size * 0.17), (34, 28, 30), face.tilt)


def _ear(pen: Pen, look: Appearance, face: Facing, size: float, is_far: bool) -> None:
    length = size * 1.15 * look.form["ear"]
    shift = 0.06 if is_far else 0.0
    nicks = [mark for mark in look.individual.markings if mark.kind == "nick"]
    root = Facing(*face.at(size * 0.72, 0.29 - shift), face.turn, face.side)
    paint = dark(look.main, 0.35 if is_far else 0.12)
    round_ear = look.species.kind in ("bear", "squirrel")
    if round_ear:
        pen.oval(root.at(length * 0.4, 0.27), (length * 0.55, length * 0.6), paint, face.tilt)
        return
    tip = root.at(length * 1.25, 0.3)
    pen.blob(
        [
            root.at(length * 0.36, 0.0),
            root.at(length * 0.7, 0.2),
            tip,
            root.at(length * 0.75, 0.4),
            root.at(length * 0.36, 0.5),
        ],
        paint,
    )
    if not is_far:
        pen.oval(
            root.at(length * 0.5, 0.28),
            (length * 0.14, length * 0.34),
            mix(look.main, (226, 160, 140), 0.5),
            face.tilt,
        )
    if nicks and not is_far:
        pen.facet([tip, root.at(length * 0.7, 0.25), root.at(length * 0.95, 0.22)], (20, 16, 18))


def _horns(pen: Pen, look: Appearance, face: Facing, size: float) -> None:
    length = size * (1.0 if look.is_young else 2.2)
    bone = mix(look.bare, (226, 208, 170), 0.6)
    for shift, paint in ((0.05, dark(bone, 0.3)), (0.0, bone)):
        root = face.at(size * 0.9, 0.22 - shift)
        start = Facing(*root, face.turn, face.side)
        middle, tip = start.at(length * 0.55, 0.31), start.at(length, 0.26)
        pen.stroke([(*root, size * 0.2), (*middle, size * 0.15), (*tip, size * 0.04)], paint)
        if look.species.kind == "deer":
            pen.stroke(
                [(*middle, size * 0.11), (*start.at(length * 0.95, 0.38), size * 0.04)], paint
            )
