"""Which gallery image does each query's own machine rank first, where the gallery is on a GPU?

All machines descend together (`_exemplar_newton`), whether few images are active or many: products
are cheap there, and the small, irregular problems of `_exemplar_dual` are not. Memory: about ten
arrays of `_BLOCK_ENTRIES` float32, and the gallery four times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fieldmark.probes._exemplar_bank import Bank, costs
from fieldmark.probes._exemplar_newton import descend
from fieldmark.probes._tensor import as_numpy
from fieldmark.probes._torch_product import product, split_left, split_right

_BLOCK_ENTRIES = 1 << 26


class RotatedThere:
    """The gallery on a GPU; long products by half-precision pieces."""

    def __init__(self, bank: Bank) -> None:
        self.row_nd = (bank.x_nd.double() @ bank.axes_dd.double()).float()
        self._move_dn, self._pull_nd = split_right(self.row_nd.T), split_right(self.row_nd)

    def move(self, way_qd: Any) -> Any:
        """As `Rotated.move`."""
        return product(split_left(way_qd), self._move_dn)

    def pull(self, over_qn: Any) -> Any:
        """As `Rotated.pull`."""
        return product(split_left(over_qn), self._pull_nd)


def answer(
    x_nd: Any, cost: float, x_qd: Any, own_q: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Row of the best image and its score; `own_q`: the query's row, which is left out."""
    bank = _make_bank(x_nd, cost, own_q is not None)
    gallery = RotatedThere(bank)
    query_qd = _with_ones(torch.as_tensor(x_qd, device=x_nd.device))
    n_block = max(1, _BLOCK_ENTRIES // bank.n)
    best, scores = [], []
    for start in range(0, len(query_qd), n_block):
        part = slice(start, start + n_block)
        score_qn = descend(bank, gallery, query_qd[part], None if own_q is None else own_q[part])
        score_q, best_q = score_qn.max(dim=1)
        best.append(as_numpy(best_q))
        scores.append(as_numpy(score_q))
    return np.concatenate(best), np.concatenate(scores).astype(np.float64)


def _make_bank(x_nd: Any, cost: float, is_among: bool) -> Bank:
    rows_nd = _with_ones(x_nd)
    power_d, axes_dd = torch.linalg.eigh(rows_nd.double().T @ rows_nd.double())
    cost_one, cost_rest = costs(cost, len(rows_nd), is_among)
    return Bank(
        x_nd=rows_nd,
        mean_d=rows_nd.mean(dim=0),
        likeness_nd=None,
        axes_dd=axes_dd.float(),
        power_d=power_d.clamp(min=0.0).float(),
        cost_one=cost_one,
        cost_rest=cost_rest,
    )


def _with_ones(x_nd: Any) -> Any:
    return torch.nn.functional.pad(x_nd.float(), (0, 1), value=1.0)
