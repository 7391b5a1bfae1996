"""LeopardID2022: photos of individual African leopards.

The columns are those of every Wild Me set (`read/coco.py`). Photos show the scene around the
animal, so `crop` is its box. 6,825 annotations of 430 known leopards (50 of them seen once) and 19
of unknown ones, which are left out. Botswana.
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
    layout=f"ROOT/leopard.coco/{IMAGES}/*.jpg\nROOT/leopard.coco/{ANNOTATIONS}\n"
    f"ROOT/{METADATA}  (optional: identity, path, split of the published closed-set split)",
    sources=(
        Source(
            url="https://storage.googleapis.com/public-datasets-lila/wild-me/leopard.coco.tar.gz",
            filename="leopard.coco.tar.gz",
            mirrors=(
                "https://lilawildlife.blob.core.windows.net/lila-wildlife/wild-me/leopard.coco.tar.gz",
                "https://us-west-2.opendata.source.coop.s3.amazonaws.com/agentmorris/lila-wildlife/"
                "wild-me/leopard.coco.tar.gz",
            ),
        ),
    ),
)


table = partial(read_known, coco=COCO)
sightings = partial(read_sightings, coco=COCO)
check = partial(check_coco, coco=COCO)
make = partial(make_coco, coco=COCO)
