"""Sentences: spans that cover the text, split where a reader would."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.describe.sentences import split_sentences


def sentences_of(text: str) -> list[str]:
    return [text[span.start : span.end] for span in split_sentences(text)]


WHOLE = [
    "It is 1.5 cm. long and 3.2 cm wide.",
    "It grows to ca. 5 m tall, e.g. in Spain, i.e. in the south.",
    "C. lupus is larger than C. l. arctos and Canis lupus L. var. albus Mill.",
    "Rosa canina subsp. canina f. alba (L.) Mill. is white.",
    "It was painted by J. J. Audubon and Dr. A. Smith in St. Louis.",
    "It (rarely seen. But known) is red.",
    "The wings are red; the tail is blue; the head is grey.",
    "A “big. red” bird, approx. 5 in. long vs. 6 in. for males.",
    "It has spots ... and stripes… on the wings.",
    "The bird (cf. Fig. 2) has No. 3 feathers, etc., and more.",
    "Smith et al. 2010 and sp. nov. from the U.S. coast.",
    "It weighs 5 kg (11 lb.) on average.",
    "It was described by J. A. Miller from plate no. 3 on p. 12.",
]


@pytest.mark.parametrize("text", WHOLE)
def test_a_full_stop_need_not_end_a_sentence(text: str) -> None:
    assert sentences_of(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Fur grey.|Tail 5 cm.|It is big.",
        "It was named by L.|The flowers are red.",
        "Related to Quercus spp.|It has lobed leaves.",
        "It is red!|Is it big?|Yes.",
        "It has spots...|The tail is long.",
        "“It is red.”|It is big.",
        "(It is red.)|It is big.",
        "It is 5 cm long.|3 spots are black.",
        "It has teeth, claws, etc.|The tail is long.",
        "The wings are red.The tail is blue.",
        "Élan grey.|Éclat red.",
        "It lives in the U.S.|It is red.",
        "Wings 5–8 mm.|Legs black.",
        "A tree of 5 m.|Crown dense.",
        "It looks like a fig.|These trees are tall.",
    ],
)
def test_a_sentence_ends(text: str) -> None:
    parts = text.replace("red.The", "red.|The").split("|")
    assert sentences_of(text.replace("|", " ")) == parts


def test_lines_end_sentences() -> None:
    assert sentences_of("Has:\nred wings\nblue tail\n\n It is big") == [
        "Has:",
        "red wings",
        "blue tail",
        "It is big",
    ]


@given(st.text(alphabet='aB. (\n)"L5!?…;é\t\u2003’,', max_size=80) | st.text(max_size=60))
def test_spans_are_in_order_and_cover_all_text(text: str) -> None:
    here = 0
    for span in split_sentences(text):
        assert not text[here : span.start].strip()
        sentence = text[span.start : span.end]
        assert sentence == sentence.strip() != ""
        here = span.end
    assert not text[here:].strip()


@pytest.mark.parametrize(
    "piece", [".", "(", "A. ", "a.B", "(a. ", ". ", '."', "Aa.", "…", "..A ", "\t"]
)
def test_time_grows_with_length_only(piece: str) -> None:
    start = time.process_time()
    split_sentences(piece * (60_000 // len(piece)))
    assert time.process_time() - start < 3
