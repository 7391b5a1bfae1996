"""The best answer of one who does not look, against trying every constant answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.metrics import blind_answers, load_metric

FORMS = ("accuracy", "macro_accuracy", "macro_f1")


@pytest.mark.parametrize("name", FORMS)
@given(target=st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_no_constant_answer_scores_more(name: str, target: list[int]) -> None:
    metric, truth = load_metric(name), np.array(target)
    blind = blind_answers(truth, metric)
    assert blind is not None
    every = [metric(truth, np.full(len(truth), label)) for label in range(6)]
    assert metric(truth, blind) == pytest.approx(max(every))


def test_macro_accuracy_of_a_constant_is_one_over_the_classes() -> None:
    truth, metric = np.array([0, 0, 0, 3, 7]), load_metric("macro_accuracy")
    blind = blind_answers(truth, metric)
    assert blind is not None and metric(truth, blind) == pytest.approx(1 / 3)


def test_each_part_has_its_own_commonest_label() -> None:
    truth, part = np.array([1, 1, 2, 4, 5, 5]), np.array(["p", "p", "p", "q", "q", "q"])
    blind = blind_answers(truth, load_metric("accuracy"), part)
    assert blind is not None and blind.tolist() == [1, 1, 1, 5, 5, 5]


def test_average_precision_of_one_who_is_always_as_sure_is_the_share_of_yes() -> None:
    truth, metric = np.array([1, 0, 0, 1, 0]), load_metric("average_precision")
    blind = blind_answers(truth, metric)
    assert blind is not None and metric(truth, blind) == pytest.approx(0.4)


@pytest.mark.parametrize("name", ["recall_at_5", "exact_match", "mrr"])
def test_nobody_knows_it_for_other_metrics(name: str) -> None:
    assert blind_answers(np.array([0, 1]), load_metric(name)) is None
