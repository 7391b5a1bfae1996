"""Which sentences may stand beside a photo?

`captions.txt` was written before the rules, as different vision models write; the words of
`image_talk` were chosen with its rows in view.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.build.caption import CheckedCaption, check_caption
from fieldmark.build.caption.checks import listed_names, mend

RAVEN = ("Corvus corax", "Common Raven")


def check(text: str, names: tuple[str, ...] = RAVEN) -> CheckedCaption:
    return check_caption(text, names, 20)


def problem(text: str, names: tuple[str, ...] = RAVEN) -> str:
    return check(text, names).problem


@pytest.mark.parametrize(
    "text",
    [
        "Corvus corax perched upright, its black plumage glossy and its heavy bill slightly open.",
        "A common raven with shaggy throat feathers and a thick arched bill stands on snow.",
        "Two Common Ravens, all black, face each other on a bare branch.",
        "The Common Raven's wedge-shaped tail and long wings are spread in flight.",
        "CORVUS CORAX with a massive black bill; throat feathers long and pointed.",
        "Corvus corax subsp. tingitanus with a short arched bill and dull brownish neck.",
    ],
)
def test_good_captions_pass(text: str) -> None:
    assert check(text) == (text, (), "")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("words", ""),
        ("words", "Corvus corax."),
        ("words", "A Corvus corax."),
        ("words", "Corvus corax " + "very " * 17 + "black bird."),
        ("words", f"Corvus corax with {'black-' * 120}bill and wings."),
        ("sentences", "Corvus corax, black and glossy.\nIt has a heavy bill."),
        ("sentences", "Corvus corax is glossy black. Its bill is heavy and arched."),
        ("sentences", "Certainly! Corvus corax with grey wings and pink legs."),
        ("name", "A large glossy black bird with a heavy arched bill on snow."),
        ("name", "A raven with glossy black plumage and a heavy bill."),
        ("name", "Corvus with glossy black plumage and a heavy bill."),
        ("image_talk", "This image shows Corvus corax with glossy black plumage."),
        ("image_talk", "Close-up of a Corvus corax with a heavy black bill."),
        ("image_talk", "Sure, here is the caption: Corvus corax with mottled skin."),
        ("cut_off", "<think>The bird is black, so it may be"),
        ("cut_off", "Corvus corax with a heavy black bill, ..."),
    ],
)
def test_bad_captions_are_told_by_kind(kind: str, text: str) -> None:
    assert problem(text).partition(":")[0] == kind


def test_captions_as_models_write_them() -> None:
    """All that are good pass; of the others at most one in ten is let through."""
    lines = Path(__file__).with_name("captions.txt").read_text("utf-8").splitlines()[1:]
    rows = [line.split("|", 3) for line in lines]
    passed = [
        verdict
        for verdict, scientific, common, text in rows
        if not problem(text.replace("\\n", "\n"), (scientific, common))
    ]
    n_good = sum(verdict == "good" for verdict, *_ in rows)
    assert passed.count("good") == n_good >= 100
    assert len(passed) - n_good <= 0.1 * (len(rows) - n_good)


def test_words_in_the_species_own_name_are_no_talk_of_the_photo() -> None:
    fly = ("Ceroxys latiusculus", "Picture-winged Fly")
    assert not problem("Picture-winged fly with banded wings and red eyes on leaf.", fly)
    assert problem("Picture-winged fly in a picture of banded wings.", fly).startswith("image_talk")


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
    assert not problem(text, tuple(filter(None, names)))


def test_a_field_may_hold_several_names_and_notes() -> None:
    assert listed_names("Red fox") == ("Red fox",) and listed_names("") == ()
    assert listed_names("Warbler, Yellow") == ("Yellow Warbler", "Warbler"), "no caption is Yellow"
    assert listed_names("Cat (feral); House cat") == ("Cat", "House cat")


@pytest.mark.parametrize("end", ["a", "the", "and", "with", "covered in", "of"])
def test_a_sentence_that_is_cut_gets_no_full_stop(end: str) -> None:
    checked = check(f"Corvus corax with black plumage, its bill heavy {end}")
    assert checked.problem.startswith("cut_off") and not checked.caption.endswith(".")


@pytest.mark.parametrize("end", ["black and white", "long", "standing", "rocks", "(male)"])
def test_a_whole_sentence_gets_its_full_stop(end: str) -> None:
    checked = check(f"Corvus corax with a heavy bill, its plumage {end}")
    assert checked == (f"Corvus corax with a heavy bill, its plumage {end}.", ("full stop",), "")


def test_mends_are_light_and_written_down() -> None:
    checked = check('  "A *Corvus corax* with a heavy black bill"  ')
    assert checked.caption == "A Corvus corax with a heavy black bill."
    assert checked.mends == ("quotes", "emphasis", "full stop") and not checked.problem
    assert mend("Corvus\u200b corax.") == ("Corvus corax.", ("invisible characters",))
    assert mend("Corvus corax flies.") == ("Corvus corax flies.", ())
    assert mend('Cap "umbrella-like", red.') == ("Cap umbrella-like, red.", ("quotes",))
    assert mend("<b>Corvus</b>")[0] == "<b>Corvus</b>", "what is not understood is not mended"
    assert check("<think>hm</think>Corvus corax with a heavy bill.").problem == ""


def test_every_problem_can_be_told_to_the_model() -> None:
    assert problem("Corvus corax " + "very " * 19 + "black.") == (
        "words: has 22 words, at most 20 are allowed"
    )
    assert "Corvus corax or Common Raven" in problem("A glossy black bird on snow.")
