"""Lists of taxa: columns, names that are none, one organism in two systems or two of one name."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from fieldmark.build.taxon_list import read_taxa
from fieldmark.errors import DataError
from fieldmark.taxa import RANKS, Taxon, find_homonyms, same_organism, taxon_columns
from fieldmark.taxa.record import (
    BETWEEN,
    CODE,
    EMPTY,
    FORMULA,
    NO_NAME,
    UNNAMED,
    UNSURE,
    normal_taxon,
)

RAVEN = ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus", "corax")
CATALOG = """\
treeoflife_id,kingdom,phylum,class,order,family,genus,species,common
1,Animalia,Chordata,Aves,Passeriformes,Corvidae,Corvus,corax,
2,Animalia,Chordata,Aves,Passeriformes,Corvidae,Corvus,corax,Common Raven
3,Animalia,Chordata,Aves,Passeriformes,Corvidae,Corvus,corax,Common Raven
4,Animalia,Chordata,Aves,Passeriformes,Corvidae,Corvus,sp.,
5,Plantae,,,,,Adesmia,montana,
6,Animalia,,,,,Adesmia,montana,
7,Animalia,Arthropoda,Insecta,,,,,
8,,,,,,,,
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_catalog(tmp_path: Path) -> None:
    """Unique by all ranks; nothing is dropped in silence."""
    taxa = read_taxa(write(tmp_path / "catalog.csv", CATALOG))
    assert [taxon.name for taxon in taxa.taxa] == [
        *("Corvus corax", "Adesmia montana", "Adesmia montana", "Insecta")
    ]
    assert taxa.taxa[0] == Taxon(RAVEN, "Common Raven")
    assert taxa.n_rows == 8 and taxa.skipped == {UNNAMED: 1, EMPTY: 1}
    assert taxa.homonyms == {taxon.key: "hemihomonym" for taxon in taxa.taxa[1:3]}


def test_the_same_from_any_file(tmp_path: Path) -> None:
    lines = [line.split(",") for line in CATALOG.splitlines()]
    table = pl.DataFrame(lines[1:], schema=[name.upper() for name in lines[0]], orient="row")
    table.with_columns(pl.lit(b"x").alias("image")).write_parquet(tmp_path / "catalog.parquet")
    write(tmp_path / "catalog.tsv", CATALOG.replace(",", "\t"))
    wanted = read_taxa(write(tmp_path / "catalog.csv", CATALOG))
    assert read_taxa(tmp_path / "catalog.parquet") == wanted
    assert read_taxa(tmp_path / "catalog.tsv") == wanted


@pytest.mark.parametrize(
    "text", ["Corvus corax\nPica pica L.\n", "name\nCorvus corax\nPica pica\n"]
)
def test_one_column_of_names(text: str, tmp_path: Path) -> None:
    """With or without a header."""
    taxa = read_taxa(write(tmp_path / "names.txt", text))
    assert [taxon.name for taxon in taxa.taxa] == ["Corvus corax", "Pica pica"]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"genus": "Corvus", "species": "Corvus corax Linnaeus, 1758"}, "Corvus corax"),
        ({"genus": "corvus", "species": "CORAX"}, "Corvus corax"),
        ({"scientific_name": "CORVUS_CORAX"}, "Corvus corax"),
        ({"species": "Mentha x piperita"}, "Mentha × piperita"),
        ({"genus": "Mentha", "species": "×piperita"}, "Mentha × piperita"),
        ({"genus": "Polygonia", "species": "c-album"}, "Polygonia c-album"),
        ({"genus": "Bolitoglossa", "species": "la"}, "Bolitoglossa la"),
        ({"genus": "Canis", "species": "lupus", "below": "familiaris"}, "Canis lupus familiaris"),
        ({"genus": None, "species": "corax", "scientific_name": "Corvus corax"}, "Corvus corax"),
        ({"genus": "Corvus", "species": None}, "Corvus"),
        ({"genus": None, "family": "Corvidae", "scientific_name": "Corvidae"}, "Corvidae"),
        ({"scientific_name": "Isoëtes lacustris L."}, "Isoëtes lacustris"),
        ({"genus": "Alces", "species": "alces shirasi"}, "Alces alces shirasi"),
        ({"genus": "ALCES", "species": "ALCES ALCES"}, "Alces alces"),
        (
            {"genus": "Phlomis", "species": "×", "scientific_name": "Phlomis × tunceliensis"},
            "Phlomis × tunceliensis",
        ),
        ({"genus": "Corvus", "scientific_name": "Corvus Linnaeus, 1758"}, "Corvus"),
        (
            {"genus": "", "family": "CORVIDAE", "scientific_name": "Corvidae Leach, 1820"},
            "Corvidae",
        ),
        (
            {"genus": "Canis", "species": "lupus", "scientific_name": "Canis lupus familiaris"},
            "Canis lupus familiaris",
        ),
        ({"species": "Canis lupus", "below": "Canis lupus familiaris"}, "Canis lupus familiaris"),
        ({"scientific_name": "<i>Corvus corax</i>"}, "Corvus corax"),
        ({"scientific_name": "Betacoronavirus pandemicum"}, "Betacoronavirus pandemicum"),
    ],
)
def test_names_as_they_are_written(row: dict[str, str | None], name: str) -> None:
    taxon = normal_taxon(row)
    assert isinstance(taxon, Taxon) and taxon.name == name


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"genus": "Corvus", "species": "sp."}, UNNAMED),
        ({"genus": "Corvus", "species": "sp-a"}, UNNAMED),
        ({"scientific_name": "Corvus sp. 3"}, UNNAMED),
        ({"genus": "Corvus", "species": "cf. corax"}, UNSURE),
        ({"genus": "Corvus", "species": "Corvus aff. corax"}, UNSURE),
        ({"genus": "Corvus", "species": "BOLD:AAA1234"}, CODE),
        ({"genus": "Corvus", "species": "sp27"}, CODE),
        ({"genus": "", "species": "nan", "kingdom": "unknown"}, EMPTY),
        ({"scientific_name": "Tobacco mosaic virus"}, NO_NAME),
        ({"scientific_name": "Alisterus × Polytelis"}, FORMULA),
        ({"scientific_name": "Severe acute respiratory syndrome coronavirus 2"}, NO_NAME),
        (
            {
                "genus": "Anser",
                "species": "albifrons",
                "scientific_name": "Anser albifrons × rossii",
            },
            FORMULA,
        ),
        ({"genus": "Corvus", "species": "corax?"}, UNSURE),
        ({"genus": None, "family": "Felidae", "scientific_name": "Pantherinae"}, BETWEEN),
        ({"scientific_name": "Anopheles gambiae complex"}, BETWEEN),
    ],
)
def test_what_names_no_taxon(row: dict[str, str | None], reason: str) -> None:
    assert normal_taxon(row) == reason


def test_ranks_are_written_in_one_way(tmp_path: Path) -> None:
    text = (
        "kingdom,genus,species\nANIMALIA,Corvus,corax\nanimalia,CORVUS,Corax\nAnimalia,Corvus,corax"
    )
    (taxon,) = read_taxa(write(tmp_path / "taxa.csv", text)).taxa
    assert taxon.at("kingdom") == "Animalia"


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (
            ["dwc:genus", "specificEpithet", "infraspecificEpithet", "scientificName"],
            ["genus", "species", "below", "scientific_name"],
        ),
        (["taxon_genus_name", "taxon_species_name"], ["genus", "species"]),
        (["Latin name", "English name"], ["scientific_name", "common_name"]),
        (["canonicalName", "binomial", "sci_name"], ["scientific_name"]),
        (["name", "genus"], ["genus"]),
        (["image", "class"], []),
        (["order", "class"], ["class", "order"]),
    ],
)
def test_columns(names: list[str], wanted: list[str]) -> None:
    """`name` counts alone, `class` beside another rank."""
    assert sorted(taxon_columns(names)) == sorted(wanted)


def test_an_empty_column_leaves_it_to_the_next(tmp_path: Path) -> None:
    text = "species,specificEpithet,genus,scientificName,canonicalName\n"
    text += "NA,corax,Corvus,,\n,,,unknown,Pica pica\n"
    taxa = read_taxa(write(tmp_path / "taxa.csv", text)).taxa
    assert [taxon.name for taxon in taxa] == ["Corvus corax", "Pica pica"]


# --- homonyms ---


def changed(**ranks: str) -> Taxon:
    values = dict(zip(RANKS, RAVEN, strict=True))
    return Taxon(tuple({**values, **ranks}.values()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (changed(**{"class": "Dinosauria"}), True),
        (changed(kingdom="Metazoa", order="Corviformes"), True),
        (changed(order="", family=""), True),
        (changed(family="Monarchidae"), True),
        (changed(family="Monarchidae", order="Coraciiformes"), False),
        (
            changed(family="Aidae", order="Aales", phylum="Arthropoda", **{"class": "Insecta"}),
            False,
        ),
        (changed(kingdom="Plantae", phylum="", order="", family="", **{"class": ""}), False),
        (changed(kingdom="Protista", phylum="", order="", family="", **{"class": ""}), True),
    ],
)
def test_one_organism_or_two(other: Taxon, is_same: bool) -> None:
    assert same_organism(Taxon(RAVEN), other) is is_same
    assert same_organism(other, Taxon(RAVEN)) is is_same
    sort = "hemihomonym" if other.at("kingdom") == "Plantae" else "homonym"
    wanted = {} if is_same else {Taxon(RAVEN).key: sort, other.key: sort}
    assert find_homonyms([Taxon(RAVEN), other]) == wanted


def test_systems_names_for_one_group() -> None:
    fish = changed(phylum="Chordata", order="", family="", **{"class": "Teleostei"})
    assert same_organism(fish, changed(order="", family="", **{"class": "Actinopterygii"}))
    plant = changed(kingdom="Viridiplantae", family="Compositae", order="")
    assert same_organism(plant, changed(kingdom="Plantae", family="Asteraceae", order=""))


# --- files as they come ---

AUTHORS = "Corvus corax Linnaeus, 1758\nPica pica (Linnaeus, 1758)\n"
LISTS = {
    "authors": ("scientific_name\n" + AUTHORS).encode(),
    "no header": AUTHORS.encode(),
    "quoted": b'"Scientific name"\n"Corvus corax L., 1758"\n"Pica pica"\n',
    "mark": b"\xef\xbb\xbf" + ("Latin name\n" + AUTHORS).encode(),
    "mark, no header": b"\xef\xbb\xbf" + AUTHORS.encode(),
    "utf-16": ("Taxon\r\n" + AUTHORS).encode("utf-16"),
    "utf-16, table": "genus\tspecies\r\nCorvus\tcorax\r\nPica\tpica\r\n".encode("utf-16"),
    "old Mac": ("name\n" + AUTHORS).replace("\n", "\r").encode(),
    "Windows": ("name\n" + AUTHORS).replace("\n", "\r\n").encode(),
    "cp1252": "name;author\nCorvus corax;Müller\nPica pica;Åke\n".encode("cp1252"),
    "comment": ("# from a portal, 2026\n\nScientific name\n" + AUTHORS).encode(),
    "comment, table": b"# a, b\ngenus,species\nCorvus,corax\nPica,pica\n",
    "comment, mark": b"\xef\xbb\xbf# a, b\ngenus,species\nCorvus,corax\nPica,pica\n",
    "semicolons": b"species;author\nCorvus corax;Linnaeus, 1758\nPica pica;L., 1758, x, y\n",
    "short rows": b"scientific_name,author,year\nCorvus corax\nPica pica,L.\n",
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("ending", ["csv", "txt"])
def test_lists_as_programs_write_them(kind: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"names.{ending}"
    path.write_bytes(LISTS[kind])
    taxa = read_taxa(path)
    assert [taxon.name for taxon in taxa.taxa] == ["Corvus corax", "Pica pica"]
    assert taxa.skipped == {}


def test_lists_of_genera_lose_none(tmp_path: Path) -> None:
    taxa = read_taxa(write(tmp_path / "genera.txt", "Corvus\nPica\nParus\n"))
    assert [taxon.name for taxon in taxa.taxa] == ["Corvus", "Pica", "Parus"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("n.xlsx", b"PK\x03\x04rest", "is a spreadsheet or zip file: save the table as CSV"),
        ("n.csv", b"PK\x03\x04rest", "is a spreadsheet or zip file"),
        ("n.xls", b"\xd0\xcf\x11\xe0\xa1", "is an Excel file: save the table as CSV"),
        ("n.csv.gz", b"\x1f\x8b\x08", "is compressed: unpack it first"),
        ("n.csv", b"PAR1....PAR1", "give it the ending .parquet"),
        ("n.csv", b"name\nCorvus\0corax\n", "is not text"),
        ("n.csv", "name\nPica".encode("utf-16")[:-1], "is cut off"),
        ("n.csv", b"", "is empty: expected a header line"),
    ],
)
def test_files_that_are_no_text(name: str, data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=words) as caught:
        read_taxa(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_the_row_that_has_too_many_fields(tmp_path: Path) -> None:
    rows = ["# made by hand", "genus,species,author", *["Corvus,corax,L."] * 3000]
    rows[1999:2002] = ["Corvus,corax,L., 1758", "Pica,pica,L.", "Pica,pica,L., 1758"]
    with pytest.raises(DataError) as caught:
        read_taxa(write(tmp_path / "taxa.csv", "\n".join(rows)))
    rows[1999:2002] = ['Corvus,corax,"L., 1758"'] * 3
    assert read_taxa(write(tmp_path / "quoted.csv", "\n".join(rows))).n_rows == 3000
    wanted = "taxa.csv:2000  4 fields where the header has 3 (rows like this: 2): put values"
    assert wanted in str(caught.value)


# --- files that cannot be used ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("photo,label\na.jpg,raven\n", "photo, label: expected kingdom .* latinname"),
        ("genus,species\n", "it has no rows"),
        ("genus,species\nCorvus,sp.\n", "1 × species not named"),
    ],
)
def test_tables_without_taxa(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_taxa(write(tmp_path / "taxa.csv", text))
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_taxa(tmp_path / "no.csv")
    with pytest.raises(DataError, match="cannot be read"):
        read_taxa(write(tmp_path / "no.parquet", "text"))
