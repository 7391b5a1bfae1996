"""BelugaID: photos of individual white whales.

The columns are those of every Wild Me set (`read/coco.py`). The published images are cut to one
whale already, so `crop` is set only where an image has several. Cook Inlet, Alaska, 2016-2019.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._dataset import Finding, Info, Source
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

if TYPE_CHECKING:
    from fieldmark.world import World

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


def table(root: Path) -> pl.DataFrame:
    """One row per annotation of a known individual, in the order of the file."""
    return read_known(root, COCO)


def sightings(root: Path) -> pl.DataFrame:
    """All annotations, those of unknown individuals too: these have no label."""
    return read_sightings(root, COCO)


def check(root: Path) -> list[Finding]:
    """What the file leaves out, individuals seen once, and images that cannot be read."""
    return check_coco(root, COCO)


def make(root: Path, world: World, size: int) -> None:
    """Individuals of one species over several encounters, in the exact layout."""
    make_coco(root, world, size, COCO)
