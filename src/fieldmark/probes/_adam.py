"""How far does each weight of each run go at a step?

Adam (Kingma and Ba 2015) with the decoupled weight decay of AdamW (Loshchilov and Hutter 2019), of
all runs at once and in place. What changes from step to step comes in an array, so that a recorded
step can be replayed.
"""

from __future__ import annotations

import numpy as np

from fieldmark.probes._arrays import Array, namespace, real, zeros

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


def step_factors(rate_t: np.ndarray) -> np.ndarray:
    """For each step: its rate over the bias of the mean, 1 over that of the spread, its rate."""
    step_t = np.arange(1, len(rate_t) + 1)
    mean_t, spread_t = 1 - _BETA_1**step_t, np.sqrt(1 - _BETA_2**step_t)
    return np.stack([rate_t / mean_t, 1 / spread_t, rate_t], axis=1)


class Adam:
    """Weights (runs × values) and their moments; `gradient_sp` is filled before each step."""

    def __init__(
        self, flat_sp: Array, rate_s: np.ndarray, decay_s: np.ndarray, n_weights: int
    ) -> None:
        shape = tuple(flat_sp.shape)
        self.flat_sp, self.n_weights = flat_sp, n_weights
        self.gradient_sp, self._mean_sp = zeros(shape, flat_sp), zeros(shape, flat_sp)
        self._square_sp, self._spare_sp = zeros(shape, flat_sp), zeros(shape, flat_sp)
        self._has_decay = bool(decay_s.any())
        self._rate_s1 = real(rate_s[:, None], flat_sp)
        self._decay_s1 = real((rate_s * decay_s)[:, None], flat_sp)

    def step(self, factor_3: Array) -> None:
        xp, spare_sp = namespace(self.flat_sp), self._spare_sp
        xp.multiply(self.gradient_sp, 1 - _BETA_1, out=spare_sp)
        self._mean_sp *= _BETA_1
        self._mean_sp += spare_sp
        xp.multiply(self.gradient_sp, self.gradient_sp, out=spare_sp)
        spare_sp *= 1 - _BETA_2
        self._square_sp *= _BETA_2
        self._square_sp += spare_sp
        xp.sqrt(self._square_sp, out=spare_sp)
        spare_sp *= factor_3[1]
        spare_sp += _EPSILON
        xp.divide(self._mean_sp, spare_sp, out=spare_sp)
        spare_sp *= self._rate_s1 * factor_3[0]
        if self._has_decay:
            weights_sp = self.flat_sp[:, : self.n_weights]
            weights_sp *= 1 - self._decay_s1 * factor_3[2]
        self.flat_sp -= spare_sp
