"""A small imaginary natural world: draws creatures, writes any dataset's real layout.

Everything comes from a seed: species with a taxonomy, traits and descriptions, individuals with
their own markings, and photos of them with the whole truth. `World.photo(Scene(…))` is all most
callers need. The package is a dataset too (`INFO`, `table`, `check`, `make`).

Pixels are the same on every machine, by construction rather than by luck:

- choices come from hashes (`_dice`), never from a library's random stream;
- geometry uses +, -, ×, ÷ and square roots, which IEEE 754 defines to the last bit, and sines from
  a table of whole numbers; no BLAS, no transcendental function, no `sum` of floats (its order, and
  since Python 3.12 its method, is not ours);
- corners are rounded to 1/16 of a sample and filled with whole-number arithmetic (`_raster`);
- all that follows works on bytes and whole numbers, with Pillow operations defined on them.

JPEG files are as identical as the encoder: pixels are promised, file bytes only on one machine.
"""

from fieldmark.data.world._files import INFO, check, make, table, write_photo
from fieldmark.data.world._scene import CONDITIONS, EXTRAS, MORPHS, STAGES, Scene
from fieldmark.data.world._species import Individual, Marking, Species
from fieldmark.data.world._taxonomy import BEHAVIOURS, HABITATS, RANKS
from fieldmark.data.world._world import Photo, World

__all__ = [
    "BEHAVIOURS",
    "CONDITIONS",
    "EXTRAS",
    "HABITATS",
    "INFO",
    "MORPHS",
    "RANKS",
    "STAGES",
    "Individual",
    "Marking",
    "Photo",
    "Scene",
    "Species",
    "World",
    "check",
    "make",
    "table",
    "write_photo",
]
