"""Optimiser (AdamW), learning-rate schedule (linear warm-up, cosine) and guard: how far does each
update go, and when has a run gone wrong?
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fieldmark.build.train.recipe import GuardRecipe, OptimiserRecipe

if TYPE_CHECKING:
    from fieldmark.build.train.updates import StepNumbers

_MEDIAN_OF, _LEAST = 200, 20
"""steps that a running median is over; with fewer than the second there is none yet"""


def make_optimiser(clip_model: nn.Module, settings: OptimiserRecipe, device: Any) -> Any:
    """AdamW; as in open_clip, gains, biases and scales do not decay."""
    named = [(name, param) for name, param in clip_model.named_parameters() if param.requires_grad]
    plain = [param for name, param in named if _is_undecayed(name, param)]
    decayed = [param for name, param in named if not _is_undecayed(name, param)]
    groups = [
        {"params": plain, "weight_decay": 0.0},
        {"params": decayed, "weight_decay": settings.weight_decay},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
        fused=device.type == "cuda",
    )


def _is_undecayed(name: str, param: Any) -> bool:
    return param.ndim < 2 or any(word in name for word in ("bn", "ln", "bias", "scale"))


def learning_rate(step: int, n_steps: int, settings: OptimiserRecipe) -> float:
    """Of update `step` (from 0): linear warm-up, then half a cosine down to nothing."""
    if step < settings.warmup_steps:
        return settings.lr * (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return settings.lr
    done = (step - settings.warmup_steps) / max(1, n_steps - settings.warmup_steps)
    return settings.lr * 0.5 * (1 + math.cos(math.pi * done))


class LossGuard:
    """Says when a run has gone wrong: a number that is not finite, or a loss far above its running
    median for many steps in a row.
    """

    def __init__(self, settings: GuardRecipe, losses: Sequence[float] = ()) -> None:
        """`losses`: of the steps before, where a run goes on; a spike goes on with it."""
        self.settings, self._recent = settings, deque[float](maxlen=_MEDIAN_OF)
        self._n_spikes = 0
        for loss in losses[-2 * _MEDIAN_OF - settings.patience :]:
            self._take(loss)

    def problem(self, numbers: StepNumbers) -> str:
        """What is wrong with a step, in a few words; "" = nothing."""
        for name in ("loss", "grad_norm"):
            if not math.isfinite(value := getattr(numbers, name)):
                return f"{'loss' if name == 'loss' else 'norm of the gradient'} is {value}"
        usual = self._take(numbers.loss)
        if self._n_spikes < self.settings.patience:
            return ""
        return (
            f"loss is {numbers.loss:.3g}, more than {self.settings.spike:g} times its median of "
            f"{usual:.3g}, for {self._n_spikes} steps"
        )

    def _take(self, loss: float) -> float:
        """The median that a loss is compared to, of those before it that were no spikes."""
        usual = median(self._recent) if len(self._recent) >= _LEAST else math.inf
        if loss <= self.settings.spike * usual:
            self._n_spikes = 0
            self._recent.append(loss)
        else:
            self._n_spikes += 1
        return usual
