"""For tests of captions: shards of small photos, and a model that describes what it is told."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kit.chat import make_jpegs

SPECIES = (
    ("Corvus", "corax", "Common Raven"),
    ("Sturnus", "vulgaris", "European Starling"),
    ("Erithacus", "rubecula", "European Robin"),
)
RANKS = {"kingdom": "Animalia", "phylum": "Chordata", "class": "Aves"}


def taxon_fields(number: int) -> dict[str, str]:
    genus, species, common = SPECIES[number % len(SPECIES)]
    return {**RANKS, "genus": genus, "species": species, "common_name": common}


def make_samples(n: int, start: int = 0) -> list[tuple[str, dict[str, bytes]]]:
    """Key and members of so many samples; no two photos are alike."""
    photos = make_jpegs(start + n)[start:]
    return [
        (f"{number:06}", {"jpg": photo, "json": json.dumps(taxon_fields(number)).encode()})
        for number, photo in enumerate(photos, start)
    ]


def write_shard(path: Path, samples: Iterable[tuple[str, Mapping[str, bytes]]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for key, members in samples:
            for extension, data in members.items():
                info = tarfile.TarInfo(f"{key}.{extension}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return path


def make_shards(folder: Path, n_shards: int, n: int) -> list[Path]:
    return [
        write_shard(folder / f"s-{number:03}.tar", make_samples(n, number * n))
        for number in range(n_shards)
    ]


def species_of(body: Mapping[str, Any]) -> str:
    """What the prompt says; an answer that was asked for again is about the same species."""
    return re.findall(r"Species: (.+?)(?:\\n|\")", json.dumps(body))[-1]


def describe(text: str, body: Mapping[str, Any]) -> str:
    """Answers of a model that does as it is told."""
    return f"{species_of(body)} with glossy dark plumage and a stout pointed bill on bare ground."


def stubborn(text: str, body: Mapping[str, Any]) -> str:
    """Starlings are described well at the second time of asking, robins never."""
    name = species_of(body)
    if name == "Sturnus vulgaris" and "cannot be used" not in text:
        return "This image shows a bird."
    if name == "Erithacus rubecula":
        return "This bird is Erithacus rubecula. It is probably endemic."
    return describe(text, body)
