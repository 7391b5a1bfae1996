"""How many photos of the synthetic world does one core draw in a second?

    python benchmarks/world.py [--quick]

Every species of the default world under every condition, 256 px, without encoding files. CPU time
of this one process, the best of five rounds for each condition, since other work on the machine is
not the drawing's. The bar is the 150 images/s per core that the project asks for.
"""

from __future__ import annotations

import sys
import time

from _quick import Flags, finish
from fieldmark.world import CONDITIONS, Scene, World

BAR = 150
ROUNDS = 5


def scenes(world: World) -> dict[str, list[Scene]]:
    """One photo of each species under each condition, and one of several animals."""
    found = {
        condition: [
            Scene(each.index, condition=condition, burst=each.index) for each in world.species
        ]
        for condition in CONDITIONS
    }
    found["several animals"] = [
        Scene(each.index, n_animals=4, burst=each.index) for each in world.species
    ]
    return found


def draw_s(world: World, some: list[Scene]) -> float:
    start = time.process_time()
    for scene in some:
        world.photo(scene)
    return time.process_time() - start


def main() -> int:
    given = Flags(__doc__).parse()
    start = time.process_time()
    world = World(n_species=2) if given.quick else World()
    made_ms = (time.process_time() - start) * 1000
    print(f"the world itself: {made_ms:.1f} ms for {world.n_species} species")
    groups = scenes(world)
    n_photos = sum(len(some) for some in groups.values())
    cold_s = sum(draw_s(world, some) for some in groups.values())
    print(f"first round, backgrounds not painted yet: {n_photos / cold_s:.0f} images/s")
    n_rounds = 1 if given.quick else ROUNDS
    rounds = [{name: draw_s(world, some) for name, some in groups.items()} for _ in range(n_rounds)]
    best = {name: min(each[name] for each in rounds) for name in groups}
    for name, some in groups.items():
        print(f"{name:16} {len(some) / best[name]:6.0f} images/s")
    rate = n_photos / sum(best.values())
    figure = f"world: {rate:.0f} images/s per core at 256 px"
    return finish(figure, {f"≥ {BAR}": rate >= BAR}, given.quick)


if __name__ == "__main__":
    sys.exit(main())
