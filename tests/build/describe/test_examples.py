"""Are the examples of a class good sentences, word for word, of several families?"""

from __future__ import annotations

from typing import Any

import polars as pl

from fieldmark.build.caption import check_caption
from fieldmark.build.describe.examples import (
    FEWEST,
    MOST,
    MOST_WORDS,
    caption_form,
    format_examples,
    score,
)
from fieldmark.build.describe.sentences import split_sentences

GOOD = "The head is black with a white crown, the back is brown, and the tail is red and long."
AS_CAPTION = "the head black with a white crown, the back brown, and the tail red and long."
PLAIN = "The wings are rather long, with tips that reach well beyond the end of the body."


def row(key: str, family: str, text: str, kind: str = "Aves", **more: Any) -> dict[str, Any]:
    spans = [[span.start, span.end] for span in split_sentences(text)]
    return {
        "key": key, "class": kind, "family": family, "genus": "Genus", "species": f"sp{key}",
        "status": "described", "text": text, "spans": spans, **more,
    }  # fmt: skip


def examples(*rows: dict[str, Any], n: int = 3) -> dict[str, list[str]]:
    frame = format_examples(pl.DataFrame(list(rows), infer_schema_length=None), n)
    return dict(frame.iter_rows())


def test_the_best_sentence_with_its_name() -> None:
    text = f"{PLAIN} {GOOD} It is small."
    assert examples(row("a", "F", text)) == {"Aves": [f"Genus spa, {AS_CAPTION}"]}


def test_other_families_first_then_the_rest() -> None:
    rows = [row(str(n), "F", f"{GOOD} {PLAIN}") for n in range(4)]
    rows.append(row("z", "G", f"{PLAIN} Its bill is short, strong and hooked."))
    chosen = examples(*rows)["Aves"]
    assert len(chosen) == 3 and chosen[1].startswith("Genus spz, the wings rather long, ")
    assert chosen == examples(*reversed(rows))["Aves"], "the order of rows decides nothing"
    assert len(set(chosen)) == 3
    twice = [row("a", "F", f"{GOOD} {PLAIN}"), row("a", "G", f"{GOOD} {PLAIN}")]
    assert len(examples(*twice)["Aves"]) == 1, "one organism in two families of a list"


def test_what_is_no_example() -> None:
    long = f"{GOOD[:-1]}, {GOOD[4:]}"
    assert len("The tail is red.") < FEWEST and len(long) > MOST
    assert examples(row("a", "F", f"The tail is red. {long}")) == {}
    assert examples(row("a", "F", GOOD)) == {}, "one kept sentence is too little to trust"
    assert examples(row("a", "F", f"{GOOD} {PLAIN}", status="no_page")) == {}
    assert examples(row("a", "F", f"{GOOD} {PLAIN}", "")) == {}
    fragment = row("a", "F", f"{GOOD} {PLAIN}")
    fragment["spans"] = [[4, len(GOOD)], [len(GOOD) + 5, len(GOOD) + 20]]
    assert examples(fragment) == {}


def test_examples_have_the_form_of_captions() -> None:
    assert caption_form("Aus albus", GOOD) == f"Aus albus, {AS_CAPTION}"
    assert caption_form("Aus albus", "They have long legs.") == "Aus albus has long legs."
    assert caption_form("Aus albus", "Leaves are opposite.") == "Aus albus, leaves opposite."
    for sentence in (
        "The back is brown and bears stripes.",
        "The head, which is black, is round.",
        "The legs are not red.",
        "Hunters are fond of the black head.",
        "The head is black" + ", and the back is red" * 6 + ".",
    ):
        assert caption_form("Aus albus", sentence) == ""


def test_examples_pass_the_rules_of_captions() -> None:
    name, text = "Genus spa", examples(row("a", "F", f"{PLAIN} {GOOD}"))["Aves"][0]
    assert check_caption(text, (name,), MOST_WORDS) == (text, (), "")


def test_sentences_that_lean_on_others_come_last() -> None:
    assert score(GOOD) > score(GOOD.replace("The head", "Its head"))
    assert score(GOOD) > score(GOOD.replace("is brown", "is often brown")) > 0
    assert score(GOOD.replace("long", "9 cm long")) == 0, "no photo shows a measurement"
    assert score("Range and habits are known from a few old records of the coast only.") == 0


def test_no_descriptions_give_an_empty_table() -> None:
    frame = format_examples(pl.DataFrame([row("a", "F", GOOD)]).clear())
    assert frame.schema == {"class": pl.String, "examples": pl.List(pl.String)}
    assert frame.is_empty()
