"""Where a probe's arrays live, and what comes back."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from fieldmark.protocols.probe.fit import as_array, device_of, fit_probe, on_device
from fieldmark.tasks import task_schema

X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
Y = np.where(X[:, 0] > 0, "owl", "fox")


class Taker:
    takes_tensors = True


def test_numpy_stays_numpy() -> None:
    assert on_device(X, Taker(), "") is X
    assert on_device(X, object(), "cuda:0") is X, "a probe that does not take tensors gets none"


def test_the_device_is_the_models() -> None:
    class Model:
        device = "cuda:1"

    assert device_of(Model()) == "cuda:1"
    Model.device = "cpu"
    assert device_of(Model()) == device_of(object()) == ""


def test_tensors_there_and_back() -> None:
    torch = pytest.importorskip("torch")
    tensor = on_device(X, Taker(), "cpu")
    assert isinstance(tensor, torch.Tensor)
    assert (as_array(tensor) == X).all() and (as_array(X) == X).all()


def test_torch_is_not_imported_for_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    task = task_schema().model_validate(
        {"task": "t", "title": "T", "dataset": "folder", "metric": "accuracy",
         "probe": {"classifier": "ridge"}}
    )  # fmt: skip
    assert task.block("probe") is not None
    answer, sure = fit_probe(task, task.block("probe"), X, Y).ask_labels(X)
    assert (answer == Y).mean() > 0.8 and sure.shape == (60,)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("classifier", ["mlp", "linear", "logistic", "ridge"])
def test_tensors_give_the_same_answers(classifier: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    few: dict[str, Any] = {"mlp": {"epochs": 20}, "linear": {"steps": 200}}.get(classifier, {})
    task = task_schema().model_validate(
        {"task": "t", "title": "T", "dataset": "folder", "metric": "accuracy",
         "probe": {"classifier": classifier, **few}}
    )  # fmt: skip
    assert task.block("probe") is not None
    here, _ = fit_probe(task, task.block("probe"), X, Y).ask_labels(X)
    there, sure = fit_probe(task, task.block("probe"), X, Y, device).ask_labels(X)
    assert (here == there).mean() > 0.95 and isinstance(sure, np.ndarray)
