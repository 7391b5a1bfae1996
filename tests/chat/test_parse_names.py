"""Open answers and the species they name; how far apart species are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.chat.parse.answer import parse_text
from fieldmark.chat.parse.names import (
    NamedTaxon,
    edits,
    index_taxa,
    match_name,
    most_edits,
    nearest,
    spellings,
)
from fieldmark.chat.prompt.question import Relatives, taxon_distance

CAT = "Animalia Chordata Mammalia Carnivora Felidae Panthera"
DOG = "Animalia Chordata Mammalia Carnivora Canidae Canis"
TIT = "Animalia Chordata Aves Passeriformes Paridae Cyanistes"
LARK = "Animalia Chordata Aves Passeriformes Icteridae Sturnella"
OAK = "Plantae Tracheophyta Magnoliopsida Fagales Fagaceae Quercus"


def _taxon(
    label: str, above: str, epithet: str, *common: str, also: tuple[str, ...] = ()
) -> NamedTaxon:
    lineage = (*above.split(), epithet)
    return NamedTaxon(label, f"{lineage[-2]} {epithet}", common, also, lineage)


TAXA = (
    _taxon("lion", CAT, "leo", "African lion"),
    _taxon("tiger", CAT, "tigris", "tiger"),
    _taxon("wolf", DOG, "lupus", "grey wolf", "gray wolf"),
    _taxon("blue tit", TIT, "caeruleus", "blue tit", also=("Parus caeruleus",)),
    _taxon("east", LARK, "magna", "eastern meadowlark"),
    _taxon("west", LARK, "neglecta", "western meadowlark"),
    _taxon("oak", OAK, "robur", "oak"),
)
NAMES = index_taxa(TAXA)
LINEAGES = {each.label: each.lineage for each in TAXA}


@pytest.mark.parametrize(
    ("phrase", "label", "how"),
    [
        ("Panthera leo", "lion", "scientific name"),
        ("panthera_LEO", "lion", "scientific name"),
        ("Panthera leo (Linnaeus, 1758)", "lion", "scientific name"),
        ("Panthera leo L.", "lion", "scientific name"),
        ("Panthera leo persica", "lion", "scientific name"),
        ("P. tigris", "tiger", "abbreviated"),
        ("Gray Wolf", "wolf", "common name"),
        ("Parus caeruleus", "blue tit", "synonym"),
        ("Blue tit (Cyanistes caeruleus)", "blue tit", "common name"),
        ("Pantehra leo", "lion", "misspelt (1 edit)"),
        ("Cyanistes caerulaeus", "blue tit", "misspelt (1 edit)"),
        ("Cyanistes ceruleus", "blue tit", "misspelt (1 edit)"),
        ("eastern medowlark", "east", "misspelt (1 edit)"),
    ],
)
def test_names_are_found(phrase: str, label: str, how: str) -> None:
    found = match_name(phrase, NAMES)
    assert (found.label, found.how) == (label, how)


@pytest.mark.parametrize(
    ("phrase", "why"),
    [
        ("Panthera", "genus only"),
        ("Panthera sp.", "genus only"),
        ("a species of Panthera", "genus only"),
        ("Felidae", "family only"),
        ("Aves", "class only"),
        ("weastern meadowlark", "ambiguous"),  # one edit from western, two from eastern
        ("tigress", "no name is near"),  # two edits of a short word
        ("Panthera leo or Panthera tigris", "ambiguous"),
        ("dragon", "no name is near"),
        ("", "no name is near"),
        ("leo", "no name is near"),
    ],
)
def test_what_is_no_species_is_said_to_be_none(phrase: str, why: str) -> None:
    found = match_name(phrase, NAMES)
    assert (found.label, found.why) == (None, why)


def test_names_of_several_species_belong_to_none() -> None:
    both = ("golden sparrow",)
    names = index_taxa(
        [NamedTaxon("a", "Passer luteus", both), NamedTaxon("b", "Passer euchlorus", both)]
    )
    assert match_name("golden sparrow", names).why == "ambiguous"
    assert match_name("golden sparow", names).why == "ambiguous"
    assert match_name("Passer luteus", names).label == "a"


def test_a_sentence_is_never_matched_by_likeness() -> None:
    assert (
        parse_text("The tail is long and the wolff is grey, I guess.", NAMES, "open").label is None
    )
    assert parse_text("It is most likely a grey wolf.", NAMES, "open").label == "wolf"
    assert parse_text("Answer: gray wolff", NAMES, "open").label == "wolf"
    assert parse_text("I think it is a kind of Panthera.", NAMES, "open").why == "genus only"


words = st.text(alphabet="abcd", max_size=7)


@given(words, words)
def test_edits_against_brute_force(one: str, two: str) -> None:
    def slow(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        best = min(
            slow(a[:-1], b) + 1, slow(a, b[:-1]) + 1, slow(a[:-1], b[:-1]) + (a[-1] != b[-1])
        )
        if len(a) > 1 and len(b) > 1 and a[-1] == b[-2] and a[-2] == b[-1]:
            best = min(best, slow(a[:-2], b[:-2]) + 1)
        return best

    if len(one) + len(two) <= 8:
        assert edits(one, two, 20) == slow(one, two)
    for most in range(4):
        assert edits(one, two, most) == min(edits(one, two, 20), most + 1)


LATIN = st.text(alphabet="abcdefgilmnoprstu", min_size=6, max_size=18)


@given(st.lists(LATIN, min_size=1, max_size=12, unique=True), LATIN)
def test_nearest_against_comparing_all(names: list[str], text: str) -> None:
    found = nearest(text, spellings({name: [name] for name in names}))
    order = sorted((edits(text, name, 99), name) for name in names)
    is_near = order[0][0] <= most_edits(text)
    is_clear = len(order) == 1 or order[1][0] - order[0][0] >= 2
    assert found.label == (order[0][1] if is_near and is_clear else None)
    assert found.is_tie == (is_near and not is_clear)


def test_distances_in_the_tree() -> None:
    far = [
        taxon_distance(LINEAGES["lion"], LINEAGES[each])
        for each in ("lion", "tiger", "wolf", "blue tit", "oak")
    ]
    assert far == [0, 1, 3, 5, 7]
    assert (
        taxon_distance(
            ("Animalia", None, "Felidae", "leo"), ("Animalia", "Chordata", "Felidae", "x")
        )
        == 1
    )
    # the same genus name in two kingdoms is two genera; the same epithet is no kinship
    assert taxon_distance(("Animalia", "Morus", "alba"), ("Plantae", "Morus", "alba")) == 3


@given(st.permutations(list(LINEAGES)), st.integers(0, 5))
def test_nearest_relatives_come_first_in_any_order(order: list[str], seed: int) -> None:
    relatives = Relatives({label: LINEAGES[label] for label in order})
    assert relatives.nearest("lion", 2, seed)[0] == "tiger"
    assert set(relatives.nearest("lion", 2, seed)) == {"tiger", "wolf"}
    three = relatives.nearest("lion", 3, seed)
    assert three[:2] == ["tiger", "wolf"] and three[2] in ("blue tit", "east", "west")
    assert three == Relatives(LINEAGES).nearest("lion", 3, seed)
    assert len(relatives.nearest("lion", 99, seed)) == len(LINEAGES) - 1


def test_equally_near_relatives_are_drawn() -> None:
    relatives = Relatives(LINEAGES)
    third = {relatives.nearest("lion", 3, seed)[2] for seed in range(40)}
    assert third == {"blue tit", "east", "west"}


def test_defect_fuzzing_an_abbreviated_genus_that_reads_as_an_article() -> None:
    """`A. wer` had one word left after folding: IndexError."""
    text = ",**A. wer**:e grey : wolf (Canis lupus)"
    assert parse_text(text, NAMES, "open").why == "several species are named"


def test_defect_fuzzing_a_name_in_the_plural() -> None:
    """KeyError: ('canis', 'lupuses')."""
    assert match_name("wolfs dog (Canis lupuss grey (Canis lupus)", NAMES).label == "wolf"
    assert match_name("Canis lupuss", NAMES).label == "wolf"
