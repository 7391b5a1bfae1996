"""Where and in which light does an encounter happen?

A burst fixes place, light and position; its shots and frames share them.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.data.world._background import N_PANELS, PANEL_PX
from fieldmark.data.world._dice import Dice
from fieldmark.data.world._scene import Scene
from fieldmark.data.world._shape import Place
from fieldmark.data.world._species import Species
from fieldmark.data.world._taxonomy import PLANTS

SIZE_PX = 256
EXTENT = {
    "bird": 150.0, "mammal": 185.0, "fish": 132.0, "whale": 150.0, "beetle": 125.0,
    "butterfly": 142.0, "spider": 135.0, "lizard": 190.0, "herb": 135.0, "tree": 165.0,
    "mushroom": 105.0, "plankton": 135.0,
}  # fmt: skip
FROM_ABOVE = ("beetle", "butterfly", "spider", "plankton")
SWIMMERS = ("fish", "whale")


@dataclass(frozen=True, slots=True)
class Burst:
    """What stays the same over the shots of one encounter."""

    habitat: str
    view: str
    panel: int
    crop: tuple[int, int]
    is_mirrored: bool
    gains: tuple[int, int, int]
    """light: 128 = as painted"""
    place: Place
    camera: str


def view_of(plan: str, condition: str) -> str:
    if condition == "herbarium":
        return "paper"
    if plan == "plankton":
        return "drop"
    return "top" if plan in FROM_ABOVE else "side"


def make_burst(seed: int, difficulty: float, species: Species, scene: Scene) -> Burst:
    dice = Dice(seed, "burst", species.index, scene.burst)
    plan = species.plan
    habitat = str(species.traits["habitat"])
    if dice.chance(0.3 * difficulty):
        habitat = dice.choice(plan.habitats)
    habitat = scene.background or habitat
    fixed = dice if scene.camera is None else Dice(seed, "camera", scene.camera)
    span = PANEL_PX - SIZE_PX
    panel, crop = fixed.below(N_PANELS), (fixed.below(span), span // 2 + fixed.below(span // 2))
    is_mirrored = fixed.chance(0.5)
    camera = f"camera-{scene.camera}" if scene.camera is not None else f"{habitat}-{panel}"
    return Burst(
        habitat=habitat,
        view=view_of(plan.name, scene.condition),
        panel=panel,
        crop=crop,
        is_mirrored=is_mirrored,
        gains=_light(dice, difficulty, scene.rating),
        place=_stand(dice, difficulty, plan.name, scene.rating),
        camera=camera,
    )


def _light(dice: Dice, difficulty: float, rating: int) -> tuple[int, int, int]:
    gain = 128 + dice.around(12 + 48 * difficulty)
    warm = dice.around(3 + 22 * difficulty)
    dim = 0.62 if rating <= 2 and dice.chance(0.6) else 1.0
    red, green, blue = (
        int(max(52.0, min(150.0, each * dim))) for each in (gain + warm, gain, gain - warm)
    )
    return red, green, blue


def _stand(dice: Dice, difficulty: float, plan: str, rating: int) -> Place:
    share = dice.between(0.82 - 0.42 * difficulty, 0.86 - 0.1 * difficulty)
    share *= {1: 0.45, 2: 0.55, 3: 0.8, 4: 1.0, 5: 1.15}[rating]
    stray = 8 + 46 * difficulty
    x, low = SIZE_PX / 2 + dice.around(stray), dice.between(0.76, 0.9)
    is_flipped, turn = dice.chance(0.5), dice.around(0.02 * difficulty)
    y = SIZE_PX * low
    if plan in FROM_ABOVE:
        y, turn = (
            SIZE_PX / 2 + dice.around(stray * 0.7),
            dice.between(0, 0.5 * difficulty) + dice.between(-0.2, 0.1),
        )
    elif plan in SWIMMERS:
        y = SIZE_PX * (0.5 + dice.around(0.14))
    if plan in PLANTS:
        y = SIZE_PX * dice.between(0.88, 0.96)
    return Place(x, y, SIZE_PX * share / EXTENT[plan], turn, is_flipped)
