"""No answer scores as a wrong one by every kind of metric, against other libraries and by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, f1_score, recall_score

from fieldmark.metrics import load_metric, mean_value, wrong_answers
from fieldmark.protocols import Scoring, score_answers
from fieldmark.store import AMONG_ANSWERED, Score

N = 240
LABELS = np.array(["fox", "hare", "lynx", "owl"])
KINDS = {"fox": "edible", "hare": "poisonous", "lynx": "unknown", "owl": "edible"}


def answers(labels: np.ndarray, seed: int = 0) -> pl.DataFrame:
    """A model that is right in 7 of 10 and says nothing in 3 of 10, more often where it is hard."""
    random = np.random.default_rng(seed)
    target = labels[random.integers(0, len(labels), N)]
    said = np.where(random.random(N) < 0.7, target, labels[random.integers(0, len(labels), N)])
    is_silent = random.random(N) < np.where(said == target, 0.2, 0.5)
    value = random.random(N)
    return pl.DataFrame(
        {
            "part": "",
            "repeat": 0,
            "id": [f"{number:04d}" for number in range(N)],
            "target": target,
            "prediction": pl.Series(said.tolist()).set(pl.Series(is_silent), None),
            "score": np.where(is_silent, np.nan, random.random(N)),
            "unit": [f"unit {number // 2}" for number in range(N)],
            "outcome": np.where(is_silent, "refused", "ok"),
            "info": [
                None if silent else json.dumps({"values": {"mrr": worth}})
                for worth, silent in zip(value, is_silent, strict=True)
            ],
        }
    ).with_columns(pl.col("score").fill_nan(None))  # fmt: skip


def scored(rows: pl.DataFrame, metric: str) -> tuple[Score, Score]:
    """The headline, and among those answered."""
    scores = score_answers(Scoring((metric,), "pooled", {"": {}}), rows, KINDS)
    headline = next(score for score in scores if score.is_primary)
    return headline, next(score for score in scores if score.metric == AMONG_ANSWERED)


def by_hand(metric: str, rows: pl.DataFrame) -> float:
    target = rows["target"].to_numpy()
    said = rows["prediction"].fill_null("no class").to_numpy()
    classes = sorted(set(target))
    if metric == "accuracy":
        return float((target == said).mean())
    if metric == "macro_accuracy":
        return recall_score(target, said, labels=classes, average="macro", zero_division=0)
    if metric == "macro_f1":
        return f1_score(target, said, labels=classes, average="macro", zero_division=0)
    if metric == "average_precision":
        sure = np.where(said == "yes", 1, -1) * rows["score"].fill_null(0).to_numpy()
        sure = np.where(said == "no class", np.where(target == "yes", -1.0, 1.0), sure)
        return average_precision_score(target == "yes", sure)
    if metric == "mrr":
        values = [json.loads(info)["values"]["mrr"] if info else 0.0 for info in rows["info"]]
        return float(np.mean(values))
    return _user_loss(target, said)


def _user_loss(target: np.ndarray, said: np.ndarray) -> float:
    """FungiCLEF's costs; no answer warns nobody of poison."""
    cost = worst = 0.0
    for truth, word in zip(target, said, strict=True):
        true, told = KINDS[truth], KINDS.get(word, "")
        if truth != word:
            cost += 10 if true == "unknown" else 0.1 if told == "unknown" else 1
        if true == "poisonous" and told != "poisonous":
            cost += 100
        if true != "poisonous" and told == "poisonous":
            cost += 1
        worst += (10 if true == "unknown" else 1) + (100 if true == "poisonous" else 1)
    return cost / worst


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "metric",
    ["accuracy", "macro_accuracy", "macro_f1", "average_precision", "mrr", "user_loss"],
)
def test_headline_and_among_answered(metric: str, seed: int) -> None:
    rows = answers(np.array(["no", "yes"]) if metric == "average_precision" else LABELS, seed)
    answered = rows.filter(pl.col("outcome") == "ok")
    headline, among = scored(rows, metric)
    assert 0 < len(answered) < N and (headline.n, among.n) == (N, len(answered))
    assert headline.value == pytest.approx(by_hand(metric, rows))
    assert among.value == pytest.approx(by_hand(metric, answered))
    is_up = load_metric(metric).direction == "up"
    assert (headline.value < among.value) == is_up, "silence never pays"
    assert headline.low is not None and headline.low <= headline.value <= headline.high


def test_an_item_is_wholly_right_only_where_every_part_was_answered() -> None:
    parts = [answers(LABELS, seed).with_columns(part=pl.lit(f"p{seed}")) for seed in (0, 1)]
    rows = pl.concat(parts)
    right = [(part["target"] == part["prediction"]).fill_null(value=False) for part in parts]
    scores = score_answers(Scoring(("exact_match",), "pooled", {"p0": {}, "p1": {}}), rows)
    whole = next(score for score in scores if score.is_primary)
    assert whole.value == pytest.approx((right[0] & right[1]).mean()) and whole.n == N


def test_a_question_nobody_answered_is_not_all_right() -> None:
    """Defect: 655 of 656 answers could not be read, and the score was 100 % of one."""
    rows = pl.DataFrame(
        [
            {"part": f"p{part}", "repeat": 0, "id": f"{part}-{item}", "target": "x", "unit": None,
             "prediction": "x" if part == item == 0 else None, "score": None, "info": None,
             "outcome": "ok" if part == item == 0 else "unparsed"}
            for part in range(41)
            for item in range(4)
        ],
        schema_overrides={"unit": pl.String, "info": pl.String, "score": pl.Float64},
    )  # fmt: skip
    parts = {f"p{part}": {} for part in range(41)}
    scores = score_answers(Scoring(("accuracy",), "mean", parts), rows)
    headline = next(score for score in scores if score.is_primary)
    assert headline.value == pytest.approx(0.25 / 41) and headline.n == 164
    assert next(score for score in scores if score.metric == AMONG_ANSWERED).value == 1.0


def test_values_without_a_worst_one_can_only_be_left_out() -> None:
    error = mean_value("years_off", direction="down")
    assert math.isnan(wrong_answers(np.zeros(1), error)[0])
    share = mean_value("share_wrong", direction="down", bounds=(0.0, 1.0))
    assert wrong_answers(np.zeros(2), share).tolist() == [1.0, 1.0]
