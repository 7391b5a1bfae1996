"""What is true of a photo?"""

from __future__ import annotations

from collections.abc import Sequence

from fieldmark.data.world import _text
from fieldmark.data.world._burst import SIZE_PX, Burst
from fieldmark.data.world._pose import PAIRED
from fieldmark.data.world._scene import Scene
from fieldmark.data.world._species import Species
from fieldmark.data.world._stage import Box

Value = str | float | int | bool
Truth = dict[str, Value]


def make_truth(
    scene: Scene, species: Species, others: Sequence[Species], burst: Burst, box: Box, size_px: int
) -> Truth:
    """One flat row: taxonomy, traits, the individual, what it does, and how it was taken."""
    left, top, width, height = (each * size_px // SIZE_PX for each in box)
    shown = {each.index for each in others} | ({species.index} if scene.n_animals else set())
    truth: Truth = {
        **species.ranks,
        "scientific_name": species.scientific_name,
        "common_name": species.common_name,
        "species_index": species.index,
        **species.traits,
        **_of_scene(scene, species),
        "n_species": len(shown),
        "background": burst.habitat,
        "camera": burst.camera,
        "box_x": left,
        "box_y": top,
        "box_width": max(1, width),
        "box_height": max(1, height),
    }
    truth["caption"] = _text.caption(truth, scene.extras, [each.common_name for each in others])
    truth["description"] = species.description
    return truth


def _of_scene(scene: Scene, species: Species) -> Truth:
    is_pair = scene.behaviour in PAIRED and scene.n_animals
    return {
        "individual": f"{species.index:03d}-{scene.individual:03d}",
        "stage": scene.stage,
        "behaviour": scene.behaviour,
        "frame": scene.frame,
        "condition": scene.condition,
        "n_animals": max(2, scene.n_animals) if is_pair else scene.n_animals,
        "is_sick": scene.sick,
        "is_dead": "dead" in scene.extras,
        "health": "dead" if "dead" in scene.extras else "sick" if scene.sick else "healthy",
        "morph": scene.morph,
        "extras": " ".join(sorted(scene.extras)),
        "rating": scene.rating,
        "burst": scene.burst,
        "shot": scene.shot,
        "unit": f"{species.index:03d}-b{scene.burst:05d}",
    }
