"""PlantID: photos of Californian plants with the captions of a field guide.

The columns are those of every list of captions (`read/captions.py`). All 2,349 captions are
different, but 70 rows share their photo with another row: subspecies are shown by the photo of
their species.
"""

from __future__ import annotations

from fieldmark.data._dataset import Info, Source
from fieldmark.data.read.captions import IMAGES, CaptionSet

__all__ = ["CAPTIONS", "INFO", "check", "listed_sources", "make", "table"]

CAPTIONS = CaptionSet(
    name="plantid",
    file="plantID.csv",
    n_rows=2_349,
    n_species=794,
    n_captions=2_349,
    plans=("herb", "tree"),
    shares="images",
    address="http://example.org/PhotoPath/Thumb192/{name}_{id}.jpg",
)

INFO = Info(
    title="PlantID (image–caption retrieval)",
    licence="MIT for the list; photos and texts keep the terms of plantid.net",
    citation="Zhang et al. BioCAP: Exploiting Synthetic Captions Beyond Labels in Biological "
    "Foundation Models. 2025. arXiv:2510.20095. Photos and texts: "
    "plantid.net",
    homepage="https://github.com/Imageomics/biocap",
    layout=f"ROOT/{CAPTIONS.file}  blank, id, source_url, captions, md5\n"
    f"ROOT/{IMAGES}/ID.jpg  (or in ROOT, or in ROOT/plantID); `data get` fetches them",
    sources=(
        Source(
            url="https://raw.githubusercontent.com/Imageomics/biocap/"
            "6e589bef9503c8ff0f4f4580365cdd6367d50b38/data/retrieval_annotations/plantID.csv",
            n_bytes=594_836,
            md5="b1ad3a50528b407c63fd7beaf2d0c005",
        ),
    ),
)


table = CAPTIONS.table
check = CAPTIONS.check
make = CAPTIONS.make
listed_sources = CAPTIONS.listed_sources
