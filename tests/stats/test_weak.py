from __future__ import annotations

import numpy as np
import pytest

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, weak_coverage

TARGET = np.repeat(np.arange(6), [40, 30, 5, 4, 2, 1])


def test_thin_classes_are_counted() -> None:
    found = weak_coverage(Items(TARGET), load_metric("macro_f1"))
    assert found is not None
    assert (found.n_thin, found.n_classes, found.beside) == (3, 6, "macro_accuracy")
    assert found.words == "3 of 6 classes have < 5 test images"
    macro = weak_coverage(Items(TARGET), load_metric("macro_accuracy"))
    assert macro is not None and macro.beside == ""


@pytest.mark.parametrize("name", ["accuracy", "macro_accuracy", "macro_f1"])
def test_no_warning_without_need(name: str) -> None:
    assert weak_coverage(Items(np.arange(60) % 6), load_metric(name)) is None
    assert weak_coverage(Items(np.zeros(0, int)), load_metric(name)) is None
    assert name != "accuracy" or weak_coverage(Items(TARGET), load_metric(name)) is None


def test_classes_of_each_part() -> None:
    target, part = np.zeros(20, int), np.repeat([0, 1], [17, 3])
    assert weak_coverage(Items(target, None, part), load_metric("macro_f1")) is None
    found = weak_coverage(Items(target, None, part, "mean"), load_metric("macro_f1"))
    assert found is not None and (found.n_thin, found.n_classes) == (1, 2)
