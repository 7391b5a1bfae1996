"""Which sentences may stand beside a photo?"""

from __future__ import annotations

import pytest

from fieldmark.build.caption.checks import CaptionRules, KnownNames, mend
from fieldmark.build.caption.naming import fold_name, folded_name, is_telling_name, listed_names

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
    assert not problem("Song Sparrow with streaked breast, bill open in song.", sparrow)
    assert problem("Song Sparrow, streaked, its song sweet.", sparrow).startswith("sense")
    fly = CaptionRules(("Ceroxys latiusculus", "Picture-winged Fly"), 20)
    assert not problem("Picture-winged fly with banded wings and red eyes on leaf.", fly)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("Buteo jamaicensis", "Red-tailed Hawk"), "Red tailed hawk with a brick red tail."),
        (("Cyanocitta stelleri", "Steller's Jay"), "Steller’s Jay with a tall dark crest, blue."),
        (("Mentha × piperita", ""), "Mentha x piperita with toothed dark green leaves."),
        (("Rhodiola rosea", "Roseroot"), "Fleshy Rhodiola  rosea with yellow flower heads."),
        (("Aglais io", "Tagpfauenauge"), "Tagpfauenauge with four blue eyespots."),
        (("Myrmecophaga", ""), "Myrmecophaga with a long snout and a bushy tail."),
        (("Canis lupus", "Gray Wolf"), "Grey wolves with thick pale coats in snow."),
        (("Apis mellifera", "Honey bee"), "Honeybees with banded abdomens on comb."),
        (("Musca domestica", "Housefly"), "A house fly with large red eyes."),
        (("Strelitzia reginae", "Bird of paradise"), "Birds-of-paradise with orange sepals."),
        (("Felis catus", "Domestic cat (feral)"), "A domestic cat with grey stripes sits."),
        (("Corvus corax ssp. varius", ""), "Corvus corax varius with white patches."),
        (("Pica pica", "喜鹊"), "喜鹊 with black and white plumage."),
        (("Turdus merula", "Blackbird, common"), "Common blackbird with a yellow bill."),
        (("Aloë vera", ""), "Aloe vera with thick spotted leaves in a rosette."),
    ],
)
def test_names_are_known_whatever_case_hyphens_and_accents(
    names: tuple[str, str], text: str
) -> None:
    rules = CaptionRules(tuple(filter(None, names)), 20)
    assert not problem(text, rules)


def test_a_field_may_hold_several_names_and_notes() -> None:
    assert listed_names("Red fox") == ("Red fox",) and listed_names("") == ()
    assert listed_names("Warbler, Yellow") == ("Yellow Warbler", "Warbler"), "no caption is Yellow"
    assert listed_names("Cat (feral); House cat") == ("Cat", "House cat")


def test_names_of_ordinary_words_are_names_only_in_capitals() -> None:
    ordinary = ("Small white", "Orange tip", "Red-eye", "Small blue", "Green frog", "Tiger")
    assert not any(map(is_telling_name, ordinary))
    assert all(map(is_telling_name, ("Arctic fox", "Carrion crow", "House sparrows", "Cape hare")))
    names = {"Pieris rapae": ["Small white"], "Corvus corone": ["Carrion Crow"]}
    rules = CaptionRules(("Amanita muscaria",), 20, (), KnownNames.of(names))
    assert not problem("Amanita muscaria with a red cap covered in small white warts.", rules)
    for other in ("Small White", "carrion crow", "Pieris rapae", "Blue Jay"):
        text = f"Amanita muscaria with a red cap beside a {other}."
        assert problem(text, rules).startswith("other_species"), other
    assert not problem("The Blusher Fungus, Amanita muscaria, has a red cap.", rules)


@pytest.mark.parametrize("end", ["a", "the", "and", "with", "with a very long", "covered in", "of"])
def test_a_sentence_that_is_cut_gets_no_full_stop(end: str) -> None:
    checked = RAVEN.check(f"Corvus corax with black plumage, its bill heavy {end}")
    assert checked.problem.startswith("cut_off") and not checked.caption.endswith(".")


@pytest.mark.parametrize("end", ["black and white", "long", "standing", "rocks", "(male)"])
def test_a_whole_sentence_gets_its_full_stop(end: str) -> None:
    checked = RAVEN.check(f"Corvus corax with a heavy bill, its plumage {end}")
    assert checked == (f"Corvus corax with a heavy bill, its plumage {end}.", ("full stop",), "")


@pytest.mark.parametrize("odd", ["\x07", "🐦", "黑", "ж", "→", "\ufffd"])
def test_strange_characters_are_refused(odd: str) -> None:
    assert problem(f"Corvus corax with{odd} black plumage and a heavy bill.").startswith(
        "characters"
    )
    assert not problem("Corvus corax ♂, its façade – black – sleek, at 40°.")


def test_one_word_is_no_way_to_say_many() -> None:
    assert problem(f"Corvus corax with {'black-' * 120}bill and wings.").startswith("words")


def test_mends_are_light_and_written_down() -> None:
    checked = RAVEN.check('  "A *Corvus corax* with a heavy black bill"  ')
    assert checked.caption == "A Corvus corax with a heavy black bill."
    assert checked.mends == ("quotes", "emphasis", "full stop") and not checked.problem
    assert mend("Corvus\u200b corax.") == ("Corvus corax.", ("invisible characters",))
    assert mend("Corvus corax flies.") == ("Corvus corax flies.", ())
    assert mend('Cap "umbrella-like", red.') == ("Cap umbrella-like, red.", ("quotes",))
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
