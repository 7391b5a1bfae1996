"""BelugaID: photos of individual white whales.

The columns are those of every Wild Me set (`read/coco.py`). The published images are cut to one
whale already, so `crop` is set only where an image has several. Cook Inlet, Alaska, 2016-2019.
"""

from __future__ import annotations

from fieldmark.data._dataset import Info
from fieldmark.data.read.coco import ANNOTATIONS, IMAGES, WildMe

__all__ = ["ANNOTATIONS", "IMAGES", "INFO", "check", "make", "sightings", "table"]

COCO = WildMe(
    name="beluga",
    title="BelugaID",
    homes=("beluga.coco", "beluga/beluga.coco", "."),
    builds=("beluga", "whale", "mammal"),
    category="beluga_whale",
    names_are_numbers=True,
    is_cut=True,
)

INFO = Info(
    title="BelugaID 2022",
    licence="CDLA-Permissive-1.0",
    citation="Beluga ID 2022: belugas of Cook Inlet, Alaska, 2016-2019. Wild Me; Labeled "
    "Information Library of Alexandria: Biology and Conservation (LILA BC), 2022",
    homepage="https://lila.science/datasets/beluga-id-2022/",
    layout=COCO.layout,
    sources=(COCO.archive,),
)


table = COCO.table
sightings = COCO.sightings
check = COCO.check
make = COCO.make
