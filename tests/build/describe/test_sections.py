"""Sections: those on appearance, wherever they stand in the tree."""

from __future__ import annotations

import pytest

from fieldmark.build.describe.sections import SectionVerdict, appearance_text, judge_heading


def headings_of(*lines: str) -> tuple[str, ...]:
    """A page with these headings, each with a sentence below it: which are kept?"""
    text = "\n".join(f"{line}\nText of {line.strip('= ')}." for line in lines)
    appearance = appearance_text(f"The lead.\n{text}")
    assert appearance
    return appearance.headings


def test_sub_sections_belong_to_a_section() -> None:
    """The text of "Description" does not end at its first sub-heading."""
    appearance = appearance_text(
        "Lead.\n== Description ==\nTall.\n=== Leaves ===\nGreen.\n==== Young ====\nRed.\n"
        "== Uses ==\nFood."
    )
    assert appearance
    assert appearance.text == "Tall.\n\nGreen.\n\nRed."
    assert appearance.headings == (
        "Description",
        "Description > Leaves",
        "Description > Leaves > Young",
    )
    assert not appearance.is_lead


def test_page_order_decides_and_all_are_kept() -> None:
    """Not the first keyword of a list that matches anywhere."""
    assert headings_of("== Structure ==", "== Range ==", "== Plumage ==", "== Description ==") == (
        "Structure",
        "Plumage",
        "Description",
    )


def test_population_structure_is_no_structure() -> None:
    assert headings_of("== Population structure ==", "== Body structure ==") == ("Body structure",)


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (("== Uses ==", "=== Leaves ==="), ()),
        (("== Taxonomy ==", "=== Description ==="), ()),
        (
            ("== Description ==", "=== Behaviour ===", "==== Adults ====", "=== Fruit ==="),
            ("Description", "Description > Fruit"),
        ),
        (
            ("== Life cycle ==", "=== Larva ===", "=== Adult ==="),
            ("Life cycle > Larva", "Life cycle > Adult"),
        ),
        (("== Biology ==", "==== Description ===="), ("Biology > Description",)),
        (("== Natural history ==", "=== Plumage ==="), ("Natural history > Plumage",)),
        (("== Subspecies ==", "=== Plumage ==="), ("Subspecies > Plumage",)),
        (
            ("== Description ==", "=== Variety of names ===", "=== In winter ==="),
            ("Description", "Description > In winter"),
        ),
        (
            ("== Description ==", "== Ecology ==", "== Description =="),
            ("Description", "Description"),
        ),
    ],
)
def test_headings_are_judged_with_those_above(
    lines: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    assert headings_of(*lines) == kept


@pytest.mark.parametrize(
    "heading",
    [
        "Description",
        "DESCRIPTION",
        "Physical description",
        "General characteristics",
        "Appearance",
        "Identification",
        "Morphology",
        "Anatomy and morphology",
        "Plumage and moult",
        "Field marks",
        "Growth habit",
        "Leaves",
        "Flowers and fruit",
        "Fruit bodies",
        "Larva",
        "Adult male",
        "Sexual dimorphism",
        "Macroscopic characteristics",
        "Coloration",
        "Colour",
        "Size and weight",
        "Description and habitat",
        "Distribution and description",
        "Etymology & description",
        "Leaf, stem and root",
        "Distinguishing features",
        "Shell description",
        "Breeding plumage",
        "Structure",
        "First instar",
        "Species description",
        "Fruiting body",
        "Fruiting bodies",
        "Colour variation",
        "Early stages",
        "Cap",
        "Male",
        "Imago",
    ],
)
def test_headings_on_appearance(heading: str) -> None:
    assert judge_heading(heading) is SectionVerdict.APPEARANCE


@pytest.mark.parametrize(
    "heading",
    [
        "Population structure",
        "Genetics",
        "Genetic characteristics",
        "Etymology",
        "References",
        "Description of the type",
        "Type description",
        "Original description",
        "First description",
        "Discovery and description",
        "Description history",
        "Distribution",
        "Female mate choice",
        "Microscopic characteristics",
        "Behavioural characteristics",
        "Chemical structure",
        "Social structure",
        "Leaf miners",
        "Colour vision",
        "Similar species",
        "Voice",
        "Uses",
        "Appearances in media",
        "Seed dispersal",
        "Egg laying",
        "",
        "1990s",
        "Fruit uses",
        "Internal anatomy",
        "Flowering season",
        "Taxonomy and phylogeny",
        "Life cycle",
    ],
)
def test_headings_on_something_else(heading: str) -> None:
    assert judge_heading(heading) is not SectionVerdict.APPEARANCE


def test_the_lead_is_the_fall_back() -> None:
    appearance = appearance_text("{{Taxobox}}\nA '''red''' bird.\n== Range ==\nAsia.")
    assert appearance
    assert (appearance.text, appearance.headings, appearance.is_lead) == ("A red bird.", (), True)


@pytest.mark.parametrize(
    "section", ["{{Main|Plumage}}\n", "{|\n| size || 5\n|}\n", "[[File:A.jpg|thumb|A red bird]]\n"]
)
def test_a_section_without_sentences_counts_for_nothing(section: str) -> None:
    appearance = appearance_text(f"Lead.\n== Description ==\n{section}== Range ==\nAsia.")
    assert appearance
    assert appearance.is_lead


def test_a_page_without_text_has_none() -> None:
    assert appearance_text("{{Taxobox}}\n== Description ==\n{{x}}") is None


def test_sentences_that_lost_words_are_left_out() -> None:
    appearance = appearance_text(
        "== Description ==\nIt is red. It has {{unheard of|5}} legs. It is big.\n"
        "* a {{unheard of}} tail\n* red"
    )
    assert appearance
    assert appearance.text == "It is red. It is big.\nred"
