"""Filters of task files: each against what the guide says of it, and hostile input."""

from __future__ import annotations

import re

import pytest

from fieldmark.errors import UnknownName, UsageError
from fieldmark.lmms.score import filters
from fieldmark.lmms.score.filters import (
    ExtendedRegexFilter,
    MapFilter,
    ResponseFilter,
    make_filter,
    reasoning_tags,
    register_filter,
    run_pipeline,
    strip_reasoning,
    strip_response,
)

NO_DOCS: list[dict[str, object]] = [{}, {}]


def _run(steps, resps, docs=None):
    docs = docs if docs is not None else [{} for _ in resps]
    return run_pipeline([make_filter(name, options) for name, options in steps], resps, docs)


def test_take_first_takes_the_first_or_nothing():
    assert _run([("take_first", {})], [["a", "b"], []]) == ["a", ""]


def test_take_first_leaves_what_is_one_text_already():
    assert _run([("take_first", {})], ["answer"]) == ["answer"]


def test_take_first_k_takes_k():
    assert _run([("take_first_k", {"k": 2})], [["a", "b", "c"], ["d", "e"]]) == [
        ["a", "b"],
        ["d", "e"],
    ]


def test_take_first_k_tells_of_any_document_with_fewer():
    with pytest.raises(UsageError, match="needs 3 responses of a document, found 2.*repeats: 3"):
        _run([("take_first_k", {"k": 3})], [["a"] * 3, ["a"] * 2])


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        (["a", "b", "b"], ["b"]),
        (["b", "a", "a", "b"], ["b"]),  # of equals the first seen
        ([["x"], ["y"], ["y"]], [["y"]]),  # what cannot be hashed
        ([], []),
    ],
)
def test_majority_vote(responses, expected):
    assert _run([("majority_vote", {})], [responses]) == [expected]


@pytest.mark.parametrize(
    ("options", "response", "expected"),
    [
        ({}, "so #### 1,200. and #### 7", "1,200."),
        ({"group_select": -1}, "so #### 12 and #### 7", "7"),
        ({}, "no number", "[invalid]"),
        ({"fallback": "?"}, "no number", "?"),
        ({"group_select": 3}, "#### 12", "[invalid]"),  # upstream raises IndexError
        ({"regex_pattern": "(x)|(y )"}, "y x", "y"),  # of groups the first not empty, stripped
        ({"regex_pattern": "(x?)(y?)"}, "z", "[invalid]"),  # all groups empty
        ({}, None, "[invalid]"),
    ],
)
def test_regex(options, response, expected):
    assert _run([("regex", options)], [[response]]) == [[expected]]


def test_a_pattern_that_is_none_is_told_with_its_place():
    with pytest.raises(
        UsageError, match=r"^task\.yaml:7  pattern '\(' is not a regular expression"
    ):
        make_filter("regex", {"regex_pattern": "("}, "task.yaml:7")


def test_remove_whitespace_drops_one_leading_space():
    assert _run([("remove_whitespace", {})], [["  a ", "b"]]) == [[" a ", "b"]]


def test_case_and_map():
    steps = [("lowercase", {}), ("map", {"mapping_dict": {"one": 1}, "default_value": 0})]
    assert _run(steps, [["ONE", "Two"]]) == [[1, 0]]
    assert _run([("uppercase", {})], [["ß"]]) == [["SS"]]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("I say (B) or (C)", "(B)"),
        ("it is a red fox.", "(B)"),  # by the choice's own words
        ("answer: C", "(C)"),  # by a letter after a colon
        ("none of them", "[none]"),
    ],
)
def test_multi_choice_regex(response, expected):
    options = {"regex_pattern": r"(\([A-Z]\))", "fallback": "[none]", "ignore_case": True}
    doc = {"choices": ["a wren", "A Red Fox", "an oak"]}
    assert _run([("multi_choice_regex", options)], [[response]], [doc]) == [[expected]]


def test_multi_choice_regex_ignores_what_it_shall():
    options = {"ignore_punctuation": True, "regexes_to_ignore": ["the "]}
    doc = {"choices": ["the red-fox"]}
    assert _run([("multi_choice_regex", options)], [["redfox!"]], [doc]) == [["(A)"]]


def test_multi_choice_regex_survives_more_choices_than_letters():
    doc = {"choices": [f"kind number {n}" for n in range(40)]}
    found = _run([("multi_choice_regex", {})], [["nothing"]], [doc])
    assert found == [["[invalid]"]]


def test_multi_choice_regex_wants_choices():
    with pytest.raises(UsageError, match="needs the column 'choices'.*'choice' is nearest"):
        _run([("multi_choice_regex", {})], [["a"]], [{"choice": ["a"]}])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think> b", "b"),
        ("<think>a</think>b<think>c</think>d", "bd"),
        ("thought so</think> b", "b"),  # the prompt held the opening tag
        ("x</think>y</think>z", "z"),
        ("<think>never ends", "<think>never ends"),
        ("</think> a <think>", "</think> a <think>"),
        (" plain ", "plain"),
    ],
)
def test_strip_reasoning(text, expected):
    assert strip_reasoning(text, [("<think>", "</think>")]) == expected


def test_strip_thinking_knows_its_tags_and_leaves_other_things():
    found = _run([("strip_thinking", {})], [["<thinking>a</thinking>b", None, 3]])
    assert found == [["b", None, 3]]
    assert _run([("strip_thinking", {"tag_pairs": [["[", "]"]]})], [["[a]b"]]) == [["b"]]


def test_strip_response_takes_texts_and_lists():
    tags = reasoning_tags(None)
    assert strip_response("<analysis>a</analysis>b", tags) == "b"
    assert strip_response(["<think>a</think>b", (1.0, True)], tags) == ["b", (1.0, True)]
    assert strip_response((1.0, True), tags) == (1.0, True)


def test_reasoning_tags():
    assert reasoning_tags("none") == () == reasoning_tags(False)
    assert reasoning_tags('[["<a>", "</a>"]]') == (("<a>", "</a>"),)
    assert reasoning_tags([["<a>", "</a>"]]) == (("<a>", "</a>"),)
    with pytest.raises(UsageError, match="expected pairs"):
        reasoning_tags("think")
    with pytest.raises(UsageError, match="expected pairs"):
        reasoning_tags([["<a>"]])


def test_unknown_filter_has_the_closest():
    with pytest.raises(UnknownName, match=r"^t\.yaml:3  filter 'take_frist'.*'take_first'"):
        make_filter("take_frist", {}, "t.yaml:3")


def test_wrong_options_are_told():
    with pytest.raises(UsageError, match="'regex' has the option 'regexp'.*regex_pattern"):
        make_filter("regex", {"regexp": "x"})
    with pytest.raises(UsageError, match="'take_first_k' has no option: expected k"):
        make_filter("take_first_k", {})


def test_users_bring_classes_functions_and_factories():
    class Shout(ExtendedRegexFilter):
        def apply(self, resps, docs):
            kept = self.find_match(re.compile("[a-z]+"), self.filter_ignores("XY"), {"xy": "XY!"})
            return ([kept + doc["mark"]] for _, doc in zip(resps, docs, strict=True))

    def reverse(resps, docs, twice=False):
        return [[each[::-1] * (2 if twice else 1) for each in some] for some in resps]

    def factory(table):
        return MapFilter(table)

    docs = [{"mark": "1"}]
    steps = [
        make_filter(Shout, {"ignore_case": True}),
        make_filter(reverse, {"twice": True}),
        make_filter(factory, {"table": {"1!YX1!YX": "found"}}),
        make_filter("take_first"),
    ]
    assert run_pipeline(steps, [["x"]], docs) == ["found"]
    assert _run([("custom", {"filter_fn": reverse})], [["ab"]]) == [["ba"]]


def test_code_that_fails_is_one_line():
    class Broken(ResponseFilter):
        def apply(self, resps, docs):
            return (1 / 0 for _ in resps)

    class Fewer(ResponseFilter):
        def apply(self, resps, docs):
            return resps[1:]

    with pytest.raises(UsageError, match=r"^t\.yaml:4  Broken failed: ZeroDivisionError"):
        run_pipeline([Broken()], [["a"]], [{}], "t.yaml:4")
    with pytest.raises(UsageError, match=r"^t\.yaml:4  filter Fewer gave 1 for 2 requests"):
        run_pipeline([Fewer()], [["a"], ["b"]], NO_DOCS, "t.yaml:4")


def test_register_filter_adds_and_keeps_names_apart(monkeypatch):
    monkeypatch.setattr(filters, "FILTERS", dict(filters.FILTERS))
    register_filter("identity_of_a_test", ResponseFilter)
    assert _run([("identity_of_a_test", {})], [["a"]]) == [["a"]]
    with pytest.raises(UsageError, match="already exists"):
        register_filter("regex", ResponseFilter)
