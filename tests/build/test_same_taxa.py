"""One table through `describe` and `shards make`: do both know its taxa by the same keys?"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from fieldmark.build.shards.samples import MemberReader, read_samples, sample_taxon
from fieldmark.cli import main
from fieldmark.taxa import Taxon
from kit.chat import running
from kit.mediawiki import CONTACT
from kit.mock_wiki import MockWiki, mock_pages

COLUMNS = ("kingdom", "family", "genus", "species", "subspecies", "scientific_name", "common_name")
# kingdom, family, genus, species, subspecies, scientific_name, common_name → name, "" = left out
ROWS = {
    "Animalia||Corvus|Corvus corax Linnaeus, 1758|||": "Corvus corax",
    "animalia||Parus|major|||": "Parus major",
    "ANIMALIA||PARUS|ATER|||": "Parus ater",
    "Animalia||Canis|lupus|familiaris||": "Canis lupus familiaris",
    "Animalia||Canis|Canis lupus|Canis lupus dingo||": "Canis lupus dingo",
    "Animalia||Alces|alces|shirasi||": "Alces alces shirasi",
    "Plantae||Mentha|x piperita|||": "Mentha × piperita",
    "Plantae||Mentha|×spicata|||": "Mentha × spicata",
    "Plantae||Mentha|X villosa|||": "Mentha × villosa",
    "Plantae||Phlomis|×||Phlomis × tunceliensis|": "Phlomis × tunceliensis",
    "Plantae|||||X Cuprocyparis leylandii|": "× Cuprocyparis leylandii",
    "Plantae||×Cuprocyparis|notabilis|||": "× Cuprocyparis notabilis",
    "Animalia||Pica|pica|||Magpie": "Pica pica",
    "Animalia|||||Canis lupus baileyi|": "Canis lupus baileyi",
    "Animalia|||||corvus corone|": "Corvus corone",
    "Animalia|||||CORVUS CORNIX|": "Corvus cornix",
    "Animalia|||||CORVUS ALBUS (Müller, 1776)|": "Corvus albus",
    "Animalia|||||Corvus_splendens|": "Corvus splendens",
    "Animalia||Corvus|Corvus_frugilegus|||": "Corvus frugilegus",
    "Animalia|||||Corvus (Corvus) rhipidurus Hartert|": "Corvus rhipidurus",
    "Animalia|||||Polygonia c-album (Linnaeus, 1758)|": "Polygonia c-album",
    "Animalia||Polygonia|c-aureum|||": "Polygonia c-aureum",
    "Plantae|||||Acer l-nigrum|": "Acer l-nigrum",
    "Animalia|||||Acrocephalus d'orientalis|": "Acrocephalus d'orientalis",
    "Animalia|||||Ægithalos caudatus|": "Ægithalos caudatus",
    "Bacteria|||||Candidatus Liberibacter asiaticus|": "Liberibacter asiaticus",
    "Plantae|||||Isoëtes lacustris L.|": "Isoëtes lacustris",
    "Plantae|||||Isoe\u0308tes setacea|": "Isoëtes setacea",
    "Plantae|||||Capsella bursa-pastoris|": "Capsella bursa-pastoris",
    "Plantae|||||Rosa canina L. subsp. vosagiaca|": "Rosa canina subsp. vosagiaca",
    "Plantae|||||Rosa canina var corymbifera|": "Rosa canina var. corymbifera",
    "Plantae|||||Taraxacum officinale agg.|": "Taraxacum officinale",
    "Animalia||Bolitoglossa|la|||": "Bolitoglossa la",
    "Animalia||Corvus|monedula||Corvus monedula Linnaeus, 1758|": "Corvus monedula",
    "Animalia||Corvus|||Corvus Linnaeus, 1758|": "Corvus",
    "Animalia|Corvidae|||||": "Corvidae",
    "Animalia|PARIDAE||||Paridae Vigors, 1825|": "Paridae",
    "N/A||Sitta|europaea|||": "Sitta europaea",
    "Animalia||Sitta|unknown|||": "Sitta",
    "Animalia|||||<i>Certhia familiaris</i>|": "Certhia familiaris",
    "Animalia|||||  Certhia\u00a0brachydactyla |": "Certhia brachydactyla",
    "Animalia|||||Certhia americana, Bonaparte 1838|": "Certhia americana",
    "Viruses|||||Betacoronavirus pandemicum|": "Betacoronavirus pandemicum",
    "Animalia|||||Corvus cf. ruficollis|": "",
    "Animalia||Corvus|sp.|||": "",
    "Animalia||Corvus|sp. 2|||": "",
    "Animalia||Corvus|BOLD:AAA1234|||": "",
    "Animalia|||||Corvus corax × corone|": "",
    "Plantae|||||Coprosma robusta x propinqua|": "",
    "Animalia||Anser|albifrons||Anser albifrons × rossii|": "",
    "Animalia|||||Gallus gallus × Numida meleagris|": "",
    "Animalia|Felidae||||Pantherinae|": "",
    "Viruses|||||Tobacco mosaic virus|": "",
    "Viruses|||||Severe acute respiratory syndrome coronavirus 2|": "",
    "Animalia|||||white backed plant hopper|": "",
}
HEADERS = {
    "plain": {},
    "Darwin Core": {
        "species": "specificEpithet",
        "subspecies": "infraspecificEpithet",
        "scientific_name": "scientificName",
        "common_name": "vernacularName",
    },
    "spelled": {"scientific_name": "Latin name", "genus": "Genus", "common_name": "English name"},
    "iNaturalist": {
        "kingdom": "taxon_kingdom_name",
        "family": "taxon_family_name",
        "genus": "taxon_genus_name",
        "species": "taxon_species_name",
        "subspecies": "taxon_subspecies_name",
    },
}


def write_table(folder: Path, header: dict[str, str]) -> Path:
    rows = [dict(zip(COLUMNS, line.split("|"), strict=True)) for line in ROWS]
    Image.new("RGB", (8, 8)).save(folder / "a.jpg")
    for place, row in enumerate(rows):
        (folder / f"{place}.jpg").write_bytes((folder / "a.jpg").read_bytes())
        row["image"], row["label"], row["id"] = f"{place}.jpg", "?", f"row-{place}"
    table = pl.DataFrame(rows).rename(header)
    table.write_csv(folder / "photos.csv")
    return folder / "photos.csv"


def taxa_in(folder: Path) -> dict[str, Taxon | None]:
    taxa: dict[str, Taxon | None] = {}
    for path in folder.glob("*.tar"):
        with MemberReader(path) as reader:
            taxa |= {one.key: sample_taxon(one, reader.read) for one in read_samples(path)}
    return taxa


@pytest.mark.parametrize("header", HEADERS)
def test_descriptions_and_shards_know_the_same_taxa(header: str, tmp_path: Path) -> None:
    table, out = write_table(tmp_path, HEADERS[header]), tmp_path / "shards"
    page = "{{Speciesbox|taxon=Pica pica}}\nThe magpie is black and white."
    with running(MockWiki(mock_pages({"Pica pica": page}))) as url:
        asked = ["--wiki", url, "--wiki-rpm", "1e6", "--contact", CONTACT, "--quiet"]
        assert main(["describe", str(table), "--out", str(tmp_path / "words"), *asked]) == 0
    assert main(["shards", "make", str(table), "--out", str(out), "--quiet"]) == 0
    rows = pl.read_parquet(tmp_path / "words" / "descriptions.parquet")
    described = set(rows["key"])
    taxa = taxa_in(out)
    assert len(taxa) == len(ROWS) > 50
    for place, (line, name) in enumerate(ROWS.items()):
        taxon = taxa[f"row-{place}"]
        assert taxon is not None, line
        if name:
            assert (taxon.name, taxon.key in described) == (name, True), line
        else:
            assert taxon.rank not in ("species", "") and taxon.at("species") == "", line
    assert len(described) == sum(1 for name in ROWS.values() if name)
    assert not [name for name in rows["kingdom"].unique() if name not in {"", *KINGDOMS}]


KINGDOMS = ("Animalia", "Plantae", "Bacteria", "Viruses")
