"""BelugaID: photos of individual white whales.

The columns are those of every Wild Me set (`read/coco.py`). The published images are cut to one
whale already, so `crop` is set only where an image has several. Cook Inlet, Alaska, 2016-2019.
"""

from __future__ import annotations

from functools import partial

from fieldmark.data._dataset import Info, Source
from fieldmark.data.read.coco import (
    ANNOTATIONS,
    IMAGES,
    METADATA,
    WildMe,
    check_coco,
    make_coco,
    read_known,
    read_sightings,
)

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
    layout=f"ROOT/beluga.coco/{IMAGES}/*.jpg\nROOT/beluga.coco/{ANNOTATIONS}\n"
    f"ROOT/{METADATA}  (optional: identity, path, split of the published closed-set split)",
    sources=(
        Source(
            url="https://storage.googleapis.com/public-datasets-lila/wild-me/beluga.coco.tar.gz",
            filename="beluga.coco.tar.gz",
            mirrors=(
                "https://lilawildlife.blob.core.windows.net/lila-wildlife/wild-me/beluga.coco.tar.gz",
                "https://us-west-2.opendata.source.coop.s3.amazonaws.com/agentmorris/lila-wildlife/"
                "wild-me/beluga.coco.tar.gz",
            ),
        ),
    ),
)


table = partial(read_known, coco=COCO)
sightings = partial(read_sightings, coco=COCO)
check = partial(check_coco, coco=COCO)
make = partial(make_coco, coco=COCO)
