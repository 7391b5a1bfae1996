"""Drawing: one file per body plan, and what they share (shapes, polygon filling, patterns, props).

`draw_creature(pen, appearance, pose)` draws any of them.
"""

from __future__ import annotations

from fieldmark.world.draw.appearance import Anchors, Appearance, Pose
from fieldmark.world.draw.bird import draw_bird
from fieldmark.world.draw.fish import draw_fish, draw_whale
from fieldmark.world.draw.insect import draw_beetle, draw_butterfly, draw_spider
from fieldmark.world.draw.lizard import draw_lizard
from fieldmark.world.draw.mammal import draw_mammal
from fieldmark.world.draw.plankton import draw_plankton
from fieldmark.world.draw.plant import draw_herb, draw_mushroom, draw_tree
from fieldmark.world.draw.shapes import Pen

__all__ = ["draw_creature"]

_BY_PLAN = {
    "bird": draw_bird, "mammal": draw_mammal, "fish": draw_fish, "whale": draw_whale,
    "beetle": draw_beetle, "butterfly": draw_butterfly, "spider": draw_spider,
    "lizard": draw_lizard, "herb": draw_herb, "tree": draw_tree, "mushroom": draw_mushroom,
    "plankton": draw_plankton,
}  # fmt: skip


def draw_creature(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    """Draws the creature in its own units; tells where its mouth, back and foot are."""
    return _BY_PLAN[look.species.plan.name](pen, look, pose)
