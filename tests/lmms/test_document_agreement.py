"""Agreement of repeats, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark.lmms.score.scores import agreement_scores
from fieldmark.stats import wilson

VALUES = [[1, 1, 1], [1, 0, 0], [0.0, 0.0, 0.0], [1, 1, 0], [0, 1, 0]]


def _by_name(scores):
    return {each.metric.rpartition("/")[2]: each for each in scores}


def test_four_numbers_by_hand():
    found = _by_name(agreement_scores("acc", VALUES))
    assert found["mean_accuracy"].value == pytest.approx(7 / 15)
    assert found["majority_accuracy"].value == pytest.approx(2 / 5)
    assert found["within_variance"].value == pytest.approx(np.mean([0, 1 / 3, 0, 1 / 3, 1 / 3]))
    assert found["agreement_rate"].value == pytest.approx(2 / 5)
    assert all(each.metric.startswith("acc/") and each.n == 5 for each in found.values())
    assert not found["within_variance"].higher_is_better


def test_shares_have_wilsons_interval_and_all_contain_their_value():
    found = _by_name(agreement_scores("acc", VALUES))
    assert (found["agreement_rate"].low, found["agreement_rate"].high) == (
        wilson(2, 5).low,
        wilson(2, 5).high,
    )
    for each in found.values():
        assert each.low <= each.value <= each.high


def test_documents_of_a_unit_are_one_draw():
    alone = _by_name(agreement_scores("acc", VALUES * 8))["mean_accuracy"]
    units = [str(place % 5) for place in range(40)]
    together = _by_name(agreement_scores("acc", VALUES * 8, units))["mean_accuracy"]
    assert together.n_units == 5 and alone.n_units == 40
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_a_tie_is_no_majority():
    assert _by_name(agreement_scores("acc", [[1, 0], [1, 1]]))["majority_accuracy"].value == 0.5


def test_answers_decide_majority_and_agreement_where_they_are_known():
    """Two of five right, but they are the most frequent answer; two wrong ones differ."""
    values, answers = [[0, 1, 1, 0, 0], [0, 0]], [["a", "b", "b", "c", "d"], ["a", "b"]]
    found = _by_name(agreement_scores("acc", values, answers=answers))
    assert found["majority_accuracy"].value == 0.5
    assert found["agreement_rate"].value == 0.0
    assert _by_name(agreement_scores("acc", values))["agreement_rate"].value == 0.5


def test_what_is_no_number_is_left_out():
    scores = agreement_scores("acc", [[1, None], [{"score": 1}, 0], [1], [0, 1], [float("nan"), 1]])
    assert {each.n for each in scores} == {1}
    assert agreement_scores("acc", [[], [1]]) == []
