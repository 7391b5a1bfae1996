"""Adam as its paper writes it, for oracles: torch's own takes seconds of imports to be made once.

`tests/probes/test_gradient_gpu.py` holds it against `torch.optim`.
"""

from __future__ import annotations

import math
from typing import Any


class PlainAdam:
    """One step after the other over torch parameters that have a `grad`."""

    def __init__(self, parameters: list[Any], decay: float = 0.0) -> None:
        self.parameters, self.decay, self.n_steps = parameters, decay, 0
        self.first = [each.detach().clone().zero_() for each in parameters]
        self.second = [each.detach().clone().zero_() for each in parameters]

    def step(self, rate: float) -> None:
        """AdamW's decay is on matrices only."""
        self.n_steps += 1
        for each, first, second in zip(self.parameters, self.first, self.second, strict=True):
            first.copy_(0.9 * first + 0.1 * each.grad)
            second.copy_(0.999 * second + 0.001 * each.grad**2)
            mean = first / (1 - 0.9**self.n_steps)
            spread = (second / (1 - 0.999**self.n_steps)).sqrt()
            if each.ndim == 2:
                each.data *= 1 - rate * self.decay
            each.data -= rate * mean / (spread + 1e-8)
            each.grad = None


def halved(rate: float, epoch: int, every: int) -> float:
    """StepLR's rate in an epoch (from 0)."""
    return rate * 0.5 ** (epoch // every)


def annealed(rate: float, step: int, n_steps: int) -> float:
    """CosineAnnealingLR's rate at a step (from 0), down to a hundredth."""
    low = rate / 100
    return low + (rate - low) * (1 + math.cos(math.pi * step / n_steps)) / 2
