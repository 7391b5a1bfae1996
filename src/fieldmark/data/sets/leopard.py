"""LeopardID2022: photos of individual African leopards.

The columns are those of every Wild Me set (`read/coco.py`). Photos show the scene around the
animal, so `crop` is its box. 6,825 annotations of 430 known leopards (50 of them seen once) and 19
of unknown ones, which are left out. Botswana.
"""

from __future__ import annotations

from fieldmark.data._dataset import Info
from fieldmark.data.read.coco import ANNOTATIONS, IMAGES, WildMe

__all__ = ["ANNOTATIONS", "IMAGES", "INFO", "check", "make", "sightings", "table"]

COCO = WildMe(
    name="leopard",
    title="LeopardID2022",
    homes=("leopard.coco", "leopard/leopard.coco", "."),
    builds=("cat", "mammal"),
    category="leopard",
    has_dates=False,
    n_published=6825,
)

INFO = Info(
    title="LeopardID 2022",
    licence="CDLA-Permissive-1.0",
    citation="Botswana Predator Conservation Trust. Panthera pardus CSV custom export, African "
    "Carnivore Wildbook, 2022-04-28. Wild Me; Labeled Information Library of Alexandria: Biology "
    "and Conservation (LILA BC), 2022",
    homepage="https://lila.science/datasets/leopard-id-2022/",
    layout=COCO.layout,
    sources=(COCO.archive,),
)


table = COCO.table
sightings = COCO.sightings
check = COCO.check
make = COCO.make
