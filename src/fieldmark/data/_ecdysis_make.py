"""How does the synthetic world write an Ecdysis collection of its own?

Beetles, butterflies and spiders over three summers; a few photos are named to the genus only, a few
rows have no photo.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from fieldmark.data._made import species_pool, write_rows
from fieldmark.data._make import pick, take_photo
from fieldmark.data.ecdysis import FILE_COLUMNS, IMAGE_FOLDER, METADATA
from fieldmark.world import Scene, World

_FIRST_DAY = date(2021, 5, 3)


def write_ecdysis(root: Path, world: World, size: int) -> None:
    """The table and about `size` photos, at least eight a species."""
    pool = species_pool(world, "ecdysis", 5, "beetle", "butterfly", "spider")
    pool = pool[: max(4, min(len(pool), size // 8))]
    rows: list[list[object]] = []
    for number in range(max(size, 8 * len(pool))):
        turn, place = divmod(number, len(pool))
        scene = Scene(species=pool[place], individual=turn, burst=number)
        row = _row(world, scene, number, turn)
        if row["image_thumbnail_large"]:
            name = str(row["image_thumbnail_large"]).rpartition("/")[2]
            take_photo(world, scene, root / IMAGE_FOLDER / name)
        rows.append([row.get(each) for each in FILE_COLUMNS])
    order = sorted(range(len(rows)), key=lambda each: pick(1 << 40, world.seed, "ecdysis", each))
    write_rows(root / METADATA, FILE_COLUMNS, [rows[each] for each in order])


def _row(world: World, scene: Scene, number: int, turn: int) -> dict[str, object]:
    species = world.species[scene.species]
    ranks = species.ranks
    day = _FIRST_DAY + timedelta(days=29 * turn + pick(20, world.seed, "ecdysis", "day", number))
    name = f"specimen_{number:05}.JPG"
    has_photo = number % 25 != 17
    is_named = number % 30 != 22
    return {
        "id": 1000 + number,
        "specimen_id": 5000 + number,
        "image_thumbnail_large": f"specimen_images/{name}" if has_photo else None,
        "archival_identifier": f"E{number:05}",
        "archival_stored": "True",
        "visit_date": day.isoformat(),
        "country": "United States of America",
        "state_region": "South Dakota",
        "county_region": "Deuel",
        "us_state_county_fips": 46039,
        "gbif_class": ranks["class"],
        "gbif_order": ranks["order"],
        "gbif_family": ranks["family"],
        "gbif_genus": ranks["genus"],
        "gbif_species": species.scientific_name if is_named else None,
        "reviewed": "True",
        "public_url": f"https://example.org/specimen_images/{name}" if has_photo else None,
    }
