"""Do all forms of Rare Species give the same labels, and every row they hold?"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from fieldmark.data import ImageRef, load_image
from fieldmark.data.sets import rarespecies
from kit.dataset import finding_lines, jpeg, table_error

findings = partial(finding_lines, rarespecies)
refusal = partial(table_error, rarespecies)

POSSUM = ("Animalia", "Chordata", "Mammalia", "Diprotodontia", "Petauridae", "Gymnobelideus",
          "leadbeateri")  # fmt: skip
LABEL = "Animalia-Chordata-Mammalia-Diprotodontia-Petauridae-Gymnobelideus-leadbeateri"
BIOCLIP = ",kingdom,phylum,cls,order,family,genus,species,common_name,filepath,class\n"


def hub_row(number: int, ranks: tuple[str, ...] = POSSUM, common: str = "possum") -> dict:
    return {
        "image": {"bytes": jpeg(), "path": f"{number}.jpg"}, "rarespecies_id": f"id{number}",
        "eol_content_id": number, "eol_page_id": 1,
        **dict(zip(rarespecies.RANKS, ranks, strict=True)),
        "sciName": " ".join(ranks[-2:]), "common": common,
    }  # fmt: skip


def write(root: Path, rows: list[dict], name: str = "data/train-00000-of-00001.parquet") -> Path:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows).write_parquet(root / name)
    return root


@pytest.mark.parametrize(
    "place", ["data/train-00000-of-00001.parquet", "default/train/0000.parquet"]
)
def test_the_table(tmp_path: Path, place: str):
    rows = rarespecies.table(write(tmp_path, [hub_row(1), hub_row(2)], place))
    assert rows.columns[6:] == [
        *rarespecies.RANKS, "scientific_name", "common_name", "rarespecies_id", "eol_content_id",
        "eol_page_id",
    ]  # fmt: skip
    assert rows.row(1) == (
        "id2", f"{place}::1", None, None, LABEL, None, *POSSUM, "Gymnobelideus leadbeateri",
        "possum", "id2", "2", "1",
    )  # fmt: skip
    assert load_image(tmp_path, ImageRef(rows["image"][1])).size == (20, 20)


def test_the_table_of_bioclip(tmp_path: Path):
    """Its `class` is the whole name; the rank is `cls`."""
    line = f"0,{','.join(POSSUM)},possum,images/a.jpg,Animalia Chordata Mammalia …\n"
    (tmp_path / "metadata.csv").write_text(BIOCLIP + line)
    rows = rarespecies.table(tmp_path)
    assert rows.row(0) == (
        "images/a.jpg", "images/a.jpg", None, None, LABEL, None, *POSSUM,
        "Gymnobelideus leadbeateri", "possum",
    )  # fmt: skip


def test_the_metadata_of_the_hub(tmp_path: Path):
    header = f"rarespecies_id,{','.join(rarespecies.RANKS)},sciName,common,file_name\n"
    line = f"id1,{','.join(POSSUM)},Gymnobelideus leadbeateri,possum,dataset/a.jpg\n"
    (tmp_path / "metadata.csv").write_text(header + line)
    rows = rarespecies.table(tmp_path)
    assert rows.select("id", "image", "label", "class", "common_name").row(0) == (
        "id1", "dataset/a.jpg", LABEL, "Mammalia", "possum",
    )  # fmt: skip


@pytest.mark.parametrize("n", [3, 11])
def test_defect_rarespecies_rows_are_counted_not_assumed(tmp_path: Path, n: int):
    """11,984 rows were written down where 11,983 exist."""
    half = n // 2
    write(tmp_path, [hub_row(number) for number in range(half)], "default/train/0000.parquet")
    write(tmp_path, [hub_row(number) for number in range(half, n)], "default/train/0001.parquet")
    assert len(rarespecies.table(tmp_path)) == n
    assert findings(tmp_path)[0] == (
        f"note: not the published size: images {n} of 11,983, classes 1 of 400."
    )


def test_defect_rarespecies_labels_do_not_depend_on_the_order_of_files(tmp_path: Path):
    other = (*POSSUM[:-1], "alter")
    one, two = tmp_path / "one", tmp_path / "two"
    write(one, [hub_row(1)], "default/train/0000.parquet")
    write(one, [hub_row(2, other)], "default/train/0001.parquet")
    write(two, [hub_row(2, other), hub_row(1)], "default/train/0000.parquet")
    labels = [dict(rarespecies.table(one).select("id", "label").rows()) for one in (one, two)]
    assert labels[0] == labels[1]


def test_common_names_of_two_species_and_empty_ranks(tmp_path: Path):
    rows = [hub_row(n, (*POSSUM[:-1], f"s{n % 2}")) for n in range(4)]
    rows += [hub_row(n, ("Animalia", "", *POSSUM[2:]), "other") for n in (4, 5)]
    write(tmp_path, rows)
    assert rarespecies.table(tmp_path)["label"].n_unique() == 3
    assert findings(tmp_path)[1:] == [
        f"warning: 2 images with an empty rank: '{LABEL.replace('-Chordata-', '--')}'.",
        "note: 1 common name of several classes: 'possum'.",
    ]


def test_broken_inputs(tmp_path: Path):
    assert refusal(tmp_path) == (
        "ROOT  contains neither train parquet files nor metadata.csv: expected one of them. "
        "`fieldmark datasets rarespecies` shows layout and sources."
    )
    path = tmp_path / "metadata.csv"
    path.write_text("a,b\n1,2\n")
    assert refusal(tmp_path) == (
        "ROOT/metadata.csv  lacks the column 'filepath' (or 'file_name'): it has a, b."
    )
    path.write_text("kingdom,filepath\nAnimalia,a.jpg\n")
    assert refusal(tmp_path) == (
        "ROOT/metadata.csv  lacks the columns 'phylum', 'class', 'order' and 4 more: expected the "
        "seven ranks and common (or common_name)."
    )
    path.write_text(f"{BIOCLIP}0,{','.join(POSSUM)},possum,a.jpg,x\n1,{','.join(POSSUM)},p,,x\n")
    assert refusal(tmp_path) == (
        "ROOT/metadata.csv:3  filepath is empty: expected the path of an image."
    )
    path.write_text(
        f"{BIOCLIP}0,{','.join(POSSUM)},possum,a.jpg,x\n1,{','.join(POSSUM)},p,a.jpg,x\n"
    )
    assert refusal(tmp_path) == (
        "ROOT/metadata.csv  1 ids are on more than one row ('a.jpg'): ids must be unique."
    )


def test_a_missing_image_is_named(tmp_path: Path):
    Image.new("RGB", (32, 24)).save(tmp_path / "a.jpg")
    other = ",".join((*POSSUM[:-1], "alter"))
    lines = [
        f"{n},{ranks},possum,{n}.jpg,x\n" for n, ranks in (("a", ",".join(POSSUM)), ("b", other))
    ]
    (tmp_path / "metadata.csv").write_text(BIOCLIP + "".join(lines))
    assert findings(tmp_path)[-1] == "error: 1 of 2 images are missing: 'b.jpg'."


def test_the_made_layout(made_copy: Callable[[str], Path]):
    root = made_copy("rarespecies")
    assert sorted(path.name for path in (root / "default" / "train").iterdir()) == [
        "0000.parquet", "0001.parquet",
    ]  # fmt: skip
    schema = pl.read_parquet_schema(root / "default" / "train" / "0000.parquet")
    assert list(schema) == [
        "image", "rarespecies_id", "eol_content_id", "eol_page_id", *rarespecies.RANKS, "sciName",
        "common", "file_name",
    ]  # fmt: skip
    assert rarespecies.table(root).group_by("label").len()["len"].min() >= 6
