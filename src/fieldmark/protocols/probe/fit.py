"""Fit and predict: how is one probe fitted on features and asked about others?

Normalisation and probe see training features only. On a model's CUDA device, probes that say
`takes_tensors` get tensors there; everything else stays numpy.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.metrics import calibration
from fieldmark.probes import Normaliser, fitting_threads, load_probe
from fieldmark.protocols.probe.block import ProbeBlock
from fieldmark.registry import is_file_reference, short_name
from fieldmark.tasks import Task

_BLOCK_VALUES = 1 << 22
"""probabilities at a time: 32 MB"""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A probe that has learnt, with the normalisation of its training features."""

    probe: Any
    normaliser: Normaliser
    classifier: str
    device: str
    """"" or the CUDA device that the probe's arrays live on"""
    n_values: int
    """in its training matrix"""

    def ask(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What it says of each row, and how sure it is (NaN for a probe that does not say)."""
        with fitting_threads(self.n_values), told_by_name(self.classifier):
            placed = on_device(self.normaliser.transform(x), self.probe, self.device)
            if hasattr(self.probe, "predict_with_score"):
                answer, sure = map(as_array, self.probe.predict_with_score(placed))
                return answer, np.asarray(sure, np.float64)
            answer = as_array(self.probe.predict(placed))
            if not hasattr(self.probe, "predict_score"):
                return answer, np.full(answer.shape, np.nan)
            return answer, np.asarray(as_array(self.probe.predict_score(placed)), np.float64)

    def ask_labels(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of a probe that gives one label, or None for no answer, per row."""
        answer, sure = self.ask(x)
        labels, name = np.asarray(answer, dtype=object), short_name(self.classifier)
        if labels.shape != (len(x),):
            raise UsageError(
                f"probe {name!r} gave predictions of shape {labels.shape} for {len(x)} images, "
                f"expected ({len(x)},)."
            )
        odd = [label for label in labels if label is not None and not isinstance(label, str)]
        if odd:
            raise UsageError(
                f"probe {name!r} predicted {odd[0]!r}, expected one of the labels it was trained "
                "with."
            )
        return labels, sure

    def calibration(self, x: np.ndarray, label_n: Sequence[str]) -> dict[str, float]:
        """How far its probabilities of these labels can be trusted; nothing if it gives none."""
        if not hasattr(self.probe, "predict_proba") or not hasattr(self.probe, "classes_"):
            return {}
        column_of = {label: at for at, label in enumerate(as_array(self.probe.classes_))}
        column_n = np.array([column_of.get(label, -1) for label in label_n])
        best_n, sure_n, truth_n = np.empty_like(column_n), *np.zeros((2, len(x)))
        n_block = max(1, _BLOCK_VALUES // len(column_of))
        with fitting_threads(self.n_values), told_by_name(self.classifier):
            for start in range(0, len(x), n_block):
                part = slice(start, start + n_block)
                placed = on_device(self.normaliser.transform(x[part]), self.probe, self.device)
                prob_bc, own_b = as_array(self.probe.predict_proba(placed)), column_n[part]
                best_n[part], sure_n[part] = prob_bc.argmax(axis=1), prob_bc.max(axis=1)
                own_prob_b = prob_bc[np.arange(len(own_b)), own_b]
                truth_n[part] = np.where(own_b < 0, 0, own_prob_b)  # a label it never saw
        return calibration(sure_n, best_n == column_n, truth_n)


def fit_probe(
    task: Task,
    block: ProbeBlock,
    x_train: np.ndarray,
    y_train: np.ndarray,
    device: str = "",
    units: Sequence[str] | None = None,
) -> Fitted:
    """`units`: rows of one unit are held out together, by probes whose `fit` takes `groups`."""
    normaliser = Normaliser(block.normalise).fit(x_train)
    probe = new_probe(task, block)
    with fitting_threads(x_train.size), told_by_name(block.classifier):
        takes_units = units is not None and "groups" in inspect.signature(probe.fit).parameters
        groups = {"groups": units} if takes_units else {}
        placed = on_device(normaliser.transform(x_train), probe, device)
        probe = probe.fit(placed, y_train, **groups)
    return Fitted(probe, normaliser, block.classifier, device, x_train.size)


def units_of(rows: pl.DataFrame) -> list[str]:
    """What is held out together: the unit, or the row itself."""
    row_unit = pl.format("row {}", "id")
    named = pl.format("unit {}", "unit") if "unit" in rows.columns else row_unit
    return rows.select(pl.coalesce(named, row_unit)).to_series().to_list()


def new_probe(task: Task, block: ProbeBlock) -> Any:
    try:
        return load_probe(block.classifier, block.params)
    except FieldmarkError as error:
        raise UsageError(f"task {task.task!r}, key 'probe': {error}") from error


def device_of(model: object) -> str:
    """The CUDA device that the model lives on, or ""."""
    device = str(getattr(model, "device", ""))
    return device if device.startswith("cuda") else ""


def on_device(x: np.ndarray, probe: object, device: str) -> Any:
    """The features where the probe computes."""
    if not device or not getattr(probe, "takes_tensors", False):
        return x
    import torch  # whoever has a model on such a device has imported it

    return torch.as_tensor(x, device=device)


def as_array(value: Any) -> np.ndarray:
    """The same in main memory."""
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


@contextmanager
def told_by_name(classifier: str) -> Iterator[None]:
    """Whatever a user's probe raises, with its name, in one line."""
    try:
        yield
    except Exception as error:
        if isinstance(error, FieldmarkError) or not is_file_reference(classifier):
            raise
        message = (str(error).strip() or "no message").splitlines()[0].rstrip(".")
        raise UsageError(
            f"probe {short_name(classifier)!r} failed: {type(error).__name__}: {message} "
            "(--debug shows where)."
        ) from error
