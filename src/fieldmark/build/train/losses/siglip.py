"""Sigmoid loss (SigLIP): https://arxiv.org/abs/2303.15343."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional


class _Sigmoid:
    """Each pair of an image and a text is right or wrong by itself."""

    is_symmetric = False
    start = (math.log(10), -10.0)
    """nearly all pairs are negatives, and with this bias the loss starts there (section 3.2)"""

    def rows(
        self,
        rows: Tensor,
        positives: Tensor,
        n: Tensor,
        columns: Tensor,
        scale: Tensor,
        bias: Tensor,
    ) -> Tensor:
        """−Σ log σ(±l): a negative costs softplus(l), a positive softplus(−l) = softplus(l) − l."""
        rows = scale * rows
        everything = functional.softplus(rows @ columns.T + bias).sum(dim=1)
        return everything - (rows * positives).sum(dim=1) - bias * n


LOSS = _Sigmoid()
