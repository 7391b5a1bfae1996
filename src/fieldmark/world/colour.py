"""Colours: what the colour words of the descriptions look like, and mixing them."""

from __future__ import annotations

Colour = tuple[int, int, int]
"""red, green, blue"""

COLOURS: dict[str, Colour] = {
    "black": (38, 36, 42),
    "slate": (86, 96, 110),
    "grey": (138, 138, 136),
    "white": (236, 234, 226),
    "cream": (228, 210, 168),
    "buff": (204, 168, 112),
    "brown": (116, 78, 48),
    "chestnut": (150, 74, 36),
    "rust": (190, 92, 40),
    "red": (198, 40, 40),
    "pink": (222, 130, 150),
    "orange": (232, 134, 34),
    "yellow": (238, 202, 52),
    "olive": (120, 124, 56),
    "green": (62, 138, 62),
    "teal": (30, 134, 134),
    "blue": (44, 96, 184),
    "violet": (120, 66, 156),
}


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """`share` of the other colour in the one."""
    part = int(share * 256)
    return (
        one[0] + ((other[0] - one[0]) * part >> 8),
        one[1] + ((other[1] - one[1]) * part >> 8),
        one[2] + ((other[2] - one[2]) * part >> 8),
    )


def dark(colour: Colour, share: float = 0.25) -> Colour:
    return mix(colour, (14, 12, 18), share)


def light(colour: Colour, share: float = 0.25) -> Colour:
    return mix(colour, (255, 252, 240), share)


def brightness(colour: Colour) -> int:
    return (colour[0] * 3 + colour[1] * 6 + colour[2]) // 10
