"""Scores of documents' values: named aggregations, and whatever code a task brings."""

from __future__ import annotations

import json
import logging
import math
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fieldmark.errors import UnknownName
from fieldmark.lmms.score import resample
from fieldmark.lmms.score.scores import (
    DocumentValues,
    ScoredMetric,
    ScoreSettings,
    score_documents,
)
from fieldmark.stats import wilson

RANDOM = np.random.default_rng(8)
N = 200
RIGHT = [int(each) for each in RANDOM.random(N) < 0.7]
DICTS = [
    {"question_id": place // 2, "score": right, "kind": "ab"[place % 2]}
    for place, right in enumerate(RIGHT)
]


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """So few that time is never short, but where a test is about that."""
    monkeypatch.setattr(resample, "LADDER", (200, 100))


def _rows(values, name="m", pipeline="none", units=None):
    units = units or [None] * len(values)
    return [DocumentValues({pipeline: {name: v}}, u) for v, u in zip(values, units, strict=True)]


def _one(values, aggregation=None, settings=None, units=None, name="m", **more):
    metric = ScoredMetric(name, aggregation=aggregation, where="t.yaml:9", **more)
    settings = settings or ScoreSettings("task", seconds=20.0)
    (score,) = score_documents([metric], _rows(values, name, units=units), settings)
    return score


def mean_percent(results):
    return 100 * sum(each["score"] for each in results) / len(results)


def test_a_share_has_wilsons_interval():
    score = _one(RIGHT)
    expected = wilson(sum(RIGHT), N)
    assert (score.value, score.low, score.high) == (sum(RIGHT) / N, expected.low, expected.high)
    assert (score.method, score.n, score.n_units, score.is_fraction) == ("wilson", N, N, True)
    assert score.is_primary and score.higher_is_better and not score.warning


def test_units_widen_a_mean():
    units = [str(place // 20) for place in range(N)]
    values = [float(place // 20 % 2) for place in range(N)]
    alone, together = _one(values), _one(values, units=units)
    assert together.n_units == 10
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_names_carry_their_pipeline_and_documents_may_lack_a_metric():
    rows = [*_rows([1, 0], "acc", "strict"), DocumentValues({"strict": {}}), DocumentValues({})]
    found = score_documents([ScoredMetric("acc", "strict"), ScoredMetric("acc", "loose")], rows)
    assert [(each.metric, each.n) for each in found] == [("acc,strict", 2), ("acc,loose", 0)]
    assert [each.is_primary for each in found] == [True, False]
    assert math.isnan(found[1].value) and "no document" in found[1].warning


def test_what_is_known_of_a_name_is_used_where_the_file_says_nothing():
    score = _one([(1, 1), (0, 0), (1, 0)], name="mcc")
    assert score.value == pytest.approx(0.5)
    assert not _one([("a fox", "a fox")] * 3, name="ter").higher_is_better
    assert not _one([1.0, 2.0], higher_is_better=False).higher_is_better


@pytest.mark.parametrize("name", ["median", "f1", "matthews_corrcoef", "perplexity", "bleu"])
def test_named_aggregations_have_intervals_that_contain_the_value(name):
    words = ["a", "red", "fox", "runs", "far"]
    values = {
        "median": RANDOM.normal(size=60).tolist(),
        "f1": [(int(RANDOM.random() < 0.5), int(RANDOM.random() < 0.4)) for _ in range(60)],
        "matthews_corrcoef": [(place % 3, int(RANDOM.integers(3))) for place in range(60)],
        "perplexity": (-RANDOM.gamma(2, size=60)).tolist(),
        "bleu": [("a red fox runs far", " ".join(words[: 2 + place % 4])) for place in range(60)],
    }[name]
    score = _one(values, name)
    assert score.low < score.value < score.high and score.method == "bootstrap"


def test_a_scale_of_a_hundred_keeps_its_rule_of_three():
    """All texts right: 100, but the next one need not be."""
    score = _one([("a red fox runs", "a red fox runs")] * 30, "bleu")
    assert score.high == pytest.approx(100.0) and 85 < score.low < 92


def test_equal_values_on_an_unknown_scale_have_no_interval():
    score = _one([70.0] * 9)
    assert score.low is None and "spread is not known" in score.warning


def test_nan_is_told_and_nanmean_omits_it():
    score = _one([1.0, math.nan, 0.0])
    assert math.isnan(score.value) and "1 of 3 values are NaN" in score.warning
    assert _one([1.0, math.nan, 0.0], "nanmean").value == 0.5


def test_bypass_is_no_number():
    score = _one(["a", "b"], name="by_pass")
    assert (score.value, score.low) == (999, None) and "elsewhere" in score.warning


def test_unknown_aggregation_is_told_beside_the_others():
    with pytest.raises(UnknownName):
        assert ScoredMetric("m", aggregation="mean_last30").way
    rows = [DocumentValues({"none": {"a": 1, "b": each}}) for each in RIGHT]
    found = score_documents([ScoredMetric("a", aggregation="meann"), ScoredMetric("b")], rows)
    assert math.isnan(found[0].value) and "Did you mean 'mean'" in found[0].warning
    assert found[1].is_primary and found[1].value == sum(RIGHT) / N


def test_values_that_do_not_fit_are_told():
    score = _one([1.0, {"score": 1}], "mean")
    assert "value 2 of 2 is {'score': 1}: expected a number" in score.warning


def test_functions_are_resampled():
    score = _one(DICTS, mean_percent)
    expected = wilson(sum(RIGHT), N)
    assert score.value == 100 * sum(RIGHT) / N
    assert score.low == pytest.approx(100 * expected.low, abs=1.5)
    assert score.high == pytest.approx(100 * expected.high, abs=1.5)
    assert score.method.startswith("bootstrap") and not score.is_fraction


def test_equal_settings_give_equal_intervals():
    assert _one(DICTS, mean_percent) == _one(DICTS, mean_percent)
    other = _one(DICTS, mean_percent, ScoreSettings("task", seed=5, seconds=20.0))
    assert other.value == _one(DICTS, mean_percent).value and other != _one(DICTS, mean_percent)


def test_mappings_give_one_score_for_each_number():
    def by_kind(results):
        kinds = sorted({each["kind"] for each in results})
        some = {kind: [each for each in results if each["kind"] == kind] for kind in kinds}
        return {
            "all": mean_percent(results),
            "kind": {kind: mean_percent(each) for kind, each in some.items()},
            "note": "words",
        }

    metric = ScoredMetric("m", "p", by_kind)
    rows = _rows(DICTS, "m", "p")
    found = score_documents([metric], rows, ScoreSettings(seconds=20.0))
    assert [each.metric for each in found] == ["m/all,p", "m/kind/a,p", "m/kind/b,p"]
    assert [each.is_primary for each in found] == [True, False, False]
    assert all(each.low < each.value < each.high for each in found)
    assert found[0].high - found[0].low < found[1].high - found[1].low


def test_files_are_written_once_and_resamples_leave_no_trace(tmp_path, capsys, caplog):
    calls = []

    def submit(results, args):
        calls.append(len(results))
        Path("here.json").write_text(json.dumps(len(calls)))
        (Path(args.output_path) / "there.json").write_text(json.dumps(len(calls)))
        print("stored")  # noqa: T201
        logging.getLogger("task").error("stored")
        return mean_percent(results) + 0 * len(args.model)

    before = Path.cwd()
    settings = ScoreSettings(folder=tmp_path / "files", flags={"model": "mine"}, seconds=20.0)
    score = _one(DICTS, submit, settings)
    assert score.low is not None and len(calls) > 100
    assert sorted(each.name for each in (tmp_path / "files").iterdir()) == [
        "here.json",
        "there.json",
    ]
    assert (tmp_path / "files" / "here.json").read_text() == "1"
    assert Path.cwd() == before
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("stored") == 1
    assert len(caplog.records) == 1
    logging.getLogger("task").error("heard again")
    assert len(caplog.records) == 2


def test_without_a_folder_files_go_nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def writes(results):
        Path("x.json").write_text("x")
        return 1.0

    _one(DICTS, writes)
    assert list(tmp_path.iterdir()) == []


def test_loguru_is_silent_in_resamples():
    loguru = pytest.importorskip("loguru")
    heard: list[str] = []
    sink = loguru.logger.add(heard.append)

    def logs(results):
        loguru.logger.info("counted")
        return mean_percent(results)

    try:
        _one(DICTS, logs)
        loguru.logger.info("after")
    finally:
        loguru.logger.remove(sink)
    assert len(heard) == 2


def test_functions_that_change_what_they_are_given_do_no_harm():
    def doubles(results):
        for each in results:
            each["score"] *= 2
        results.sort(key=lambda each: each["score"])
        return sum(each["score"] for each in results) / len(results)

    values = [dict(each) for each in DICTS]
    score = _one(values, doubles)
    assert values == DICTS
    assert score.value == 2 * sum(RIGHT) / N
    assert score.low < score.value < score.high < 2


def test_global_random_states_are_set_and_put_back():
    def draws(results):
        return random.random() + np.random.rand()

    random.seed(1)
    np.random.seed(1)
    first = _one(DICTS, draws).value
    assert (random.random(), np.random.rand()) == pytest.approx((0.13436, 0.417022), abs=1e-4)
    assert _one(DICTS, draws).value == first


def test_pairs_that_must_be_complete_are_left_out_together():
    """As MME scores: two questions of each picture, both must be there."""

    def pairs(results):
        found: dict[int, list[int]] = {}
        for each in results:
            found.setdefault(each["question_id"], []).append(each["score"])
        assert all(len(each) == 2 for each in found.values())
        return 100 * sum(map(all, found.values())) / len(found)

    score = _one(DICTS, pairs)
    both = [all(RIGHT[place : place + 2]) for place in range(0, N, 2)]
    expected = wilson(sum(both), N // 2)
    assert (score.value, score.n_units) == (100 * np.mean(both), N // 2)
    assert score.method == "jackknife, 40 blocks"
    assert score.high - score.low == pytest.approx(100 * (expected.high - expected.low), rel=0.3)


def test_functions_that_look_up_ids_are_not_resampled_with_doubles():
    """A document that comes twice counts once: its bootstrap would be of fewer documents."""

    def looked_up(results):
        found = {each["id"]: each["score"] for each in results}
        return sum(found.values()) / len(found)

    values = [{"id": place, "score": right} for place, right in enumerate(RIGHT)]
    score = _one(values, looked_up)
    expected = wilson(sum(RIGHT), N)
    assert score.method.startswith("jackknife") and score.n_units == N
    assert score.high - score.low == pytest.approx(expected.high - expected.low, rel=0.35)


def test_sums_are_not_resampled_as_if_they_were_means():
    def total(results):
        return sum(each["score"] for each in results)

    score = _one([{"score": each} for each in RIGHT], total)
    expected = wilson(sum(RIGHT), N)
    assert score.method.startswith("jackknife")
    assert score.high - score.low == pytest.approx(N * (expected.high - expected.low), rel=0.35)


def test_functions_that_want_exactly_these_documents_have_no_interval():
    def strict(results):
        assert len(results) == N, "the whole set"
        return mean_percent(results)

    score = _one(DICTS, strict)
    assert score.low is None and score.value > 0
    assert "t.yaml:9" in score.warning and "the whole set" in score.warning


def test_functions_that_fail_are_told_in_one_line():
    def broken(results):
        raise KeyError("answer")

    score = _one(DICTS, broken)
    assert math.isnan(score.value)
    assert score.warning.startswith("not computed: t.yaml:9  broken failed: KeyError")
    assert "\n" not in score.warning


def test_functions_that_give_no_number_are_told():
    assert "gave nothing" in _one(DICTS, lambda results: None).warning
    assert "gave a str" in _one(DICTS, lambda results: "0.5").warning


def test_slow_functions_get_what_there_is_time_for(monkeypatch):
    now = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr("fieldmark.lmms.score.resample.time", clock)

    def slow(results):
        now[0] += 0.02
        return mean_percent(results)

    blocks = _one(DICTS, slow, ScoreSettings(seconds=1.0))
    assert blocks.method.startswith("jackknife") and blocks.low < blocks.value < blocks.high
    none = _one(DICTS, slow, ScoreSettings(seconds=0.05))
    assert none.low is None and "too long for resamples" in none.warning


def test_one_document_has_no_interval():
    assert "one unit" in _one([{"score": 1}], mean_percent).warning
    assert "one unit" in _one([3.0], "median").warning


def test_values_that_cannot_be_copied_are_still_scored():
    class Odd:
        score = 1

        def __reduce__(self):
            raise TypeError

    odd = [Odd() for _ in range(20)]
    assert _one(odd, lambda results: sum(each.score for each in results)).value == 20


def test_a_number_made_elsewhere_is_not_the_primary_one():
    """999 would be the best score of every leaderboard."""
    rows = [DocumentValues({"none": {"by_pass": "text", "right": each}}) for each in RIGHT]
    found = score_documents([ScoredMetric("by_pass"), ScoredMetric("right")], rows)
    assert [each.is_primary for each in found] == [False, True]
    (alone,) = score_documents([ScoredMetric("by_pass")], rows)
    assert alone.is_primary


@pytest.mark.parametrize("way", ["f1", "matthews_corrcoef", "brier_score"])
def test_values_of_any_kind_cost_no_other_score(way):
    rows = [DocumentValues({"none": {"odd": (["a"], ["b"]), "right": each}}) for each in RIGHT]
    found = score_documents([ScoredMetric("odd", aggregation=way), ScoredMetric("right")], rows)
    assert math.isnan(found[0].value) and f"aggregation {way!r}" in found[0].warning
    assert found[1].is_primary


def test_a_function_that_works_once_keeps_its_number():
    """It may write a file that must not be there yet, or give other keys the next time."""
    calls = []

    def fussy(items):
        calls.append(len(items))
        if len(calls) > 1:
            raise OSError("the report already exists")
        return sum(items) / len(items)

    def fickle(items):
        calls.append(len(items))
        return {f"call {len(calls)}": sum(items) / len(items), "all": sum(items) / len(items)}

    rows = [DocumentValues({"none": {"m": each}}) for each in RIGHT]
    (score,) = score_documents([ScoredMetric("m", aggregation=fussy)], rows)
    assert score.value == sum(RIGHT) / N and score.low is None
    assert "the report already exists" in score.warning
    calls.clear()
    found = {
        each.metric: each for each in score_documents([ScoredMetric("m", aggregation=fickle)], rows)
    }
    assert found["m/call 1"].low is None and "second call" in found["m/call 1"].warning
    assert found["m/all"].low is not None


def _with_silent(metric: ScoredMetric, values, n_silent: int):
    silent = [DocumentValues({}, is_answered=False)] * n_silent
    (score,) = score_documents([metric], [*_rows(values), *silent], ScoreSettings("task"))
    return score


def test_a_document_without_an_answer_counts_0_in_a_mean_of_shares():
    score = _with_silent(ScoredMetric("m", aggregation="mean"), RIGHT, 50)
    expected = wilson(sum(RIGHT), N + 50)
    assert (score.value, score.n) == (sum(RIGHT) / (N + 50), N + 50)
    assert (score.low, score.high, score.warning) == (expected.low, expected.high, "")


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        (ScoredMetric("m", aggregation="mean", higher_is_better=False), RIGHT),
        (ScoredMetric("m", aggregation="mean"), [3.0, 7.5, 12.0]),
        (ScoredMetric("m", aggregation=mean_percent), DICTS),
    ],
    ids=["an error", "no share", "the task's own code"],
)
def test_where_nobody_knows_the_worst_value_the_score_says_what_it_leaves_out(metric, values):
    score = _with_silent(metric, values, 5)
    assert score.n == len(values)
    assert f"5 of {len(values) + 5} documents were not answered and are left out" in score.warning
