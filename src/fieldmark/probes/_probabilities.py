"""How do the logits of fitted networks become labels, probabilities and scores?

Rows go through in blocks, so predicting many rows of many classes needs no rows × classes array.
No value is dropped and the threshold is on the probability: what is predicted is what was learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark.probes._arrays import (
    Array,
    beside,
    double,
    float_type,
    namespace,
    read_asked,
    sigmoid,
    softmax,
)
from fieldmark.probes._network import Pass, Shape
from fieldmark.probes._one_pass import OnePass
from fieldmark.probes._scaling import Scaling
from fieldmark.probes._tensor import as_numpy, on_accelerator

_BLOCK_VALUES = 1 << 21


@dataclass(frozen=True, slots=True)
class Fitted:
    """Networks of one shape whose probabilities are averaged; kept in main memory."""

    shape: Shape
    flat_sp: np.ndarray
    scaling: Scaling
    has_traits: bool = False

    def logits(self, x_nd: Array) -> Iterator[Array]:
        """s × b × outputs, block by block: in float64, or as precise as a tensor that came."""
        width = max(self.shape.hidden, self.shape.n_inputs, self.shape.n_outputs)
        n_block = max(1, _BLOCK_VALUES // (width * len(self.flat_sp)))
        is_far = on_accelerator(x_nd)
        scaling = self.scaling.placed(x_nd) if is_far else self.scaling
        flat_sp = beside(self.flat_sp.astype(float_type(x_nd) if is_far else np.float64), x_nd)
        for start in range(0, len(x_nd), n_block):
            x_bd = x_nd[start : start + n_block]
            x_bd = x_bd if is_far else double(x_bd)
            yield Pass(self.shape, flat_sp, scaling.apply(x_bd)[None]).logit_sbt

    def probabilities(self, x_nd: Array) -> Iterator[Array]:
        """b × outputs, block by block, in float64."""
        shares = sigmoid if self.has_traits else softmax
        return (shares(double(logit_sbt)).mean(axis=0) for logit_sbt in self.logits(x_nd))


class Probabilities(OnePass):
    """Predictions of a probe with `model_`, `classes_` and `one_class_`."""

    model_: Fitted
    classes_: np.ndarray
    one_class_: bool

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label of the highest probability, and that probability.

        A tie goes to the class that sorts first; 1 throughout when one class only was seen.
        """
        codes, scores = [np.empty(0, np.intp)], [np.empty(0)]
        for prob_bc in self._shares(X):
            codes.append(as_numpy(prob_bc.argmax(axis=1)))
            scores.append(as_numpy(namespace(prob_bc).amax(prob_bc, 1)))
        return np.asarray(self.classes_[np.concatenate(codes)]), np.concatenate(scores)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class (n × C, float64)."""
        found = [as_numpy(prob_bc) for prob_bc in self._shares(X)]
        return np.concatenate([np.empty((0, len(self.classes_))), *found])

    def _shares(self, X: Any) -> Iterator[Array]:
        x_nd = read_asked(self, X)
        if self.one_class_:
            return iter([np.ones((len(x_nd), 1))])
        return self.model_.probabilities(x_nd)
