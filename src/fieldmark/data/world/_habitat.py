"""Which colours does each habitat have, and what stands in it?"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.data.world._raster import Colour

HORIZON = 0.52
"""height of the sky on land, as a share of the panel"""


@dataclass(frozen=True, slots=True)
class Land:
    sky: tuple[Colour, Colour]
    far: Colour
    ground: tuple[Colour, Colour]
    growth: Colour
    rough: int
    """strength of the ground's texture"""
    things: str


LANDS: dict[str, Land] = {
    "forest": Land(
        ((120, 150, 110), (74, 104, 62)),
        (52, 78, 48),
        ((96, 92, 52), (70, 58, 36)),
        (58, 96, 44),
        34,
        "trunks",
    ),
    "meadow": Land(
        ((150, 196, 236), (214, 230, 236)),
        (110, 150, 96),
        ((128, 172, 74), (84, 132, 48)),
        (72, 128, 44),
        26,
        "grass",
    ),
    "savanna": Land(
        ((176, 204, 226), (238, 222, 184)),
        (168, 156, 108),
        ((212, 184, 104), (178, 140, 70)),
        (190, 152, 70),
        30,
        "acacia",
    ),
    "desert": Land(
        ((132, 182, 224), (242, 220, 180)),
        (206, 158, 108),
        ((232, 190, 128), (204, 150, 92)),
        (140, 132, 84),
        22,
        "dunes",
    ),
    "wetland": Land(
        ((176, 198, 208), (216, 224, 218)),
        (104, 128, 100),
        ((98, 138, 142), (64, 100, 104)),
        (104, 126, 58),
        20,
        "reeds",
    ),
    "tundra": Land(
        ((178, 200, 224), (228, 234, 240)),
        (190, 204, 218),
        ((244, 246, 248), (214, 224, 234)),
        (150, 150, 140),
        14,
        "rocks",
    ),
    "mountain": Land(
        ((126, 168, 212), (204, 218, 228)),
        (124, 128, 140),
        ((148, 146, 140), (112, 108, 104)),
        (104, 112, 84),
        40,
        "rocks",
    ),
    "shore": Land(
        ((152, 196, 226), (206, 226, 232)),
        (66, 130, 160),
        ((226, 208, 164), (204, 180, 130)),
        (150, 140, 96),
        18,
        "sea",
    ),
    "reef": Land(
        ((60, 160, 190), (24, 96, 140)),
        (20, 84, 124),
        ((206, 190, 150), (150, 136, 108)),
        (210, 96, 90),
        26,
        "coral",
    ),
    "river": Land(
        ((120, 160, 130), (66, 110, 92)),
        (54, 92, 76),
        ((126, 112, 84), (92, 80, 60)),
        (64, 112, 60),
        34,
        "weeds",
    ),
    "open_sea": Land(
        ((44, 126, 182), (10, 52, 104)),
        (14, 62, 112),
        ((10, 48, 98), (6, 32, 76)),
        (120, 170, 200),
        10,
        "rays",
    ),
}
