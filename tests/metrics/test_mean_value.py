"""The mean of values that items have already."""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark.metrics import known_metrics, load_metric, mean_value
from fieldmark.stats import Items, estimate, interval


def test_weights_count_items_and_targets_do_not():
    value, weight = np.array([0.0, 0.5, 2.0]), np.array([1.0, 0.0, 3.0])
    mean = mean_value("anls")
    assert mean(np.array([7, 1, 0]), value) == pytest.approx(value.mean())
    assert mean(np.zeros(3, int), value, weight) == pytest.approx(6 / 4)
    assert np.isnan(mean(np.empty(0, int), np.empty(0)))


def test_shares_have_wilsons_interval_and_others_students():
    items = Items(np.zeros(40, int))
    share = np.arange(40) % 4 == 0
    assert interval(items, share.astype(float), mean_value("acc")).method == "wilson"
    found = interval(items, np.arange(40) / 7, mean_value("mae", direction="down"))
    assert found.method == "units" and found.low < 19.5 / 7 < found.high
    assert estimate(items, np.arange(40) / 7, mean_value("mae")) == pytest.approx(19.5 / 7)


def test_no_task_can_name_it():
    assert "mean_value" not in known_metrics()
    with pytest.raises(Exception, match="not known"):
        load_metric("mean_value")
