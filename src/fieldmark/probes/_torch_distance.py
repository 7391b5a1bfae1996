"""Which rows are nearest, exactly, where the features live on a GPU?

As `_distance`: a rough product for all pairs, then float64 for the pairs that its rounding cannot
tell from the k nearest. All pairs are looked at: on a GPU that is quicker than choosing them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fieldmark.probes._torch_product import (
    rounding,
    scaled_product,
    split_left,
    split_right,
)

_BLOCK_ENTRIES = 1 << 28
_PAIR_ENTRIES = 1 << 26
_READY_ROWS = 1 << 16
_LEAST_SQUARE = 1e-60
"""stands for the largest square where all rows are zero"""


def has_many_copies(row_nd: Any, most: int) -> bool:
    """Whether one row may occur more often than that; by a checksum, so perhaps falsely yes."""
    bits_nd = row_nd.contiguous().view(
        torch.int32 if row_nd.dtype == torch.float32 else torch.int64
    )
    weight_d = torch.arange(1, bits_nd.shape[1] + 1, device=row_nd.device) * 0x9E3779B1 + 1
    sum_n = torch.cat(
        [
            (bits_nd[start : start + _READY_ROWS].long() * weight_d).sum(dim=1)
            for start in range(0, len(bits_nd), _READY_ROWS)
        ]
    )
    return int(sum_n.unique(return_counts=True)[1].max()) > most


def nearest(
    query_qd: Any, row_nd: Any, k: int, rank_n: np.ndarray, metric: str, is_self: bool
) -> tuple[np.ndarray, np.ndarray]:
    """As `_distance.nearest`; the answers come back to main memory."""
    offset_d = row_nd.mean(dim=0, dtype=torch.float64) if metric == "euclidean" else None
    ready_nd, norm_n = _ready(row_nd, offset_d)
    half_n = norm_n / 2 if metric == "euclidean" else torch.zeros_like(norm_n)
    most = max(float(norm_n.max()), _LEAST_SQUARE)
    # One coordinate more takes |b|² / 2 away: of the size of the others, or it would drown them.
    right = split_right(torch.cat([ready_nd.T, (-half_n / most**0.5).float()[None]]))
    place_n = _places(rank_n, row_nd.device)
    found = []
    for start, rows in _blocks(query_qd, max(1, _BLOCK_ENTRIES // len(row_nd))):
        ready_bd, norm_b = _ready(rows, offset_d)
        left = split_left(torch.nn.functional.pad(ready_bd, (0, 1), value=most**0.5))
        gain_bn = scaled_product(left, right)
        if is_self:
            gain_bn.diagonal(start)[: len(gain_bn)] = -torch.inf
        # Twice the most that rounding can move a gain.
        slack_b = 2 * rounding(ready_bd.shape[1] + 1) * torch.sqrt((norm_b + most) * 1.25 * most)
        slack_b = (left.scale * right.scale * slack_b).float()
        query_p, row_p = _within_reach(gain_bn, k, slack_b)
        distance_p = _measure(rows, row_nd, (query_p, row_p), metric)
        found.append(_first(query_p, row_p, distance_p, place_n, (len(rows), k)))
    if not found:
        return np.empty((0, k), np.intp), np.empty((0, k))
    index_qk, distance_qk = (torch.cat(each).cpu().numpy() for each in zip(*found, strict=True))
    return index_qk.astype(np.intp, copy=False), distance_qk


def _within_reach(gain_bn: Any, k: int, slack_b: Any) -> tuple[Any, Any]:
    kth_b = gain_bn.amax(dim=1) if k == 1 else gain_bn.topk(k, dim=1).values[:, -1]
    query_p, row_p = torch.nonzero(gain_bn >= (kth_b - slack_b)[:, None], as_tuple=True)
    return query_p, row_p


def _measure(query_bd: Any, row_nd: Any, pairs: tuple[Any, Any], metric: str) -> Any:
    """Distances of the pairs in float64."""
    n_pairs = max(1, _PAIR_ENTRIES // row_nd.shape[1])
    found = []
    for query_p, row_p in zip(*(each.split(n_pairs) for each in pairs), strict=True):
        ours_pd, theirs_pd = query_bd[query_p].double(), row_nd[row_p].double()
        if metric == "euclidean":
            found.append((ours_pd - theirs_pd).square_().sum(dim=1).sqrt_())
            continue
        length_p = (ours_pd.square().sum(dim=1) * theirs_pd.square().sum(dim=1)).sqrt_()
        product_p = (ours_pd * theirs_pd).sum(dim=1)
        found.append(1 - product_p / torch.where(length_p > 0, length_p, 1.0))
    return torch.cat(found)


def _first(
    query_p: Any, row_p: Any, distance_p: Any, place_n: Any, shape: tuple[int, int]
) -> tuple[Any, Any]:
    """The k nearest of each query: by distance, then rank, then row."""
    order = torch.argsort(place_n[row_p])
    for key_p in (distance_p, query_p):
        order = order[torch.argsort(key_p[order], stable=True)]
    n_queries, k = shape
    queries = torch.arange(n_queries, device=query_p.device)
    first_b = torch.searchsorted(query_p[order].contiguous(), queries)
    chosen = order[first_b[:, None] + torch.arange(k, device=query_p.device)]
    return row_p[chosen], distance_p[chosen]


def _places(rank_n: np.ndarray, device: Any) -> Any:
    """Where each row stands by rank, then by number."""
    order = torch.argsort(torch.as_tensor(rank_n, device=device), stable=True)
    place_n = torch.empty_like(order)
    place_n[order] = torch.arange(len(order), device=device)
    return place_n


def _ready(x_nd: Any, offset_d: Any | None) -> tuple[Any, Any]:
    """Centred rows (or rows of length one) in float32, and their squares in float64."""
    ready, norm = [], []
    for _, part_bd in _blocks(x_nd, _READY_ROWS):
        part_bd = part_bd.double()
        if offset_d is not None:
            part_bd = part_bd - offset_d
        else:
            length_b1 = part_bd.norm(dim=1, keepdim=True)
            part_bd = part_bd / torch.where(length_b1 > 0, length_b1, 1.0)
        ready.append(part_bd.float())
        norm.append(part_bd.square().sum(dim=1))
    return torch.cat(ready), torch.cat(norm)


def _blocks(x_nd: Any, n_rows: int) -> Iterator[tuple[int, Any]]:
    for start in range(0, len(x_nd), n_rows):
        yield start, x_nd[start : start + n_rows]
