"""Are authors, hybrid signs, ranks and underscores of names read as what they are?"""

import pytest

from fieldmark.taxa import parse_name
from fieldmark.taxa.name import is_formula

NAMES = {
    "Amanita excelsa Gonn. & Rabenh.": "Amanita excelsa",
    "Amanita muscaria (L.) Lam., 1783": "Amanita muscaria",
    "Agaricus impudicus (Rea) Pilát": "Agaricus impudicus",
    "Amanita phalloides (Vaill. ex Fr.) Link": "Amanita phalloides",
    "Mycena pura de Vries": "Mycena pura",
    "Lamium_galeobdolon": "Lamium galeobdolon",
    "Capsella bursa-pastoris (L.) Medik.": "Capsella bursa-pastoris",
    "Mentha x piperita L.": "Mentha x piperita",
    "Mentha × piperita L.": "Mentha × piperita",
    "Mentha ×piperita": "Mentha × piperita",
    "× Cuprocyparis leylandii (A.B.Jacks.) Farjon": "× Cuprocyparis leylandii",
    "Amanita muscaria var. formosa (Pers.) Bertill.": "Amanita muscaria var. formosa",
    "Rosa canina L. subsp. vosagiaca": "Rosa canina subsp. vosagiaca",
    "Rosa canina L. f. inermis": "Rosa canina f. inermis",
    "Impatiens balfourii Hook. f. ex Lindl.": "Impatiens balfourii",
    "Equus zebra hartmannae": "Equus zebra hartmannae",
    "Amanita cf. muscaria": "Amanita muscaria",
    "Dasineura sp": "Dasineura",
    "Dasineura sp. nov.": "Dasineura",
    "Russula": "Russula",
    "Russula Pers.": "Russula",
    "Polygonia c-album (L.)": "Polygonia c-album",
    "Acer l-nigrum": "Acer l-nigrum",
    "Acrocephalus d'orientalis": "Acrocephalus d'orientalis",
    "Corvus (Corvus) corax Linnaeus, 1758": "Corvus corax",
    "X Cuprocyparis leylandii": "x Cuprocyparis leylandii",
    "Candidatus Liberibacter asiaticus": "Liberibacter asiaticus",
    "Ægithalos caudatus": "Ægithalos caudatus",
    "Corvus corax, Linnaeus 1758": "Corvus corax",
    "Corvus corax,Common raven": "Corvus corax",
    "Rosa canina subsp vosagiaca": "Rosa canina subsp. vosagiaca",
    "Taraxacum officinale agg": "Taraxacum officinale",
    "Mentha × piperita nothovar. citrata": "Mentha × piperita nothovar. citrata",
}


@pytest.mark.parametrize("text", NAMES)
def test_the_name_without_its_author(text: str):
    assert str(parse_name(text)) == NAMES[text]


def test_the_parts():
    name = parse_name("Mentha x piperita var. citrata (Ehrh.) Briq.")
    assert name is not None
    assert (name.genus, name.species, name.below) == ("Mentha", "x piperita", "var. citrata")


SENTENCE = "Severe acute respiratory syndrome coronavirus 2"


@pytest.mark.parametrize(
    "text", ["", "  ", "x", "yellow cutworm", "1355868", "L. virosa", "Olm, 1871", SENTENCE]
)
def test_what_is_no_name(text: str):
    assert parse_name(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Corvus corax × corone",
        "Coprosma robusta x propinqua",
        "Anas platyrhynchos X A. rubripes",
        "Gallus gallus × Numida meleagris",
        "Mentha aquatica L. × M. spicata L.",
        "Alisterus × Polytelis",
        "Motacilla flava flava×thunbergi",
    ],
)
def test_a_formula_names_two_taxa(text: str):
    assert is_formula(text) and parse_name(text) is None


@pytest.mark.parametrize("text", ["Mentha × piperita L.", "× Cuprocyparis leylandii", "Aus bus"])
def test_a_hybrid_with_a_name_is_no_formula(text: str):
    assert not is_formula(text)
