"""Training losses: `softmax.py` is `[loss] kind = "softmax"`, one class per file.

A file's `LOSS` says how one projector's rows are scored against their columns; `contrastive_loss`
brings rows, columns and positives together, over all processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports
from fieldmark.registry import Registry

if TYPE_CHECKING:
    from fieldmark.build.train.losses._contrastive import LossParts, TrainingLoss, contrastive_loss

__all__ = ["LOSSES", "LossParts", "TrainingLoss", "contrastive_loss"]

LOSSES = Registry("training loss", "fieldmark.build.train.losses")

__getattr__ = exports(__name__)
