"""Can a language model's answer put a word into a description that the text does not hold?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.describe import chat_filter
from fieldmark.build.describe.chat_filter import PROMPT, ChatFilter, FilteredText
from fieldmark.build.describe.quotes import SentenceBlock, cut_text, merged, read_quotes
from fieldmark.build.describe.sentences import Span, split_sentences
from fieldmark.chat import Answer, Budget, MockScript, chat_model
from fieldmark.errors import ModelError
from kit.chat import FAST, CountingServer, running

TEXT = "The wings are blue. It sings at dawn. The tail is long and red.\n\nIts range is small."
LOOKS = ["The wings are blue.", "The tail is long and red."]


def quoted(*pairs: tuple[int, str]) -> str:
    return json.dumps({"spans": [{"sentence": n, "quote": quote} for n, quote in pairs]})


def filtered(
    tmp_path: Path, texts: list[tuple[str, str]], answers: Any = None, **script: Any
) -> tuple[dict[str, FilteredText], ChatFilter, CountingServer]:
    server = CountingServer(MockScript(**script), answers=answers)
    server.is_recording = True
    with running(server) as url:
        model = chat_model(f"chat/mock/wren?base_url={url}")
        by_chat = ChatFilter(model, tmp_path / "journal", FAST)
        results = list(by_chat.filter(texts))
    assert len({result.key for result in results}) == len(results) == len(texts)
    return {result.key: result for result in results}, by_chat, server


def words(result: FilteredText, text: str) -> list[str]:
    return [text[span.start : span.end] for span in result.spans]


def test_what_is_kept_stands_in_the_text(tmp_path: Path) -> None:
    results, by_chat, _ = filtered(tmp_path, [("a", TEXT), ("b", "")], skill=1.0)
    assert words(results["a"], TEXT) == LOOKS
    assert results["b"] == FilteredText("b", ())
    assert by_chat.totals.n_texts == 2 and by_chat.totals.n_requests == 1


def test_a_part_of_a_sentence_can_be_kept_and_overlaps_are_one(tmp_path: Path) -> None:
    say = quoted((3, "long and red"), (3, "is long"), (1, LOOKS[0]), (1, LOOKS[0]))
    results, by_chat, _ = filtered(tmp_path, [("a", TEXT)], {"Sentences": say})
    assert words(results["a"], TEXT) == [LOOKS[0], "is long and red"]
    assert by_chat.totals.n_asked_again == 0


@pytest.mark.parametrize("wrong", [
    (1, "The wings are sky blue."),
    (1, "the wings are blue."),
    (2, LOOKS[0]),
    (9, LOOKS[0]),
    (0, LOOKS[0]),
    (-1, "Its range is small."),
    (1, ""),
    (1, " "),
    (1, "ings are blue"),
    (1, "The wings are bl"),
    (1, "The  wings"),
])  # fmt: skip
def test_a_false_quote_is_asked_for_again_and_then_dropped(
    tmp_path: Path, wrong: tuple[int, str]
) -> None:
    say = quoted(wrong, (3, LOOKS[1]))
    results, by_chat, server = filtered(tmp_path, [("a", TEXT)], {"Sentences": say})
    assert words(results["a"], TEXT) == [LOOKS[1]] and results["a"].n_dropped == 1
    assert server.counts.n_requests == 2 == by_chat.totals.n_requests
    assert by_chat.totals.n_asked_again == by_chat.totals.n_dropped == 1


def test_what_was_wrong_is_told_and_mended(tmp_path: Path) -> None:
    def say(text: str, _: Mapping[str, Any]) -> str:
        is_told = '"The wings are red." is not in sentence 1' in text
        return quoted((1, LOOKS[0] if is_told else "The wings are red."))

    results, by_chat, _ = filtered(tmp_path, [("a", TEXT)], say)
    assert words(results["a"], TEXT) == LOOKS[:1]
    assert by_chat.totals.n_dropped == 0 and by_chat.totals.n_asked_again == 1


def test_a_second_answer_that_cannot_be_read_leaves_the_first(tmp_path: Path) -> None:
    answers = {"Sentences": [quoted((1, "red wings"), (3, LOOKS[1])), "I am sorry."]}
    results, by_chat, _ = filtered(tmp_path, [("a", TEXT)], answers)
    assert words(results["a"], TEXT) == [LOOKS[1]] and not results["a"].error
    assert by_chat.totals.n_dropped == 1


@pytest.mark.parametrize(("say", "why"), [
    ("The wings are blue.", "not the JSON"),
    ('{"spans": 3}', "not the JSON"),
    ('{"spans": [{"sentence": 1', "not the JSON"),
    ("<think>Hm.", "not the JSON"),
])  # fmt: skip
def test_an_answer_that_is_no_json_is_an_error_of_its_text(
    tmp_path: Path, say: str, why: str
) -> None:
    other = "Another bird has blue wings."
    results, _, _ = filtered(tmp_path, [("a", TEXT), ("b", other)], {LOOKS[1]: say}, skill=1.0)
    assert why in results["a"].error and not results["a"].spans
    assert words(results["b"], other) == [other]


@pytest.mark.parametrize(("script", "why"), [
    ({"p_refuse": 1.0}, "refused"), ({"p_length": 1.0}, "cut off"), ({"p_unclear": 1.0}, "JSON"),
])  # fmt: skip
def test_no_answer_is_not_an_empty_text(tmp_path: Path, script: dict[str, float], why: str) -> None:
    results, by_chat, _ = filtered(tmp_path, [("a", TEXT)], **script)
    assert why in results["a"].error and by_chat.totals.n_errors == 1


def test_json_in_a_fence_after_thoughts_is_read(tmp_path: Path) -> None:
    say = f"<think>{quoted((2, 'It sings'))}</think>```json\n{quoted((1, LOOKS[0]))}\n```"
    results, _, _ = filtered(tmp_path, [("a", TEXT)], {"Sentences": say})
    assert words(results["a"], TEXT) == LOOKS[:1]


def test_long_texts_are_cut_at_sentences(tmp_path: Path) -> None:
    text = " ".join(f"Leaf {n} is green. It grows in place {n}." for n in range(300))
    blocks = cut_text(text, split_sentences(text))
    assert len(blocks) > 10
    assert [s for block in blocks for s in block.sentences] == [
        text[span.start : span.end] for span in split_sentences(text)
    ]
    results, _, server = filtered(tmp_path, [("a", text)], skill=1.0)
    assert words(results["a"], text) == [f"Leaf {n} is green." for n in range(300)]
    assert server.counts.n_requests == len(blocks)


def test_one_bad_block_is_an_error_of_the_whole_text(tmp_path: Path) -> None:
    text = " ".join(f"Leaf {n} is green." for n in range(100))
    results, _, _ = filtered(tmp_path, [("a", text)], {"Leaf 99 is": "no"}, skill=1.0)
    assert results["a"].error and not results["a"].spans


def test_odd_spaces_are_shown_as_blanks_and_kept_as_they_are(tmp_path: Path) -> None:
    text = "It is rare.\n\nThe\u00a0wing is 3\u2009mm\tlong and blue."
    results, by_chat, _ = filtered(tmp_path, [("a", text)], skill=1.0)
    assert words(results["a"], text) == ["The\u00a0wing is 3\u2009mm\tlong and blue."]
    assert by_chat.totals.n_asked_again == 0


def test_the_same_text_is_paid_for_once(tmp_path: Path) -> None:
    texts = [(str(n), f"{TEXT} The back is number {n}.") for n in range(20)]
    server = CountingServer(MockScript(skill=0.7, p_invent=0.4))
    with running(server) as url:
        model = chat_model(f"chat/mock/wren?base_url={url}")
        first, again = (ChatFilter(model, tmp_path / "journal", FAST) for _ in range(2))
        before = sorted(first.filter(texts), key=lambda result: result.key)
        n = server.counts.n_requests
        after = sorted(again.filter(reversed(texts)), key=lambda result: result.key)
    assert before == after and server.counts.n_requests == n
    assert again.totals.n_replayed == again.totals.n_requests == n > 20


def test_errors_are_asked_again_only_if_wanted(tmp_path: Path) -> None:
    answers = {LOOKS[1]: ["I cannot.", quoted((1, LOOKS[0]))]}
    server = CountingServer(MockScript(skill=1.0), answers=answers)
    texts = [("a", TEXT), ("b", "A blue wing.")]
    with running(server) as url:
        model = chat_model(f"chat/mock/wren?base_url={url}")
        for is_wanted, n_requests, n_errors in ((False, 2, 1), (False, 2, 1), (True, 3, 0)):
            by_chat = ChatFilter(model, tmp_path, FAST, asks_errors_again=is_wanted)
            list(by_chat.filter(texts))
            assert (server.counts.n_requests, by_chat.totals.n_errors) == (n_requests, n_errors)


def test_who_stops_listening_stops_the_asking(tmp_path: Path) -> None:
    texts = [(str(n), f"{TEXT} The back is number {n}.") for n in range(300)]
    server = CountingServer(MockScript(skill=1.0, latency_s=0.02))
    with running(server) as url:
        model = chat_model(f"chat/mock/wren?base_url={url}")
        by_chat = ChatFilter(model, tmp_path, FAST)
        results = by_chat.filter(texts)
        next(results)
        results.close()
        assert server.counts.n_requests < 200
        assert len(list(ChatFilter(model, tmp_path, FAST).filter(texts))) == 300


def test_a_cap_stops_with_what_is_kept_and_goes_on(tmp_path: Path) -> None:
    texts = [(str(n), f"{TEXT} The back is number {n}.") for n in range(40)]
    server = CountingServer(MockScript(skill=1.0))
    with running(server) as url:
        model = chat_model(f"chat/mock/wren?base_url={url}")
        capped = ChatFilter(model, tmp_path, FAST, Budget(max_tokens=8_000))
        some: list[str] = []
        with pytest.raises(ModelError, match="kept. Run the same command to continue"):
            some.extend(result.key for result in capped.filter(texts))
        n_before = server.counts.n_requests
        whole = ChatFilter(model, tmp_path, FAST)
        assert len(list(whole.filter(texts))) == 40
    assert 0 < n_before < 40 and server.counts.n_requests == 40
    assert capped.totals.n_texts == len(some) == n_before


def test_the_instruction_comes_before_the_text_and_is_the_same(tmp_path: Path) -> None:
    server = CountingServer()
    server.keeps_bodies = True
    with running(server) as url:
        model = chat_model(f"chat/mock/wren?base_url={url}")
        list(ChatFilter(model, tmp_path, FAST).filter([("a", TEXT), ("b", "The bill is red.")]))
    starts = {body["messages"][0]["content"][0]["text"] for body in server.bodies}
    assert starts == {PROMPT} and len(server.bodies) == 2
    schema = server.bodies[0]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == ["spans"]


def test_models_that_think_get_room_for_it(tmp_path: Path) -> None:
    calm, thinking = (
        ChatFilter(chat_model(name), tmp_path).estimate([("a", TEXT)]).tokens_out
        for name in ("chat/openai/gpt-4o-mini", "chat/openai/gpt-5-mini")
    )
    assert calm < 400 and thinking > 16_000


def test_a_full_block_fits_into_a_small_context(tmp_path: Path) -> None:
    text = "The wings are blue with a white band across the middle of the outer half. " * 40
    guess = ChatFilter(chat_model("chat/openai/gpt-4o-mini"), tmp_path).estimate([("a", text)])
    assert guess.n == 2 and (guess.tokens_in + guess.tokens_out) / guess.n < 4096


def test_sentences_without_a_text_are_decided_one_by_one(tmp_path: Path) -> None:
    sentences = [f"Sentence {n}{' has wings' if n % 3 else ''}." for n in range(50)]
    server = CountingServer(MockScript(skill=1.0), answers={"Sentence 49": "no JSON"})
    with running(server) as url:
        model = chat_model(f"chat/mock/wren?base_url={url}")
        kept = ChatFilter(model, tmp_path, FAST).keep(sentences)
    assert kept[:40] == [bool(n % 3) for n in range(40)]
    assert kept[40:] == [None] * 10


def test_identity_changes_with_the_model_and_names_the_prompt(tmp_path: Path) -> None:
    one, two = (
        ChatFilter(chat_model(name), tmp_path).identity
        for name in ("chat/mock/wren?skill=1", "chat/mock/wren?skill=0.5")
    )
    assert one["prompt"] == two["prompt"] == chat_filter.PROMPT_HASH
    assert one["fingerprint"] != two["fingerprint"]


def test_an_estimate_sends_nothing(tmp_path: Path) -> None:
    by_chat = ChatFilter(chat_model("chat/openai/gpt-4o-mini"), tmp_path)
    guess = by_chat.estimate([("a", TEXT), ("b", TEXT * 200)])
    assert guess.n > 5 and guess.tokens_in > guess.n * 500 and guess.usd


entries = st.lists(
    st.fixed_dictionaries({
        "sentence": st.one_of(st.integers(-2, 9), st.text(max_size=3), st.none()),
        "quote": st.one_of(st.sampled_from(TEXT.split(" ")), st.text(max_size=9), st.none()),
    }) | st.text(max_size=3),
    max_size=6,
)  # fmt: skip


@pytest.mark.slow
@given(entries, st.data())
def test_no_answer_can_make_a_span_that_leaves_its_sentence(
    spans: list[object], data: st.DataObject
) -> None:
    (block,) = cut_text(TEXT, sentences := split_sentences(TEXT))
    cut = data.draw(st.integers(0, len(TEXT)))
    spans.append({"sentence": 1, "quote": TEXT[cut : cut + 12]})
    answer = Answer("ok", json.dumps({"spans": spans}))
    result = read_quotes(answer, block)
    for span in result.spans:
        assert any(own.start <= span.start < span.end <= own.end for own in sentences)
    assert len(result.spans) + len(result.problems) <= len(spans)


def test_spans_that_only_touch_stay_apart() -> None:
    assert merged([Span(5, 9), Span(0, 5), Span(7, 8)]) == (Span(0, 5), Span(5, 9))


@pytest.mark.parametrize(("sentence", "quote", "problem"), [
    ("The unspotted wings shine.", "spotted wings", "cuts a word of"),
    ("The non-spotted wings shine.", "spotted wings", "cuts a word of"),
    ("The tail is 1.5 cm long.", "5 cm long", "cuts a word of"),
    ("The tail is 3–6 cm long.", "6 cm long", "cuts a word of"),
    ("The male's wings are red.", "The male", "cuts a word of"),
    ("The male does not have a crest.", "have a crest", "leaves out 'not' of"),
    ("It doesn't have a red crest.", "a red crest", "leaves out \"doesn't\" of"),
    ("It lacks a crest.", "a crest", "leaves out 'lacks' of"),
    ("A red crest is absent in females.", "A red crest", "leaves out 'absent' of"),
    ("Leaves are green.", "leaves are", "is not in"),
    ("It lacks a crest.", "lacks a crest", ""),
    ("It lacks a crest, but has a red comb.", "has a red comb", ""),
    ("A white tail, not a white rump, shows.", "white tail", ""),
    ("White, the tail (white) shows.", "white", ""),
    ("The tail is not forked but rounded.", "rounded.", ""),
    ("Not white but pale; white below.", "white below", ""),
    ("Ends in 5.", "Ends in 5", ""),
])  # fmt: skip
def test_a_quote_keeps_words_and_negations_whole(sentence: str, quote: str, problem: str) -> None:
    place = SentenceBlock.of_sentences(["First.", sentence]).place(2, quote)
    if problem:
        assert isinstance(place, str) and f"{problem} sentence 2" in place
    else:
        assert isinstance(place, Span) and f"First.{sentence}"[place.start : place.end] == quote


def test_a_model_on_this_machine_is_asked_alike(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from kit.tiny_chat import KINDS, load_tiny, save_tiny

    model = load_tiny(save_tiny(KINDS[0], tmp_path / "tiny"), "?max_tokens=8&context=8192")
    texts = [("a", TEXT), ("b", ""), ("c", LOOKS[0])]
    first, again = (ChatFilter(model, tmp_path / "journal") for _ in range(2))
    results = {result.key: result for result in first.filter(texts)}
    assert results["b"] == FilteredText("b", ())
    assert results["a"].error and results["c"].error, "untrained, it answers no JSON"
    assert {result.key: result for result in again.filter(texts)} == results
    assert again.totals.n_replayed == again.totals.n_requests == 2
