from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, Resampling, bootstrap, estimate, interval, wilson

MACRO = ["macro_accuracy", "macro_f1"]


@pytest.mark.parametrize("name", MACRO)
@pytest.mark.parametrize("burst", [1, 5])
def test_with_many_images_of_each_class_as_wide_as_the_bootstrap(name: str, burst: int) -> None:
    random = np.random.default_rng(0)
    target = random.integers(0, 6, 3000)
    right = np.repeat(random.random(3000 // burst) < 0.8, burst)
    prediction = np.where(right, target, random.integers(0, 6, 3000))
    items = Items(target, np.arange(3000) // burst)
    ours = interval(items, prediction, load_metric(name))
    drawn = bootstrap(items, prediction, load_metric(name), Resampling(draws=1000))
    assert ours.method == "leave-one-out"
    assert ours.half_width == pytest.approx(drawn.half_width, rel=0.08)
    assert ours.n_units == 3000 // burst


def test_classes_of_one_image_are_not_certain() -> None:
    """A class whose one image is right never varies in resamples; here it does."""
    target = np.arange(60)
    prediction = np.where(target % 4 == 0, 99, target)
    ours = interval(Items(target), prediction, load_metric("macro_accuracy"))
    share = wilson(45, 60)
    assert (ours.low, ours.high) == pytest.approx((share.low, share.high), abs=0.02)


@pytest.mark.parametrize("name", MACRO)
def test_copies_order_and_names_of_units_do_not_matter(name: str) -> None:
    random = np.random.default_rng(1)
    target = random.integers(0, 9, 120)
    prediction = np.where(random.random(120) < 0.7, target, random.integers(-1, 9, 120))
    unit, each = np.arange(120) // 4, load_metric(name)
    ours = interval(Items(target, unit), prediction, each)
    order = random.permutation(120)
    turned = interval(Items(target[order], unit[order] + 7), prediction[order], each)
    assert (turned.low, turned.high) == pytest.approx((ours.low, ours.high))


@pytest.mark.parametrize("name", MACRO)
def test_a_mean_over_parts_is_narrower_than_its_parts(name: str) -> None:
    random = np.random.default_rng(1)
    target, part = random.integers(0, 5, 400), np.arange(400) % 4
    prediction = np.where(random.random(400) < 0.7, target, (target + 1) % 5)
    each = load_metric(name)
    whole = interval(Items(target, None, part, "mean"), prediction, each)
    parts = [interval(Items(target[part == p]), prediction[part == p], each) for p in range(4)]
    widths = [one.half_width for one in parts]
    assert whole.half_width == pytest.approx(np.sqrt(np.mean(np.square(widths)) / 4), rel=0.1)


@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 4),
    st.sampled_from(["accuracy", *MACRO]),
    st.sampled_from(["pooled", "mean"]),
)
@settings(max_examples=150, deadline=None)
def test_the_estimate_is_always_inside(
    seed: int, n: int, classes: int, burst: int, name: str, score: str
) -> None:
    random = np.random.default_rng(seed)
    target = random.integers(0, classes, n)
    prediction = random.integers(-1, classes + 1, n)
    items = Items(target, np.arange(n) // burst, random.integers(0, 3, n), score)  # type: ignore[arg-type]
    ours = interval(items, prediction, load_metric(name), Resampling(draws=30))
    value = estimate(items, prediction, load_metric(name))
    assert 0 <= ours.low <= value <= ours.high <= 1
    assert ours.high > ours.low
