"""Softmax loss (InfoNCE), as CLIP is trained: https://arxiv.org/abs/2103.00020."""

from __future__ import annotations

from torch import Tensor


class _Softmax:
    """Each image chooses among the texts, and each text among the images."""

    is_symmetric = True
    start = None

    def rows(
        self,
        rows: Tensor,
        positives: Tensor,
        _n: Tensor,
        columns: Tensor,
        scale: Tensor,
        _b: Tensor,
    ) -> Tensor:
        """Cross entropy, its target uniform over the positives: log Σ exp(l) − mean l⁺."""
        rows = scale * rows
        return (rows @ columns.T).logsumexp(dim=1) - (rows * positives).sum(dim=1)


LOSS = _Softmax()
