"""What do many small networks of one shape answer, and which way does each of their losses fall?

One layer (a linear probe) or two with dropout between them (the trait probe of FishNet), for a
whole sweep at once: every array has the runs as its leading axis and products are batched. The
gradients are written out, so that the same lines run on numpy and on an accelerator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fieldmark import draws
from fieldmark.probes._arrays import Array, namespace, turned

ACTIVATIONS = ("none", "relu")


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the layers; `hidden=0` is one linear layer."""

    n_inputs: int
    n_outputs: int
    hidden: int = 0
    activation: str = "none"
    dropout: float = 0.0
    """share of hidden values that are left out at each training step"""

    @property
    def matrices(self) -> list[tuple[int, int]]:
        if not self.hidden:
            return [(self.n_inputs, self.n_outputs)]
        return [(self.n_inputs, self.hidden), (self.hidden, self.n_outputs)]

    @property
    def n_weights(self) -> int:
        return sum(rows * columns for rows, columns in self.matrices)

    @property
    def n_values(self) -> int:
        return self.n_weights + sum(columns for _, columns in self.matrices)

    def views(self, flat_sp: Array) -> tuple[list[Array], list[Array]]:
        """Matrices (s × rows × columns) and offsets (s × 1 × columns) inside one flat array.

        The matrices come first, so that weight decay touches one slice.
        """
        at, weights, offsets = 0, [], []
        for rows, columns in self.matrices:
            block = flat_sp[:, at : at + rows * columns]
            weights.append(block.reshape(-1, rows, columns))
            at += rows * columns
        for _, columns in self.matrices:
            offsets.append(flat_sp[:, None, at : at + columns])
            at += columns
        return weights, offsets

    def start(self, seed: int, probe: str) -> np.ndarray:
        """Flat first values: even in ± 1/√rows, as torch's Linear has them."""
        flat = np.empty((1, self.n_values))
        weights, offsets = self.views(flat)
        for number, (rows, columns) in enumerate(self.matrices):
            generator, bound = draws.generator(seed, probe, "layer", number), 1 / math.sqrt(rows)
            weights[number][:] = generator.uniform(-bound, bound, (rows, columns))
            offsets[number][:] = generator.uniform(-bound, bound, columns)
        return np.asarray(flat[0])


@dataclass(slots=True)
class Pass:
    """One batch on its way through all networks; `gradient_sp` takes the way back.

    `x_ubd` has one batch for all runs (u = 1) or one for each. `keep_ubh` says which hidden values
    stay; None is eval mode: all stay, at their own size.
    """

    shape: Shape
    flat_sp: Array
    x_ubd: Array
    keep_ubh: Array | None = None
    logit_sbt: Array = field(init=False)
    hidden_sbh: Array | None = field(init=False, default=None)
    is_active_sbh: Array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        weights, offsets = self.shape.views(self.flat_sp)
        value = self.x_ubd @ weights[0]
        value += offsets[0]
        if self.shape.hidden:
            if self.shape.activation == "relu":
                self.is_active_sbh = value > 0
                value *= self.is_active_sbh
            self.hidden_sbh = self._dropped(value)
            value = self.hidden_sbh @ weights[1]
            value += offsets[1]
        self.logit_sbt = value

    def gradient_sp(self, slope_sbt: Array, out_sp: Array) -> None:
        """From the loss's slope in the logits to its slope in every weight."""
        xp = namespace(out_sp)
        weights, _ = self.shape.views(self.flat_sp)
        to_weights, to_offsets = self.shape.views(out_sp)
        if self.hidden_sbh is not None:
            xp.matmul(turned(self.hidden_sbh), slope_sbt, out=to_weights[1])
            to_offsets[1][:, 0] = slope_sbt.sum(axis=1)
            slope_sbt = self._dropped(slope_sbt @ turned(weights[1]))
            if self.is_active_sbh is not None:
                slope_sbt *= self.is_active_sbh
        xp.matmul(turned(self.x_ubd), slope_sbt, out=to_weights[0])
        to_offsets[0][:, 0] = slope_sbt.sum(axis=1)

    def _dropped(self, value_sbh: Array) -> Array:
        if self.keep_ubh is not None:
            value_sbh *= self.keep_ubh
            value_sbh *= 1 / (1 - self.shape.dropout)
        return value_sbh
