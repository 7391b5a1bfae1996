"""Taxoboxes: whom they name, in the forms that editors write; parts of templates."""

from __future__ import annotations

import time

import mwparserfromhell
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.wiki.taxobox import (
    TaxonomyEntry,
    read_taxoboxes,
    read_taxonomy,
    says_disambiguation,
    template_names,
    template_parts,
)

OLD = """{{Taxobox
| name = Aardwolf<ref name=MSW3>{{MSW3|pages=531|id=1}}</ref>
| image = A.jpg | image_caption = A [[male (biology)|male]] | status = LC
| regnum = [[Animal]]ia
| unranked_phylum = [[Bilateria]]
| phylum = [[Chordate|Chordata]]
| classis = [[Mammal]]ia
| ordo = [[Carnivora]]
| familia = [[Hyaenidae]]
| genus = '''''Proteles''''' <small>[[Isidore|Geoffroy]], 1824</small>
| species = '''''P.&nbsp;cristata'''''<!-- sic -->
%s
}}
The aardwolf."""


@pytest.mark.parametrize(
    ("wikitext", "name", "rank", "genus", "taxonomy"),
    [
        ("{{Speciesbox\n| genus = Corvus\n| species = corax\n}}", "Corvus corax", "species",
         "Corvus", "Corvus"),
        ("{{speciesbox|taxon=''Corvus corax''}}", "Corvus corax", "species", "Corvus", "Corvus"),
        ("{{Speciesbox|genus=Abronia (plant)|species=umbellata}}", "Abronia umbellata", "species",
         "Abronia", "Abronia (plant)"),
        ("{{Speciesbox|taxon=Abronia (plant) umbellata}}", "Abronia umbellata", "species",
         "Abronia", "Abronia (plant)"),
        ("{{Speciesbox|genus=Bombus|parent=Pyrobombus|species=lapponicus}}", "Bombus lapponicus",
         "species", "Bombus", "Pyrobombus"),
        ("{{Speciesbox|genus=Corvus|species=Corvus corax}}", "Corvus corax", "species", "Corvus",
         "Corvus"),
        ("{{Speciesbox|taxon=× Aus bus}}", "× Aus bus", "species", "× Aus", "× Aus"),
        ("{{Speciesbox|image=A.jpg}}", "Asked for", "species", "Asked", "Asked"),
        ("{{Subspeciesbox|genus=Canis|species=lupus|subspecies=dingo}}", "Canis lupus dingo",
         "subspecies", "Canis", "Canis"),
        ("{{Infraspeciesbox|genus=Aus|species=bus|variety=cus}}", "Aus bus cus", "subspecies",
         "Aus", "Aus"),
        ("{{Automatic_taxobox|taxon=Felidae}}", "Felidae", "", "", "Felidae"),
        ("{{Automatic taxobox|taxon=Abronia (lizard)}}", "Abronia", "", "", "Abronia (lizard)"),
        ("{{Virusbox|parent=Tobamovirus|species=Tobamovirus tabaci}}", "Tobamovirus tabaci",
         "species", "Tobamovirus", "Tobamovirus"),
        (OLD % "", "Proteles cristata", "species", "Proteles", ""),
        (OLD % "| binomial = ''Proteles cristata''", "Proteles cristata", "species", "Proteles",
         ""),
        (OLD % "| trinomial = ''Proteles cristata minor''", "Proteles cristata minor",
         "subspecies", "Proteles", ""),
        (OLD % "| binomial = †{{nowrap|''Proteles (Neo) cristata''}} Sparrman", "Proteles cristata",
         "species", "Proteles", ""),
        ("{{Taxobox|regnum=Plantae|familia=[[Aaceae]]|genus='''''Aus'''''}}", "Aus", "genus", "Aus",
         ""),
        ("{{Taxobox|regnum=Plantae|familia='''Aaceae'''}}", "Aaceae", "family", "", ""),
    ],
)  # fmt: skip
def test_boxes(wikitext: str, name: str, rank: str, genus: str, taxonomy: str) -> None:
    (box,) = read_taxoboxes(f"{{{{Use dmy dates}}}}\n{wikitext}", "Asked for (plant)")
    assert (box.name, box.rank, box.genus, box.taxonomy) == (name, rank, genus, taxonomy)


def test_old_boxes_name_all_ranks() -> None:
    (box,) = read_taxoboxes(OLD % "", "Aardwolf")
    wanted = {"genus": "Proteles", "family": "Hyaenidae", "order": "Carnivora", "class": "Mammalia"}
    assert wanted.items() <= box.ranks.items()
    assert box.ranks["kingdom"] == "Animalia" and box.ranks["unranked_phylum"] == "Bilateria"


@pytest.mark.parametrize(
    "value",
    [
        "{{Species list|''[[Aus bus]]''|Olm, 1871|''A. cus''|(Vesk) Olm}}",
        "{{Specieslist\n|Aus bus|<small>Olm</small>\n|Aus cus|Vesk}}",
        "\n* ''Aus bus'' <small>[[Olm]]</small><ref>{{cite|x=''Xus y''}}</ref>\n* †''A.&nbsp;cus''",
        "''Aus bus'' {{small|Olm, 1871}}<br/>''Aus cus'' Vesk<br>''Aus dus'' auct. non L.",
        "{{collapsible list|bullets=on|''Aus bus'' {{Au|Olm}}|''Aus cus'' (L.) Vesk}}",
        "{{hidden begin}}{{plainlist|\n* [[Aus bus|''A. bus'']]\n* ''Aus (Neo) cus''\n}}",
    ],
)
def test_lists_of_names(value: str) -> None:
    genus = f"{{{{Automatic taxobox|taxon=Aus|subdivision_ranks=Species|subdivision={value}}}}}"
    assert read_taxoboxes(genus, "Aus")[0].subdivisions == ("Aus bus", "Aus cus")
    species = f"{{{{Speciesbox|taxon=Aus zus|synonyms={value}}}}}"
    assert set(read_taxoboxes(species, "Aus")[0].synonyms) >= {"Aus bus", "Aus cus"}
    assert "Aus dus" not in read_taxoboxes(species, "Aus")[0].synonyms


@pytest.mark.parametrize(
    ("value", "ranks", "species"),
    [
        ("''[[Aus albus]]''", "Species", ["Aus albus"]),
        ("''[[Aus albus]]'' <small>Olm & others, 1871</small>", "[[Species]]", ["Aus albus"]),
        ("''[[Aus albus]]''<br/>[[Olm]], 1871", "", ["Aus albus"]),
        ("{{Species list|Aus albus|Olm}}", "Species", ["Aus albus"]),
        ("''[[Aus albus]]''<br/>and about 30 others; see text", "Species", []),
        ("''[[Aus albus]]''<br/>[[#Species|See text]]", "Species", []),
        ("''[[Aus albus]]''", "[[Type species]]", []),
        ("''[[Aus albus]]''", "Extant species", []),
        ("''Aus albus'' group (12 species)<br/>''Aus'' subg. ''Bus'' (5 species)", "", []),
        (
            "''[[Aus albus]]''\n* ''[[Aus niger|niger]]''\n* ''[[Aus ruber|ruber]]''",
            "Species",
            ["Aus albus", "Aus niger", "Aus ruber"],
        ),
        ("\n* ''albus''\n* ''niger'' Olm", "Species", ["Aus albus", "Aus niger"]),
    ],
)
def test_species_of_a_genus_that_are_all(value: str, ranks: str, species: list[str]) -> None:
    text = f"{{{{Automatic taxobox|taxon=Aus|subdivision_ranks={ranks}|subdivision={value}}}}}"
    assert read_taxoboxes(text, "Aus")[0].subdivisions == tuple(species)


def test_where_boxes_count() -> None:
    """Not in comments, not below a heading if there is one above; never without an end."""
    below = "==Relatives==\n{{Speciesbox|taxon=Aus cus}}"
    first = "{{Speciesbox|taxon=Aus bus}}"
    names = [box.name for box in read_taxoboxes(f"{first}\nLead.\n{below}", "T")]
    assert names == ["Aus bus"]
    assert [box.name for box in read_taxoboxes(f"<!--{first}-->\n{below}", "T")] == ["Aus cus"]
    assert read_taxoboxes("{{Speciesbox|taxon=Aus bus", "T") == []
    assert read_taxoboxes("{{Infobox band|species=bus}} <nowiki>{{Taxobox}}</nowiki>", "T") == []


TEXT = st.text(alphabet="ab \n", max_size=6)
"""without "=": the other parser takes some for headings, and for names of values"""
VALUE = st.recursive(
    TEXT,
    lambda inner: st.one_of(
        st.builds("{{{{c|{}}}}}".format, inner),
        st.builds("[[d|{}]]".format, inner),
        st.builds("{}{}".format, inner, inner),
    ),
    max_leaves=6,
)


@given(st.lists(VALUE, min_size=1, max_size=4))
def test_parts_are_those_of_a_parser(values: list[str]) -> None:
    text = "{{T|" + "|".join(values) + "}}"
    (template, *_) = mwparserfromhell.parse(text).filter_templates()
    split = template_parts(text + "}} rest|", 0)
    assert split == (["T", *map(str, template.params)], len(text))


def test_taxonomy_pages() -> None:
    text = (
        "{{Don't edit this line {{{machine code|}}}\n|rank=subfamilia<!-- so -->\n"
        "|link=Cat|Felinae\n|parent=Felidae/?\n|refs=<ref>{{cite|parent=x}}</ref>\n}}"
    )
    assert read_taxonomy(text, "Felinae") == TaxonomyEntry("subfamilia", "Felinae", "Felidae/?", "")
    same = "{{Don't edit this line {{{machine code|}}}\n|same_as=Felidae\n|rank=familia}}"
    assert read_taxonomy(same, "Felidae/?") == TaxonomyEntry("family", "Felidae", "", "Felidae")
    odd = "{{Don't edit this line {{{m|}}}|parent={{Taxonomy/A|machine code=parent}}|rank=regnum}}"
    assert read_taxonomy(odd, "Abronia (plant)") == TaxonomyEntry("kingdom", "Abronia", "", "")
    assert read_taxonomy("A page.", "A") is None


def test_disambiguation_by_template() -> None:
    assert says_disambiguation("* [[A]]\n{{ Species_Latin name disambiguation }}")
    assert says_disambiguation("* [[A]]\n{{disambig|geo}}") and says_disambiguation("__DISAMBIG__")
    assert not says_disambiguation("{{about|the bird|others|A (disambiguation)}} A [[bird]].")


@pytest.mark.parametrize(
    "text",
    ["{{" + " " * 8_000 + "x", "<ref" * 100_000, "<ref>" * 100_000, "<!--" * 100_000,
     "<nowiki>" * 50_000, "{{Speciesbox|genus=" * 20_000, "<ref name=a/" * 50_000 + ">"],
    ids=lambda text: text[:12].strip(),
)  # fmt: skip
def test_time_grows_with_the_length_of_a_page_whatever_it_holds(text: str) -> None:
    """Found by fuzzing: 8 kB of blanks took minutes, a page of 2 MB took an hour."""
    began = time.process_time()
    assert read_taxoboxes(text, "Larus") == [] and read_taxonomy(text, "Larus") is None
    template_names(text)
    assert time.process_time() - began < 5


def test_only_whole_comments_and_references_are_left_out() -> None:
    text = "<ref name=a/>{{Speciesbox|genus=Larus<ref>x|</ref>|species=<!--y-->fuscus}}<!--"
    (box,) = read_taxoboxes(text, "Gull")
    assert box.name == "Larus fuscus"
