"""Values of single documents, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from fieldmark.errors import UnknownName, UsageError
from fieldmark.lmms.metrics.registry import metrics_for
from fieldmark.lmms.metrics.values import (
    TextMetric,
    choice_values,
    gold_places,
    likelihood_values,
    rolling_values,
    text_values,
)

CHOICES = ["ox", "a red fox", "éé"]
EVERY = [each for each in metrics_for("multiple_choice") if "test" not in each]


def _choice(logprobs, gold, wanted=("acc",), greedy=(False, True, False), choices=CHOICES, **more):
    return choice_values(wanted, logprobs, greedy, gold, choices, **more)


def test_every_value_of_a_document_with_choices():
    found = choice_values(
        EVERY, [-2.0, -4.0, -3.1], [False, True, False], 1, CHOICES, [-1.0, -9.0, -3.0]
    )
    expected = softmax([-2.0, -4.0, -3.1])
    assert found.pop("brier_score") == (1, pytest.approx(expected.tolist()))
    assert found == {
        "acc": 0.0,
        "acc_norm": 1.0,  # -1, -0.44, -1.55
        "acc_bytes": 1.0,  # -1, -0.44, -0.78
        "acc_mutual_info": 1.0,  # -1, 5, -0.1
        "exact_match": 1.0,
        "f1": (1, 0),
        "mcc": (1, 0),
        "matthews_corrcoef": (1, 0),
        "chance": pytest.approx(1 / 3),
        "bypass": [-2.0, -4.0, -3.1],
        "by_pass": [-2.0, -4.0, -3.1],
    }


def test_bytes_are_not_characters():
    found = _choice([-2.2, -9.0, -2.0], 2, ["acc_norm", "acc_bytes"], choices=["oxx", "ox", "éé"])
    assert found == {"acc_norm": 0.0, "acc_bytes": 1.0}


def test_defect_lmms_eval_choices_the_largest_sum_wins_and_ties_go_to_the_first():
    assert _choice([-1.0, -2.0, -3.0], 0) == {"acc": 1.0}
    assert _choice([-1.0, -1.0, -1.0], 0) == {"acc": 1.0}
    assert _choice([-1.0, -1.0, -1.0], 1) == {"acc": 0.0}


def test_nan_never_wins():
    assert _choice([math.nan, -5.0, -9.0], 1) == {"acc": 1.0}
    found = _choice([-math.inf] * 3, 1, ["acc", "brier_score"])
    assert found == {"acc": 0.0, "brier_score": (1, [1 / 3] * 3)}


@given(
    st.lists(st.floats(-50, 0), min_size=2, max_size=6),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
)
def test_choices_as_brute_force(logprobs, golds):
    choices = [letter * (place + 1) for place, letter in enumerate("abcdef"[: len(logprobs)])]
    greedy = [place % 2 == 0 for place in range(len(logprobs))]
    wanted = ["acc", "acc_norm", "exact_match"]
    found = choice_values(wanted, logprobs, greedy, golds, choices)
    per_letter = [each / len(text) for each, text in zip(logprobs, choices, strict=True)]
    assert found == {
        "acc": float(logprobs.index(max(logprobs)) in golds),
        "acc_norm": float(per_letter.index(max(per_letter)) in golds),
        "exact_match": float(any(greedy[g] for g in golds if g < len(greedy))),
    }


@pytest.mark.parametrize(
    ("gold", "places"),
    [
        (1, (1,)),
        (np.int64(2), (2,)),
        (2.0, (2,)),
        (True, (1,)),
        ("ox", (0,)),
        ("cow", ()),
        (3, ()),
        (-1, ()),
        (None, ()),
        ([0, 2, 7], (0, 2)),
        (["ox", 0], (0,)),
        ([], ()),
    ],
)
def test_gold_places(gold, places):
    assert gold_places(gold, CHOICES) == places


def test_a_gold_out_of_range_is_wrong_and_does_not_fail():
    wanted = ["acc", "exact_match", "mcc", "brier_score", "chance"]
    found = _choice([-1.0, -2.0, -3.0], 9, wanted)
    assert (found["acc"], found["exact_match"], found["mcc"]) == (0.0, 0.0, (-1, 0))
    assert found["chance"] == 0.0


def test_several_golds_make_a_pair_of_the_one_that_was_said():
    assert _choice([-9.0, -2.0, -3.0], [0, 1], ["mcc"]) == {"mcc": (1, 1)}
    assert _choice([-9.0, -2.0, -3.0], [2, 0], ["mcc"]) == {"mcc": (2, 1)}


def test_mistakes_about_choices_are_told():
    with pytest.raises(UsageError, match="3 choices have 2 log-probabilities and 3 greedy flags"):
        _choice([-1.0, -2.0], 0)
    with pytest.raises(UsageError, match="acc_mutual_info needs.*expected 3, found 0"):
        _choice([-1.0, -2.0, -3.0], 0, ["acc_mutual_info"])
    with pytest.raises(UsageError, match="metric 'bleu' cannot be computed for multiple_choice"):
        _choice([-1.0, -2.0, -3.0], 0, ["bleu"])
    with pytest.raises(UnknownName, match="Did you mean 'acc_norm'"):
        _choice([-1.0, -2.0, -3.0], 0, ["acc_nrm"])


def test_likelihood_and_rolling_values():
    assert likelihood_values(["acc", "perplexity"], -2.5, True) == {"acc": 1.0, "perplexity": -2.5}
    found = rolling_values(["word_perplexity", "byte_perplexity", "bits_per_byte"], " é  b\n", -7)
    assert found == {
        "word_perplexity": (-7.0, 2),
        "byte_perplexity": (-7.0, 7),
        "bits_per_byte": (-7.0, 7),
    }


def _one(name, response, target, function=None, higher_is_better=True, **options):
    metric = TextMetric(name, function, options, higher_is_better)
    return text_values([metric], response, target)[name]


def test_text_values_of_named_metrics():
    assert _one("exact_match", " Fox\n", "fox", ignore_case=True) == 1.0
    assert _one("exact_match", "fox", ["ox", "fox"]) == 1.0
    assert _one("exact_match", ["fox", "ox"], "fox") == 0.5
    assert _one("exact_match", None, "fox") == 0.0
    assert _one("anls", "foxx", ["cow", "foxy"]) == 0.75
    assert _one("anls", "foxx", "foxy", thresh_hold=0.8) == 0.0
    assert _one("bleu", " a fox ", "the fox") == ("the fox", "a fox")
    assert _one("ter", "a fox", ["the fox", "one fox"]) == (["the fox", "one fox"], "a fox")
    assert _one("by_pass", " raw ", "x") == "raw"


def test_text_values_of_users_functions():
    def by_keywords(references, predictions, factor=1):
        return {"near": factor * abs(len(references[0]) - len(predictions[0]))}

    def by_list(items):
        (wanted,), (said,) = items
        return float(wanted == said)

    assert _one("near", "abcd", "ab", by_keywords, factor=2) == 4
    assert _one("same", "ab", "ab", by_list) == 1.0
    assert _one("near", "abcd", ["ab", "abc"], by_keywords) == 2
    assert _one("near", "abcd", ["ab", "abc"], by_keywords, higher_is_better=False) == 1


def test_a_users_type_error_is_not_hidden_by_another_call():
    def broken(references, predictions):
        return len(3)

    with pytest.raises(TypeError, match="has no len"):
        _one("broken", "a", "b", broken)


def test_users_functions_that_do_not_fit_are_told():
    with pytest.raises(UsageError, match="metric 'two' with the options depth takes"):
        _one("two", "a", "b", lambda references, predictions: 0, depth=3)
    with pytest.raises(UsageError, match="gave 'other': expected a number, or a mapping with"):
        _one("mine", "a", "b", lambda references, predictions: {"other": 1})


def test_users_functions_are_called_by_the_given_way():
    seen = []

    def call(function, *args, **options):
        seen.append(function)
        return function(*args, **options)

    def mine(references, predictions):
        return 1.0

    metrics = [TextMetric("mine", mine), TextMetric("exact_match")]
    assert text_values(metrics, "a", "a", call) == {"mine": 1.0, "exact_match": 1.0}
    assert seen == [mine]
