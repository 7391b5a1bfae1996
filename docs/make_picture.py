"""Draws docs/world.jpg, the picture in the README: `python docs/make_picture.py`."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from fieldmark.world import Scene, World

TILE_PX, COLUMNS = 160, 8


def scenes(world: World) -> list[Scene]:
    """One photo of many species, then what can happen to a photo and to an animal."""
    by_plan: dict[str, int] = {}
    for species in world.species:
        by_plan.setdefault(str(species.traits["kind"]), species.index)
    shown = [Scene(index, burst=index) for index in list(by_plan.values())[:16]]
    bird = world.of_plan("bird")[2].index
    mammal = world.of_plan("mammal")[0].index
    herb = world.of_plan("herb")[0].index
    small = world.of_plan("plankton")[0].index
    return [
        *shown,
        Scene(mammal, condition="night", burst=3),
        Scene(mammal, behaviour="feeding", burst=4),
        Scene(mammal, behaviour="running", burst=5),
        Scene(mammal, individual=3, n_animals=3, burst=6),
        Scene(herb, condition="herbarium", burst=1),
        Scene(small, condition="microscope", burst=2),
        Scene(bird, stage="juvenile", burst=7),
        Scene(bird, extras=("nest",), burst=8),
    ]


def main() -> None:
    world = World()
    tiles = [world.photo(scene).image.resize((TILE_PX, TILE_PX)) for scene in scenes(world)]
    rows = -(-len(tiles) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * TILE_PX, rows * TILE_PX))
    for number, tile in enumerate(tiles):
        sheet.paste(tile, (number % COLUMNS * TILE_PX, number // COLUMNS * TILE_PX))
    sheet.save(Path(__file__).parent / "world.jpg", quality=85)


if __name__ == "__main__":
    main()
