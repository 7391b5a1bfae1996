"""Synthetic images: a small imaginary natural world that draws creatures, for any dataset's layout.

Everything comes from a seed: species with a taxonomy, traits and descriptions, individuals with
their own markings, and photos of them with the whole truth. `World.photo(Scene(…))` is all most
callers need; `data/sets/world.py` makes a dataset of them. What is drawn lies in `draw/`.

Pixels are the same on every machine, by construction rather than by luck:

- choices come from hashes (`rng`), never from a library's random stream;
- geometry uses +, -, ×, ÷ and square roots, which IEEE 754 defines to the last bit, and sines from
  a table of whole numbers; no BLAS, no transcendental function, no `sum` of floats (its order, and
  since Python 3.12 its method, is not ours);
- corners are rounded to 1/16 of a sample and filled with whole-number arithmetic (`draw/raster`);
- all that follows works on bytes and whole numbers, with Pillow operations defined on them.

JPEG files are as identical as the encoder: pixels are promised, file bytes only on one machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.world.scene import CONDITIONS, EXTRAS, MORPHS, STAGES, Scene
    from fieldmark.world.species import Species
    from fieldmark.world.taxonomy import BEHAVIOURS, HABITATS
    from fieldmark.world.world import Photo, World, write_photo

__all__ = [
    "BEHAVIOURS",
    "CONDITIONS",
    "EXTRAS",
    "HABITATS",
    "MORPHS",
    "STAGES",
    "Photo",
    "Scene",
    "Species",
    "World",
    "write_photo",
]

__getattr__ = exports(__name__)
