"""Aggregations against independent libraries, and weights against documents that come twice."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import sacrebleu
from sklearn import metrics as sk

from fieldmark.errors import UnknownName, UsageError
from fieldmark.lmms.metrics import registry
from fieldmark.lmms.metrics.registry import (
    aggregation,
    document_metric,
    known_aggregations,
    known_document_metrics,
    metrics_for,
    register_aggregation,
)
from fieldmark.metrics import register_metric

RANDOM = np.random.default_rng(4)
WORDS = ["a", "small", "bird", "sings", "in", "the", "Old", "oak", ",", "at", "dawn", "."]


def _text() -> str:
    return " ".join(RANDOM.choice(WORDS, RANDOM.integers(0, 12)))


PAIRS = [(int(RANDOM.integers(2)), int(RANDOM.integers(2))) for _ in range(60)]
MANY = [(str(RANDOM.integers(4)), str(RANDOM.integers(5))) for _ in range(60)]
LIKELY = [(-float(RANDOM.gamma(3)), int(RANDOM.integers(1, 30))) for _ in range(40)]
ODDS = [(int(RANDOM.integers(3)), RANDOM.dirichlet([1, 1, 1]).tolist()) for _ in range(40)]
TEXTS = [([_text() for _ in range(RANDOM.integers(1, 4))], _text()) for _ in range(40)]
ONE_EACH = [(_text(), _text()) for _ in range(40)]
NUMBERS = RANDOM.normal(2, 3, 41).tolist()
MULTIRC = [
    (
        bool(RANDOM.integers(2)),
        {"idx": {"paragraph": i // 9, "question": i // 3 % 3}, "label": i % 2},
    )
    for i in range(45)
]

ITEMS = {
    "acc_all": MULTIRC,
    "bits_per_byte": LIKELY,
    "bleu": TEXTS,
    "brier_score": ODDS,
    "bypass": ["anything", None],
    "chrf": TEXTS,
    "f1": PAIRS,
    "f1_macro": MANY,
    "f1_micro": MANY,
    "matthews_corrcoef": MANY,
    "mcc": PAIRS,
    "mean": NUMBERS,
    "median": NUMBERS,
    "nanmean": [*NUMBERS, math.nan],
    "perplexity": [each[0] for each in LIKELY],
    "ter": TEXTS,
    "weighted_perplexity": LIKELY,
}
LABELS, SAID = zip(*MANY, strict=True)


def _brier(pairs):
    return np.mean([sum((p - (k == g)) ** 2 for k, p in enumerate(ps)) for g, ps in pairs])


def _streams(items):
    most = max(len(wanted) for wanted, _ in items)
    return [[(wanted + [None] * most)[i] for wanted, _ in items] for i in range(most)]


def _acc_all(items):
    groups: dict[tuple[int, int], list[bool]] = {}
    for said, doc in items:
        key = doc["idx"]["paragraph"], doc["idx"]["question"]
        groups.setdefault(key, []).append((doc["label"] == 1) == said)
    return np.mean([all(each) for each in groups.values()])


SAYS = [said for _, said in TEXTS]
ORACLES = {
    "acc_all": _acc_all(MULTIRC),
    "bits_per_byte": -sum(a for a, _ in LIKELY) / sum(b for _, b in LIKELY) / math.log(2),
    "bleu": sacrebleu.corpus_bleu(SAYS, _streams(TEXTS)).score,
    "brier_score": _brier(ODDS),
    "bypass": 999,
    "chrf": sacrebleu.corpus_chrf(SAYS, _streams(TEXTS)).score,
    "f1": sk.f1_score(*zip(*PAIRS, strict=True)),
    "f1_macro": sk.f1_score(LABELS, SAID, average="macro"),
    "f1_micro": sk.f1_score(LABELS, SAID, average="micro"),
    "matthews_corrcoef": sk.matthews_corrcoef(LABELS, SAID),
    "mcc": sk.matthews_corrcoef(*zip(*PAIRS, strict=True)),
    "mean": statistics.fmean(NUMBERS),
    "median": statistics.median(NUMBERS),
    "nanmean": statistics.fmean(NUMBERS),
    "perplexity": math.exp(-statistics.fmean(a for a, _ in LIKELY)),
    "ter": sacrebleu.corpus_ter(SAYS, _streams(TEXTS)).score,
    "weighted_perplexity": math.exp(-sum(a for a, _ in LIKELY) / sum(b for _, b in LIKELY)),
}


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_value_is_the_oracles(name):
    assert aggregation(name)(ITEMS[name]) == pytest.approx(ORACLES[name])


def test_every_named_aggregation_has_an_oracle():
    assert {*ORACLES} == {name for name in known_aggregations() if "test" not in name}


@pytest.mark.parametrize("name", sorted(set(ORACLES) - {"acc_all"}))
def test_weights_are_documents_that_come_so_often(name):
    """acc_all counts questions, which come as a whole."""
    items, way = ITEMS[name], aggregation(name)
    weight = RANDOM.multinomial(len(items), np.full(len(items), 1 / len(items)), size=3)
    found = way.weighted(items)(weight.astype(float))
    repeated = [[x for x, w in zip(items, row, strict=True) for _ in range(w)] for row in weight]
    assert found == pytest.approx([way(each) for each in repeated])


def test_acc_all_counts_a_question_that_was_drawn_twice_twice():
    way = aggregation("acc_all")
    code = np.array(way.units(MULTIRC))
    weight = (code == 0) * 2.0 + (code == 1)
    is_right = [_acc_all([x for x, c in zip(MULTIRC, code, strict=True) if c == q]) for q in (0, 1)]
    assert way.weighted(MULTIRC)(weight[None])[0] == pytest.approx(
        np.average(is_right, weights=[2, 1])
    )


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_one_reference_may_stand_alone(name):
    whole = getattr(sacrebleu, f"corpus_{name}")
    says, wanted = [b for _, b in ONE_EACH], [a for a, _ in ONE_EACH]
    assert aggregation(name)(ONE_EACH) == pytest.approx(whole(says, [wanted]).score)
    listed = [(a, [b]) for a, b in ONE_EACH]
    assert aggregation(name)(listed) == pytest.approx(whole(says, [wanted]).score)


@pytest.mark.parametrize("name", sorted(set(ORACLES) - {"bypass"}))
def test_without_documents_there_is_no_number(name):
    assert math.isnan(aggregation(name)([]))


def test_median_of_an_even_number_is_the_upper_one_and_sorted():
    """lmms-eval takes the middle one of the values as they came."""
    assert aggregation("median")([9, 1, 5, 2]) == 5


def test_defect_lmms_eval_ter_is_lower_is_better():
    assert not document_metric("ter").higher_is_better
    assert not aggregation("ter").higher_is_better
    assert document_metric("bleu").higher_is_better


def test_f1_of_more_than_two_classes_says_what_to_use():
    with pytest.raises(UsageError, match="classes '0', '1'.*f1_macro"):
        aggregation("f1")([("0", "1")])


def test_what_has_no_spread_is_zero_as_in_sklearn():
    assert aggregation("matthews_corrcoef")([(1, 1), (1, 1)]) == 0.0
    assert aggregation("f1")([(0, 0), (0, 0)]) == 0.0


@pytest.mark.parametrize(
    ("name", "items", "words"),
    [
        ("mean", [1.0, "0.5"], "value 2 of 2 is '0.5': expected a number"),
        ("mean", [{"score": 1}], "value 1 of 1 is .*: expected a number"),
        ("median", [1, [2]], "value 2 of 2 is"),
        ("mcc", [1, 0], r"expected a pair \(truth, prediction\)"),
        ("bleu", [("a", 3)], "expected a pair"),
        ("acc_all", [(True, {"label": 1})], "idx.paragraph"),
    ],
)
def test_wrong_values_are_told_with_their_place(name, items, words):
    with pytest.raises(UsageError, match=words):
        aggregation(name)(items)


def test_bools_and_numpy_numbers_are_numbers():
    assert aggregation("mean")([True, np.float32(0.5), np.int64(0)]) == 0.5


def test_brier_of_documents_with_different_numbers_of_choices():
    items = [(0, [1.0, 0.0]), (2, [0.5, 0.25, 0.25]), (-1, [1.0])]
    assert aggregation("brier_score")(items) == pytest.approx(_brier(items))


def test_unknown_names_have_the_closest():
    with pytest.raises(UnknownName, match="'mean_last30'.*'mean'|'mean_last30' is not known"):
        aggregation("mean_last30")
    with pytest.raises(UnknownName, match="Did you mean 'exact_match'"):
        document_metric("exact_mach", "t.yaml:4")


def test_metrics_for_an_output_type():
    assert "acc_norm" in metrics_for("multiple_choice")
    assert metrics_for("loglikelihood_rolling") == sorted(
        ["bits_per_byte", "by_pass", "bypass", "byte_perplexity", "word_perplexity"]
    )
    assert metrics_for("generate_until_multi_round") == metrics_for("generate_until")
    assert {"anls", "bleu", "exact_match"} <= set(metrics_for("generate_until"))


def test_the_guides_names_are_all_known():
    guide = {"acc", "acc_norm", "acc_all", "anls", "acc_mutual_info", "by_pass", "bypass"}
    guide |= {"exact_match", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"}
    guide |= {"brier_score", "matthews_corrcoef", "mcc", "f1", "bleu", "chrf", "ter", "acc_bytes"}
    assert guide <= set(known_document_metrics())
    ways = {"mean", "median", "perplexity", "weighted_perplexity", "bits_per_byte", "f1", "bleu"}
    ways |= {"matthews_corrcoef", "chrf", "ter", "brier_score", "bypass", "nanmean"}
    assert ways <= set(known_aggregations())
    for name in guide:
        aggregation(document_metric(name).aggregation)


def test_users_register_theirs(monkeypatch):
    monkeypatch.setattr(registry, "_ADDED_METRICS", {})
    monkeypatch.setattr(registry, "_ADDED_AGGREGATIONS", {})
    register_aggregation("largest_of_a_test", max)
    register_metric(
        "length_of_a_test",
        lambda references, predictions: len(predictions[0]) - len(references[0]),
        aggregation="largest_of_a_test",
        higher_is_better=False,
    )
    assert aggregation("largest_of_a_test")([1, 3, 2]) == 3
    found = document_metric("length_of_a_test")
    assert (found.aggregation, found.higher_is_better) == ("largest_of_a_test", False)
    with pytest.raises(UsageError, match="already exists"):
        register_aggregation("mean", max)
    with pytest.raises(UsageError, match="already exists"):
        register_metric("acc", len, aggregation="mean")
    with pytest.raises(UnknownName, match="aggregation 'meen'"):
        register_metric("another_of_a_test", len, aggregation="meen")
