"""Lists of taxa: columns, names that are none, one organism in two systems or two of one name."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from fieldmark.build.taxa import (
    BETWEEN,
    CODE,
    EMPTY,
    FORMULA,
    NO_NAME,
    UNNAMED,
    UNSURE,
    Taxon,
    find_homonyms,
    normal_taxon,
    read_taxa,
    same_organism,
)
from fieldmark.errors import DataError
from fieldmark.world import RANKS

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
        ({"genus": None, "family": "Felidae", "scientific_name": "Pantherinae"}, BETWEEN),
    ],
)
def test_what_names_no_taxon(row: dict[str, str | None], reason: str) -> None:
    assert normal_taxon(row) == reason


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


# --- files that cannot be used ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("photo,label\na.jpg,raven\n", "photo, label: expected kingdom"),
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
