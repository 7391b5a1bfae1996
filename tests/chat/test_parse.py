"""What holds for every answer: nothing that was not offered, and typography does not matter."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fieldmark.chat.parse.answer import parse_text
from fieldmark.chat.parse.mentions import Option
from fieldmark.chat.parse.stance import declines
from fieldmark.chat.parse.text import fold, strip_reasoning
from fieldmark.chat.parse.values import Parsed, without_sequel

SEX = (Option("m", "male", "A"), Option("f", "female", "B"))
BARE = (Option("m", "male"), Option("f", "female"))
FINCHES = (
    Option("house", "house finch", "A"),
    Option("purple", "purple finch", "B"),
    Option("song", "song sparrow", "C"),
)
TRAITS = (Option("trop", "tropical"), Option("salt", "saltwater"), Option("polar", "polar"))
YES_NO = (Option("same", "yes", "", ("same individual",)), Option("other", "no"))

CORPUS = [
    line["text"]
    for line in map(
        json.loads,
        Path(__file__).with_name("parse_corpus.jsonl").read_text("utf-8").splitlines(),
    )
    if "text" in line
]
MARKS = ("{", "[", "<answer>", "boxed")
"""stricter places than an answer line"""
PIECES = """A B C male female not a the is ( ) ** . , ? or answer: Answer: { } " [ ] yes no :
<think> </think> tropical 7 - house finch purple \\boxed{A} {"answer": "B"}"""
pieces = st.sampled_from([*PIECES.split(), "\n"])
answers = st.one_of(
    st.text(max_size=60),
    st.sampled_from(CORPUS),
    st.lists(pieces, max_size=14).map(" ".join),
)


@given(answers, st.sampled_from([SEX, BARE, FINCHES, YES_NO]), st.booleans())
def test_no_label_that_was_not_offered(
    text: str, options: tuple[Option, ...], is_cut: bool
) -> None:
    for form in ("choice", "yes_no"):
        found = parse_text(text, options, form, is_cut=is_cut)  # type: ignore[arg-type]
        assert found.label in {None, *(each.label for each in options)}
        assert (found.label is None) == bool(found.why)


@given(answers)
def test_no_trait_that_was_not_offered(text: str) -> None:
    found = parse_text(text, TRAITS, "labels")
    assert set(found.labels) <= {each.label for each in TRAITS}
    assert found.label is None or found.label == "; ".join(found.labels)


@given(answers)
def test_counts_are_whole_numbers_that_were_offered(text: str) -> None:
    free = parse_text(text, (), "count").label
    assert free is None or (free.isascii() and free.isdigit())
    allowed = tuple(Option(str(n), str(n)) for n in range(5))
    assert parse_text(text, allowed, "count").label in (None, "0", "1", "2", "3", "4")


@given(answers, st.text(alphabet=" \n\t\r\u00a0", max_size=5), st.sampled_from([SEX, FINCHES]))
def test_space_around_does_not_matter(text: str, space: str, options: tuple[Option, ...]) -> None:
    assert parse_text(space + text + space, options) == parse_text(text, options)


@given(answers, st.sampled_from([BARE, YES_NO]))
def test_case_of_names_does_not_matter(text: str, options: tuple[Option, ...]) -> None:
    assume("{" not in text)  # TRUE is no JSON
    assert (
        parse_text(text.upper(), options).label == parse_text(text.upper().lower(), options).label
    )


@pytest.mark.parametrize("text", ["b", "(b)", "answer: b", "option b", "**b**", '{"answer": "b"}'])
def test_case_of_letters_does_not_matter_in_strict_places(text: str) -> None:
    assert parse_text(text, SEX).label == parse_text(text.upper(), SEX).label == "f"


@given(
    answers.filter(lambda text: strip_reasoning(text) is not None),
    answers.filter(lambda text: strip_reasoning(text) == text),
    st.sampled_from(["think", "thinking", "reasoning", "THINK"]),
)
def test_reasoning_before_does_not_matter(text: str, thought: str, tag: str) -> None:
    assert parse_text(f"<{tag}>{thought}</{tag}>{text}", FINCHES) == parse_text(text, FINCHES)


@given(st.sampled_from(CORPUS))
def test_the_form_asked_for_is_read_whatever_stands_before(reasons: str) -> None:
    told = strip_reasoning(reasons)
    if told is None or without_sequel(told) != told or any(mark in told for mark in MARKS):
        return
    assert parse_text(f"{told}\nAnswer: C", FINCHES).label == "song"


def test_a_cut_answer_counts_only_in_a_strict_place() -> None:
    reasons = "The crown is brown, so it is a female"
    assert parse_text(reasons, SEX).label == "f"
    assert parse_text(reasons, SEX, is_cut=True) == Parsed(None, "", "cut off")
    assert parse_text("Answer: B\nThe crown", SEX, is_cut=True).label == "f"
    assert parse_text("I think the answer is A\nbut the", SEX, is_cut=True).label is None
    assert parse_text('{"answer": "B", "reasons": "the cr', SEX, is_cut=True).label == "f"
    assert parse_text("<answer>B</answer>", SEX, is_cut=True).label == "f"


def test_a_value_that_was_cut_is_not_a_value() -> None:
    assert parse_text("Answer: 1", (), "count", is_cut=True).why == "cut off"  # of 12
    assert parse_text("Answer: tropical, salt", TRAITS, "labels", is_cut=True).label is None
    assert parse_text("A", SEX, is_cut=True).label is None  # of "A young bird"


def test_no_reply_is_not_the_word_none() -> None:
    traits = (*TRAITS, Option("none", "none"))
    assert parse_text(None, traits, "choice") == Parsed(None, "", "empty")
    assert parse_text(None, TRAITS, "labels").label is None


def test_refusing_is_told_apart_from_answering_badly() -> None:
    assert parse_text("I'm sorry, I can't help with that.", SEX).outcome == "refused"
    assert parse_text("I cannot tell.", SEX).outcome == "refused"
    assert parse_text("It is a sparrow.", SEX).outcome == "unparsed"
    assert declines("The bird is a male.") == ""


@pytest.mark.slow
def test_long_and_nested_texts_take_no_time() -> None:
    for text in ("{" * 3000, "[" * 3000, "<think>" * 3000, "**" * 3000, "A or B. " * 800):
        assert parse_text(text, SEX).label is None
    assert parse_text('{"a":' * 3000, SEX).label is None
    start = time.process_time()
    for piece in ("a ", "**male ", "Answer ", "? ", "B ", "option "):
        for options, form in ((SEX, "choice"), (TRAITS, "labels"), ((), "count")):
            parse_text(piece * 40_000, options, form)  # type: ignore[arg-type]
    assert time.process_time() - start < 20  # going back in a text of this length takes far more


def test_names_are_compared_without_typography() -> None:
    same = [
        "Rathke’s Woodlouse",
        "rathke's_woodlouse",
        "RATHKE‘S-WOODLOUSE",
        "the Rathke's woodlouse",
    ]
    assert len({fold(name) for name in same}) == 1
    assert fold("Ångström’s ﬁnch") == ("angstroms", "finch")


# --- the parser of small-data-metrics: each of these was wrong ---


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The bird is **male**", "m"),  # bold had to start the text, then difflib said female
        ("**female** is my answer, there is no **red**", "f"),  # greedy .* between the stars
        ("MALE", "m"),  # case-sensitive
        ("I cannot tell.", None),  # difflib with cutoff 0 always returned a class
        ("", None),
        ("As an AI, I cannot help with that.", None),
    ],
)
def test_defect_small_data_metrics_parser(text: str, label: str | None) -> None:
    assert parse_text(text, BARE).label == label


def test_defect_small_data_metrics_last_bold_wins_over_rather_than() -> None:
    assert parse_text("**A** rather than **B**", SEX).label == "m"


def test_defect_small_data_metrics_failures_score_about_chance() -> None:
    junk = ["", "?", "ok", "The photo is nice.", "lorem ipsum", "I see a bird.", "fem", "mal"]
    assert [parse_text(text, BARE).label for text in junk] == [None] * len(junk)


def test_defect_vlmevalkit_notice_is_not_no() -> None:
    assert parse_text("I notice nothing now", YES_NO, "yes_no").label is None


def test_defect_answer_is_not_option_a() -> None:
    assert parse_text("Answer", SEX).label is None
    assert parse_text("Answer: the animal is unknown", SEX).outcome == "refused"


def test_defect_seedbench_first_character() -> None:
    assert parse_text("The answer is B", SEX).label == "f"


@pytest.mark.parametrize("text", ["[" * 20_000, "- " + "\ufffd" * 20_000, "\n" * 60_000])
def test_no_answer_takes_long_to_read(text: str) -> None:
    """Found by fuzzing: each of a thousand marks was tried in turn."""
    began = time.process_time()
    options = [Option("m", "male", "A"), Option("f", "female", "B")]
    assert parse_text(f"Answer: {text}x wren", options).label is None
    assert time.process_time() - began < 3
