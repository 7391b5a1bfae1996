"""The gate: in running text a label is taken only if no other option is named and nothing is ruled
out; in the asked form it is always taken.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fieldmark.chat.parse.answer import Form, parse_text
from fieldmark.chat.parse.mentions import Option
from fieldmark.chat.parse.names import NamedTaxon, index_taxa

EAGLE = (
    Option("not_adult", "juvenile bald eagle", "A"),
    Option("adult", "adult bald eagle", "B"),
)
LION = (Option("cub", "cub", "A"), Option("adult", "adult", "B"))
SIDES = (Option("l", "left", "A"), Option("r", "right", "B"))
TYPES = (Option("a", "Type A", "B"), Option("b", "Type B", "A"))
SHARE = tuple(Option(n, f"{n}%", m) for n, m in (("5.5", "A"), ("10.5", "F"), ("0.5", "C")))
RGB = (Option("neg", "80,-80,100,-80", "A"), Option("pos", "80,80,100,20", "C"))
NTH = (Option("2", "the second image", "A"), Option("3", "the third image", "B"))
FINCH = (Option("house", "house finch", "A"), Option("purple", "purple finch", "B"))
TRAITS = (Option("barbel", "barbel"), Option("crest", "crest"), Option("spine", "spine"))
SAME = (
    Option("same", "yes", "", ("same individual", "same whale")),
    Option("different", "no", "", ("different individuals",)),
)
TAXA = index_taxa(
    [
        NamedTaxon("ochruros", "Phoenicurus ochruros", ("black redstart",)),
        NamedTaxon("phoenicurus", "Phoenicurus phoenicurus", ("common redstart",)),
    ]
)
HEADINGS = (
    "**Juvenile:**\n- brown\n\n**Adult:**\n- white head\n\n"
    "Based on these points, the bird in the photo is a juvenile bald eagle."
)
WHALES = "The whale was seen in 3 years: 2004, 2006, and 2008."


@pytest.mark.parametrize(
    ("text", "options", "form", "label"),
    [
        (HEADINGS, EAGLE, "choice", None),
        ("The lion is an adult. The cub behind it shows more spots.", LION, "choice", None),
        ("It is moving to the right, which shows more of the left side.", SIDES, "choice", None),
        ("This bird belongs to the second type, Type B, …", TYPES, "choice", None),
        ("This type of bird is common.", TYPES, "choice", None),
        ("Answer: Type A", TYPES, "choice", "a"),
        ("Answer: A", TYPES, "choice", "b"),
        ("The correct option is F. 10.5%.", SHARE, "choice", "10.5"),
        ("**C. 80,80,100,20**", RGB, "choice", "pos"),
        ("80,-80,100,-80", RGB, "choice", "neg"),
        (
            "It is not possible to determine which of the second or third image would be better.",
            NTH,
            "choice",
            None,
        ),
        ("The correct option is (A) house finch. It is browner than the purple finch.", FINCH,
         "choice", "house"),
        ("Answer: hous finch", FINCH, "choice", "house"),
        ("There are 5 in total. The answer is 3.", (), "count", "3"),
        ("Sold 0 units in all stores … total of **3**", (), "count", None),
        (WHALES, (), "count", None),
        ("I count 7 zebras: 4 in the foreground and 3 further back.", (), "count", "7"),
        ("The animal is not yet an adult.", LION, "choice", None),
        ("no evidence that this is a cub; everything points to an adult", LION, "choice", None),
        ("All of them except the barbel.", TRAITS, "labels", None),
        ("Both pictures show the same species of whale.", SAME, "yes_no", None),
        ("This is a black redstart, *P. ochruros*. It resembles the common redstart "
         "(*P. phoenicurus*)", TAXA, "open", None),
    ],
)  # fmt: skip
def test_root_causes_of_wrong_labels(text: str, options: object, form: Form, label: str) -> None:
    assert parse_text(text, options, form).label == label  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "options", "form", "is_loose"),
    [
        ("Answer: B", FINCH, "choice", False),
        ('{"answer": "B"}', FINCH, "choice", False),
        ("\\boxed{B}", FINCH, "choice", False),
        ("purple finch", FINCH, "choice", False),
        ("The bird is a purple finch.", FINCH, "choice", True),
        ("Answer: yes", SAME, "yes_no", False),
        ("It is the same individual.", SAME, "yes_no", True),
        ("Answer: crest, spine", TRAITS, "labels", False),
        ("The fish has a crest and shows a spine.", TRAITS, "labels", True),
        ("Answer: 5", (), "count", False),
        ("I see 5 birds.", (), "count", True),
        ("Answer: Phoenicurus ochruros", TAXA, "open", False),
        ("It is a black redstart.", TAXA, "open", True),
    ],
)
def test_every_form_tells_where_it_was_read(
    text: str, options: object, form: Form, is_loose: bool
) -> None:
    parsed = parse_text(text, options, form)  # type: ignore[arg-type]
    assert parsed.label is not None and parsed.is_loose == is_loose, parsed


STAGES = (Option("j", "juvenile", "A"), Option("a", "adult", "B"))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (
            "**juvenile**\n\nLet me know if you want to know more about this fascinating animal!",
            "j",
        ),
        ("Juvenile. Let me know if you want to know more!", "j"),
        ("A. Let me know if you want to know more!", "j"),
        ("The animal is in the juvenile stage.", "j"),
        ("It appears to be in its **adult** phase.", "a"),
        ("The animal is not in the juvenile stage.", None),
        ("It is in the juvenile stage that the spots fade.", None),
        ("It is between the juvenile and the adult stage.", None),
        ("Juvenile. Let me look again: it is an adult.", None),
    ],
)
def test_an_answer_with_small_talk_is_read(text: str, label: str | None) -> None:
    assert parse_text(text, STAGES).label == label


@pytest.mark.parametrize("text", ["Yes, let me look.", "Yes. I can help with that.", "No, sure."])
def test_small_talk_is_no_answer(text: str) -> None:
    assert parse_text(text, SAME, "yes_no").label is None


def test_why_tells_what_the_gate_saw() -> None:
    def why(text: str) -> str:
        parsed = parse_text(text, FINCH)
        assert parsed.label is None
        return parsed.why

    assert why("It is a purple finch. The house finch is browner.") == "several options are named"
    assert why("It is not a purple finch.") == "an option is ruled out or only weighed"
    assert why("A purple finch sang yesterday.") == "an option is named in passing"
    declined = "I can't identify it for you, but it is clearly a purple finch."
    assert why(declined) == "an option is named by a text that declines"
    assert why("A sparrow.") == "no option named"


LINES = [
    json.loads(line)
    for line in Path(__file__).with_name("parse_corpus.jsonl").read_text("utf-8").splitlines()
]
CHOICES = {
    line["set"]: tuple(Option(*option[:3]) for option in line["options"])
    for line in LINES
    if line.get("form") == "choice"
}
CORPUS = [line["text"] for line in LINES if "text" in line]


def test_naming_another_option_shuts_the_gate() -> None:
    n_loose = 0
    for line in LINES:
        if "text" not in line or line["set"] not in CHOICES:
            continue
        options, text = CHOICES[line["set"]], line["text"].rstrip(". ")
        parsed = parse_text(text, options)
        for option in options if parsed.is_loose else ():
            if option.label != parsed.label:
                n_loose += 1
                assert (
                    parse_text(f"{text}. There was one {option.name} nearby.", options).label
                    is None
                )
                assert parse_text(f"One {option.name} was near. {text}.", options).label is None
    assert n_loose > 30


@given(st.sampled_from(CORPUS), st.sampled_from(["Answer: {}", "**Answer: {}**", "Answer: {}."]))
def test_the_asked_form_is_always_read(reasons: str, form: str) -> None:
    assume(not any(mark in reasons for mark in ("{", "[", "<", "boxed", "◁", "User:", "Example:")))
    for option in FINCH:
        for value in (option.letter, option.name, f"{option.letter}. {option.name}"):
            assert parse_text(f"{reasons}\n{form.format(value)}", FINCH).label == option.label
