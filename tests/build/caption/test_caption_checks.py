"""Which sentences may stand beside a photo?"""

from __future__ import annotations

import pytest

from fieldmark.build.caption.checks import (
    CaptionRules,
    KnownNames,
    fold_name,
    folded_name,
    mend,
)

RAVEN = CaptionRules(
    ("Corvus corax", "Common Raven"),
    20,
    ("Sturnus vulgaris with glossy black plumage, dense pale spots and a yellow pointed bill.",),
    KnownNames.of(
        {
            "Corvus corax": ["Common Raven"],
            "Corvus corone": ["Carrion Crow"],
            "Pieris rapae": ["Small White"],
        }
    ),
)


def problem(text: str, rules: CaptionRules = RAVEN) -> str:
    return rules.check(text).problem


@pytest.mark.parametrize(
    "text",
    [
        "Corvus corax perched upright, its black plumage glossy and its heavy bill slightly open.",
        "A common raven with shaggy throat feathers and a thick arched bill stands on snow.",
        "Two Common Ravens, all black, face each other on a bare branch.",
        "The Common Raven's wedge-shaped tail and long wings are spread in flight.",
        "CORVUS CORAX with a massive black bill; throat feathers long and pointed.",
        "Corvus corax among small white flowers, its black plumage glossy and its bill open.",
        "Corvus corax subsp. tingitanus with a short arched bill and dull brownish neck.",
    ],
)
def test_good_captions_pass(text: str) -> None:
    assert RAVEN.check(text) == (text, (), "")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("empty", ""),
        ("empty", "Corvus corax."),
        ("empty", "A Corvus corax."),
        ("lines", "Corvus corax, black and glossy.\nIt has a heavy bill."),
        ("sentences", "Corvus corax is glossy black. Its bill is heavy and arched."),
        ("words", "Corvus corax " + "very " * 17 + "black bird."),
        ("name", "A large glossy black bird with a heavy arched bill on snow."),
        ("name", "A raven with glossy black plumage and a heavy bill."),
        ("name", "Corvus with glossy black plumage and a heavy bill."),
        ("image_talk", "This image shows Corvus corax with glossy black plumage."),
        ("image_talk", "Close-up of a Corvus corax with a heavy black bill."),
        ("guess", "Corvus corax, probably an adult, with a heavy black bill."),
        ("guess", "I cannot see a Corvus corax here, sorry about that."),
        ("general", "Corvus corax, a bird that is usually black with heavy bill."),
        ("general", "Corvus corax is known for its heavy bill and black plumage."),
        ("range", "Corvus corax, endemic bird with glossy black plumage and heavy bill."),
        ("range", "Corvus corax, black and glossy, found in northern forests."),
        ("measurement", "Corvus corax, 63 cm long, with glossy black plumage."),
        ("measurement", "Corvus corax with a wingspan of great width and black plumage."),
        ("sense", "Corvus corax with black plumage and a deep croaking voice."),
        ("habit", "Corvus corax, black and glossy, feeds on carrion."),
        ("markup", "# Corvus corax with glossy black plumage and heavy bill."),
        ("markup", 'Corvus corax, the "wolf bird", with glossy black plumage.'),
        ("other_species", "Corvus corax beside a Carrion Crow, both black on snow."),
        ("other_species", "Corvus corax holds a Small White in its heavy black bill."),
        ("other_species", "Corvus corax, larger than Corvus corone, with a heavy bill."),
        (
            "example",
            "Corvus corax with glossy black plumage, dense pale spots and a yellow pointed bill.",
        ),
        ("cut_off", "<think>The bird is black, so it may be"),
    ],
)
def test_bad_captions_are_told_by_kind(kind: str, text: str) -> None:
    assert problem(text).partition(":")[0] == kind


def test_words_in_the_species_own_name_are_no_statement() -> None:
    sparrow = CaptionRules(("Melospiza melodia", "Song Sparrow"), 20)
    assert not problem("Song Sparrow with a streaked brown breast and a long tail.", sparrow)
    assert problem("Song Sparrow with streaked breast in full song.", sparrow).startswith("sense")
    fly = CaptionRules(("Ceroxys latiusculus", "Picture-winged Fly"), 20)
    assert not problem("Picture-winged fly with banded wings and red eyes on leaf.", fly)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("Buteo jamaicensis", "Red-tailed Hawk"), "Red tailed hawk with a brick red tail."),
        (("Cyanocitta stelleri", "Steller's Jay"), "Steller’s Jay with a tall dark crest, blue."),
        (("Mentha × piperita", ""), "Mentha x piperita with toothed dark green leaves."),
        (("Rhodiola rosea", "Roseroot"), "Fleshy Rhodiola  rosea with yellow flower heads."),
        (("Aglais io", "Tagpfauenauge"), "Tagpfauenauge mit vier blauen Augenflecken."),
        (("Myrmecophaga", ""), "Myrmecophaga with a long snout and a bushy tail."),
        (("Aloë vera", ""), "Aloe vera with thick spotted leaves in a rosette."),
    ],
)
def test_names_are_known_whatever_case_hyphens_and_accents(
    names: tuple[str, str], text: str
) -> None:
    rules = CaptionRules(tuple(filter(None, names)), 20)
    assert not problem(text, rules)


def test_mends_are_light_and_written_down() -> None:
    checked = RAVEN.check('  "A *Corvus corax* with a heavy black bill"  ')
    assert checked.caption == "A Corvus corax with a heavy black bill."
    assert checked.mends == ("quotes", "emphasis", "full stop") and not checked.problem
    assert mend("Corvus corax flies.") == ("Corvus corax flies.", ())
    assert mend("<b>Corvus</b>")[0] == "<b>Corvus</b>", "what is not understood is not mended"
    assert RAVEN.check("<think>hm</think>Corvus corax with a heavy bill.").problem == ""


def test_quick_and_careful_folding_agree() -> None:
    for name in ("Corvus corax", "Red-tailed Hawk", "Mentha x piperita", "Steller's Jay", "A b-c"):
        assert folded_name(name) == " ".join(fold_name(name))


def test_every_problem_can_be_told_to_the_model() -> None:
    assert problem("Corvus corax " + "very " * 19 + "black.") == (
        "words: has 22 words, at most 20 are allowed"
    )
    assert "Corvus corax or Common Raven" in problem("A glossy black bird on snow.")
