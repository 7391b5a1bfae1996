"""Cornell Bird: photos of North American birds with captions that naturalists wrote.

The columns are those of every list of captions (`read/captions.py`). 7,007 photos of 700 species
have 5,913 different captions, so a search that must name the very row has a ceiling. Names of
species are written with underscores, `Aberts_Towhee`, and the longest caption has 117 words.
"""

from __future__ import annotations

from fieldmark.data._dataset import Info, Source
from fieldmark.data.read.captions import IMAGES, CaptionSet

__all__ = ["CAPTIONS", "INFO", "check", "listed_sources", "make", "table"]

CAPTIONS = CaptionSet(
    name="cornell_bird",
    file="cornell_bird.csv",
    n_rows=7_007,
    n_species=700,
    n_captions=5_913,
    plans=("bird",),
    shares="captions",
    address="https://example.org/asset/{id}/1200",
)

INFO = Info(
    title="Cornell Bird (image–caption retrieval)",
    licence="MIT for the list; photos and texts keep the terms of the Macaulay Library",
    citation="Zhang et al. BioCAP: Exploiting Synthetic Captions Beyond Labels in Biological "
    "Foundation Models. 2025. arXiv:2510.20095. Photos and texts: Macaulay Library, Cornell Lab "
    "of Ornithology",
    homepage="https://github.com/Imageomics/biocap",
    layout=f"ROOT/{CAPTIONS.file}  blank, id, source_url, captions, md5\n"
    f"ROOT/{IMAGES}/ID.jpg  (or in ROOT, or in ROOT/{CAPTIONS.name}); `data get` fetches them",
    sources=(
        Source(
            url="https://raw.githubusercontent.com/Imageomics/biocap/"
            "6e589bef9503c8ff0f4f4580365cdd6367d50b38/data/retrieval_annotations/cornell_bird.csv",
            n_bytes=1_861_947,
            md5="8af899c83fc481432d08d6501933dc11",
        ),
    ),
)


table = CAPTIONS.table
check = CAPTIONS.check
make = CAPTIONS.make
listed_sources = CAPTIONS.listed_sources
