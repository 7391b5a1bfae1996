"""Is the model told what it needs, once, and the same parts first?"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from fieldmark.build.caption.prompt import (
    GENERIC_EXAMPLES,
    SHORT_EXAMPLES,
    CaptionPrompt,
    SpeciesWords,
    ask_again,
    excerpt,
    read_words,
)
from fieldmark.chat import Picture, Text
from fieldmark.errors import DataError
from fieldmark.taxa import RANKS, Taxon

RAVEN = Taxon(
    ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus", "corax"),
    "Common Raven",
)
ROSE = Taxon(("Plantae", "", "Magnoliopsida", "", "", "Rosa", "canina"))
PHOTO = Picture(b"photo")
JAY = "Garrulus glandarius with a pinkish body and a blue wing patch."
WREN = "Nannus minutus, the tail short and barred with brown."


def write_words(folder: Path, *rows: tuple[Taxon, str], examples: tuple[str, ...] = ()) -> Path:
    """What `fieldmark describe` writes, as far as captions need it."""
    folder.mkdir(exist_ok=True)
    table = [
        {
            "key": taxon.key,
            **dict(zip(RANKS, taxon.ranks, strict=True)),
            "common_name": taxon.common_name,
            "status": "described" if text else "no_page",
            "description": text or None,
        }
        for taxon, text in rows
    ]
    pl.DataFrame(table).write_parquet(folder / "descriptions.parquet")
    shown = pl.DataFrame({"class": ["Aves"], "examples": [list(examples)]})
    shown.write_parquet(folder / "format_examples.parquet")
    return folder


def test_what_is_shared_comes_before_the_photo_and_the_species_after_it() -> None:
    words = SpeciesWords({RAVEN.key: "Black all over."}, examples={"Aves": (JAY, WREN)})
    prompt = CaptionPrompt(words)
    (message,) = prompt.messages(RAVEN, PHOTO)
    shared, photo, species = message.parts
    assert isinstance(shared, Text) and shared.ends_shared and photo is PHOTO
    other = Taxon((*RAVEN.ranks[:5], "Pica", "pica"), "Magpie")
    assert prompt.messages(other, PHOTO)[0].parts[0] == shared, "one prefix for a class"
    assert "Corvus" not in shared.text and f"- {JAY}\n- {WREN}" in shared.text
    assert isinstance(species, Text)
    assert species.text.startswith("Species: Corvus corax\nCommon name: Common Raven\n")
    assert "Corvus corax or Common Raven" in species.text and "Black all over." in species.text


def test_sentences_of_the_prompt_are_apart() -> None:
    """Defect 10 of the released pipeline: glued together, "photo.Name" is one word."""
    words = SpeciesWords({RAVEN.key: "Black."}, examples={"Aves": (JAY,)})
    text = CaptionPrompt(words).messages(RAVEN, PHOTO)[0].text
    glued = [text[i - 9 : i + 10] for i, c in enumerate(text[1:-1], 1)
             if c in ".:;," and not text[i + 1].isspace()]  # fmt: skip
    assert not glued


def test_a_class_without_examples_has_generic_ones() -> None:
    words = SpeciesWords(examples={"Aves": (JAY,)})
    text = CaptionPrompt(words).messages(ROSE, PHOTO)[0].text
    assert all(example in text for example in GENERIC_EXAMPLES) and JAY not in text


@pytest.mark.parametrize(
    "example",
    [
        "Proteles cristatus: Its lower leg (from the knee down) is all black, the mane is long and "
        "the bushy tail has a black tip.",
        "A yellow bird with a black stripe and white cheeks.",
        "Parus major with a black stripe on a blurred branch.",
    ],
)
def test_examples_that_break_the_rules_are_not_shown(example: str) -> None:
    words = SpeciesWords(examples={"Aves": (example,)})
    prompt = CaptionPrompt(words)
    text = prompt.messages(RAVEN, PHOTO)[0].text
    assert example not in text and all(generic in text for generic in GENERIC_EXAMPLES)
    assert "of the class" not in text
    assert prompt.words.examples_of(RAVEN) == GENERIC_EXAMPLES
    both = CaptionPrompt(SpeciesWords(examples={"Aves": (example, JAY)}))
    assert both.words.examples_of(RAVEN) == (JAY,)


def test_examples_have_no_more_words_than_captions_may_have() -> None:
    words = SpeciesWords(examples={"Aves": (JAY,)})
    for max_words, shown in ((11, (JAY,)), (10, SHORT_EXAMPLES), (8, SHORT_EXAMPLES), (4, ())):
        prompt = CaptionPrompt(words, max_words)
        assert prompt.words.examples_of(RAVEN) == shown
        assert ("Examples" in prompt.messages(RAVEN, PHOTO)[0].text) == bool(shown)


def test_a_photo_may_have_only_a_common_name() -> None:
    taxon = Taxon(("",) * 7, "great tit")  # type: ignore[arg-type]  # seven of them
    text = CaptionPrompt(SpeciesWords()).messages(taxon, PHOTO)[0].text
    assert text.endswith("Species: great tit\nName it in the sentence as: great tit")


def test_every_name_of_a_field_may_be_used() -> None:
    taxon = Taxon(RAVEN.ranks, "Common raven, Northern raven (bird)")
    text = CaptionPrompt(SpeciesWords()).messages(taxon, PHOTO)[0].text
    assert text.endswith("as: Corvus corax or Common raven or Northern raven")


def test_the_excerpt_ends_at_a_sentence() -> None:
    text = "Wings are blue. " * 60
    assert excerpt(text).endswith("blue.") and 580 < len(excerpt(text)) <= 600
    assert excerpt("Short.") == "Short."
    long = "a" * 10 + " bcd" * 300
    assert len(excerpt(long)) <= 602 and excerpt(long).endswith(" bcd …")
    assert excerpt("x" * 700) == "x" * 600 + " …"


def test_an_excerpt_of_the_description_is_only_sent_with_its_purpose(tmp_path: Path) -> None:
    words = read_words(write_words(tmp_path / "d", (RAVEN, "Black."), (ROSE, "")))
    prompt = CaptionPrompt(words)
    assert "Reference text, only to" in prompt.messages(RAVEN, PHOTO)[0].text
    assert "Reference" not in prompt.messages(ROSE, PHOTO)[0].text


def test_homonyms_do_not_share_a_description(tmp_path: Path) -> None:
    animal = Taxon(("Animalia", "", "", "", "", "Abronia", "montana"))
    plant = Taxon(("Plantae", "", "", "", "", "Abronia", "montana"))
    bare = Taxon(("", "", "", "", "", "Abronia", "montana"))
    known = Taxon(("", "", "", "", "", "Corvus", "corax"))
    words = read_words(
        write_words(tmp_path / "d", (animal, "Scales."), (plant, "Petals."), (RAVEN, "Black."))
    )
    assert words.description(animal) == "Scales." and words.description(plant) == "Petals."
    assert words.description(bare) == "", "nobody can tell which"
    assert words.description(known) == "Black.", "the one taxon of that name"


def test_a_sample_may_know_fewer_ranks(tmp_path: Path) -> None:
    mint = Taxon(("Plantae", "", "", "Lamiales", "Lamiaceae", "Mentha", "× piperita"))
    beast = Taxon(("Animalia", "", "", "", "Mentidae", "Mentha", "× piperita"))
    words = read_words(write_words(tmp_path, (mint, "Leaves are toothed."), (RAVEN, "Black.")))
    assert words.description(Taxon(("Plantae", "", "", "", "", "Mentha", "× piperita")))
    assert words.description(Taxon(("", "", "", "", "", "Corvus", "corax"))) == "Black."
    assert words.description(beast) == ""


def test_digests_follow_what_is_said(tmp_path: Path) -> None:
    one = read_words(write_words(tmp_path / "a", (RAVEN, "Black."), (ROSE, "Pink.")))
    same = read_words(write_words(tmp_path / "b", (ROSE, "Pink."), (RAVEN, "Black.")))
    other = read_words(write_words(tmp_path / "c", (RAVEN, "Black!"), (ROSE, "Pink.")))
    more = read_words(
        write_words(tmp_path / "d", (RAVEN, "Black."), (ROSE, "Pink."), examples=("A.",))
    )
    assert one.digest == same.digest, "the order of rows says nothing"
    assert len({one.digest, other.digest, more.digest, SpeciesWords().digest}) == 4
    assert CaptionPrompt(one).digest == CaptionPrompt(other).digest
    assert CaptionPrompt(one).digest != CaptionPrompt(one, 21).digest


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"descriptions\.parquet  does not exist: `fieldmark desc"):
        read_words(tmp_path)
    folder = write_words(tmp_path / "d", (RAVEN, "Black."))
    (folder / "format_examples.parquet").write_text("class,examples\nAves,A.\n")
    with pytest.raises(DataError, match="cannot be read as Parquet"):  # defect 10: a .csv
        read_words(folder)
    pl.DataFrame({"class": ["Aves"]}).write_parquet(folder / "format_examples.parquet")
    with pytest.raises(DataError, match="has no column 'examples'"):
        read_words(folder)


def test_asking_again_says_what_was_wrong() -> None:
    messages = CaptionPrompt(SpeciesWords()).messages(RAVEN, PHOTO)
    again = ask_again(messages, "A bird.", "has no name")
    assert again[:1] == messages and again[1].text == "A bird."
    assert again[2].text.startswith("That caption cannot be used: has no name.")


def test_a_caption_may_use_the_names_of_the_sample_and_of_the_table(tmp_path: Path) -> None:
    words = read_words(write_words(tmp_path / "d", (RAVEN, "Black.")))
    other = Taxon(RAVEN.ranks, "Northern Raven")
    assert words.names(other) == ("Corvus corax", "Northern Raven", "Common Raven")
    bare = Taxon(("", "", "", "", "", "Corvus", "corax"))
    assert words.names(bare) == ("Corvus corax", "Common Raven")
    assert words.names(Taxon(("",) * 7, "Crow")) == ("Crow",)  # type: ignore[arg-type]
