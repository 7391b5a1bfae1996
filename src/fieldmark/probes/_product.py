"""Matrix products on tensor cores, nearly exact: how are long products taken fast on a GPU?

A number is the sum of a half-precision one and a second that holds what the first lost: 22 bits
together. Three of the four products of such sums, laid side by side as one product of three times
the length, run on the tensor cores with float32 sums: several times as fast as float32 itself, and
no setting of the process is touched. `rounding` bounds what is lost, for whoever must be sure.
Imports torch: only for features that are tensors already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

_LARGEST = 128.0
_ROUND_WIDTH = 8
"""tensor cores want lengths that are multiples of this"""


@dataclass(frozen=True, slots=True)
class HalfPair:
    """A matrix ready to be multiplied: `wide / scale` stands for it."""

    wide: Any
    scale: float


def rounding(length: int) -> float:
    """Largest error of a product of two vectors so long, as a share of their lengths' product."""
    return (3 * length + 64) * 2.0**-24


def split_left(x_nd: Any) -> HalfPair:
    """Rows that stand on the left of a product."""
    high_nd, low_nd, scale = _halves(_padded(x_nd, dim=1))
    return HalfPair(torch.cat([high_nd, low_nd, high_nd], dim=1), scale)


def split_right(x_dn: Any) -> HalfPair:
    """Columns that stand on the right of a product."""
    high_dn, low_dn, scale = _halves(_padded(x_dn, dim=0))
    return HalfPair(torch.cat([high_dn, high_dn, low_dn], dim=0), scale)


def scaled_product(left: HalfPair, right: HalfPair) -> Any:
    """The product times both scales, in float32."""
    n_spare = -right.wide.shape[1] % _ROUND_WIDTH
    wide = torch.nn.functional.pad(right.wide, (0, n_spare)) if n_spare else right.wide
    value = torch.mm(left.wide, wide, out_dtype=torch.float32)
    return value[:, : right.wide.shape[1]] if n_spare else value


def product(left: HalfPair, right: HalfPair) -> Any:
    """The product, in float32."""
    return scaled_product(left, right).mul_(1 / (left.scale * right.scale))


def first_best(group_p: Any, value_p: Any) -> tuple[Any, Any]:
    """The groups that occur, and the place of each one's largest value; the first among equals."""
    order = torch.argsort(value_p, descending=True, stable=True)
    order = order[torch.argsort(group_p[order], stable=True)]
    groups, count = torch.unique_consecutive(group_p[order], return_counts=True)
    return groups, order[count.cumsum(0) - count]


def _halves(x: Any) -> tuple[Any, Any, float]:
    largest = float(x.abs().max()) if x.numel() else 0.0
    scale = _LARGEST / largest if 0 < largest < float("inf") else 1.0
    scaled = x * scale
    high = scaled.half()
    return high, scaled.sub_(high).half(), scale


def _padded(x: Any, dim: int) -> Any:
    """Zeros after the last place, to a round length."""
    n_spare = -x.shape[dim] % _ROUND_WIDTH
    if not n_spare:
        return x
    return torch.nn.functional.pad(x, (0, n_spare) if dim else (0, 0, 0, n_spare))
