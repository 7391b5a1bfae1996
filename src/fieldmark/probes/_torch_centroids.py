"""Which class mean is nearest, where the features live on a GPU?

As `_centroids`, with many draws in one product: values of all their class means for all test rows,
and float64 for the test rows whose lead is within its rounding. Memory on the device: some arrays
of `_BLOCK_VALUES` float32 and, for as many draws, their rows and means in float64.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fieldmark.probes._tensor import as_numpy
from fieldmark.probes._torch_product import (
    first_best,
    product,
    rounding,
    split_left,
    split_right,
)

_BLOCK_VALUES = 1 << 27
_BLOCK_ROWS = 1 << 16
_STEPS_BESIDE = 8 * 2.0**-24
"""rounding of the few terms beside the product"""


@dataclass(frozen=True, slots=True)
class _Draws:
    """Some draws: their means (mu), their class means, and where a class has no row."""

    middle_kd: Any
    mean_kcd: Any
    is_absent_kc: Any


def class_means(x_nd: Any, code_n: np.ndarray, n_classes: int) -> np.ndarray:
    """Means in float64, back in main memory."""
    offset_d = x_nd.mean(dim=0, dtype=torch.float64)
    code = torch.as_tensor(code_n, device=x_nd.device)
    sum_cd = offset_d.new_zeros((n_classes, len(offset_d)))
    for part_bd, code_b in zip(x_nd.split(_BLOCK_ROWS), code.split(_BLOCK_ROWS), strict=True):
        sum_cd.index_add_(0, code_b, part_bd.double() - offset_d)
    count_c = torch.bincount(code, minlength=n_classes)
    return as_numpy(sum_cd / count_c[:, None] + offset_d)


class RepeatsThere:
    """Test rows and a pool on a GPU; `has_length` gives every row length one first."""

    def __init__(self, pool_nd: Any, code_n: np.ndarray, test_td: Any, has_length: bool) -> None:
        self.pool_nd, self.has_length = pool_nd, has_length
        self.code_n = torch.as_tensor(code_n, device=pool_nd.device)
        self.n_classes = int(code_n.max()) + 1
        self.test_td = self._own(test_td)
        self.offset_d = self.test_td.mean(dim=0)
        self.near_td = self.test_td - self.offset_d
        self.length_t = self.near_td.norm(dim=1)
        self.right = split_right(self.near_td.T)

    def predict(self, draws: list[np.ndarray], is_centred: bool, is_unit: bool) -> np.ndarray:
        """Class numbers (draws × test rows)."""
        by_size = defaultdict(list)
        for at, rows in enumerate(draws):
            by_size[len(rows)].append(at)
        answers = np.empty((len(draws), len(self.test_td)), np.intp)
        per_draw = self.n_classes * max(len(self.test_td), self.pool_nd.shape[1])
        n_draws = max(1, _BLOCK_VALUES // per_draw)
        for members in by_size.values():
            for start in range(0, len(members), n_draws):
                some = members[start : start + n_draws]
                rows = torch.as_tensor(np.stack([draws[at] for at in some]))
                found = self._means(rows.to(self.pool_nd.device), is_centred, is_unit)
                answers[some] = as_numpy(self._best(found, is_unit))
        return answers

    def _own(self, x_nd: Any) -> Any:
        x_nd = x_nd.double()
        return _of_length_one(x_nd) if self.has_length else x_nd

    def _means(self, rows_kr: Any, is_centred: bool, is_unit: bool) -> _Draws:
        row_krd = self._own(self.pool_nd[rows_kr])
        middle_kd = row_krd.new_zeros((len(row_krd), row_krd.shape[2]))
        if is_centred:
            # Exactly the value where a feature has but one: rounding would grow to length one.
            is_constant_kd = row_krd.amin(dim=1) == row_krd.amax(dim=1)
            middle_kd = torch.where(is_constant_kd, row_krd[:, 0], row_krd.mean(dim=1))
        row_krd = row_krd - middle_kd[:, None]
        row_krd = _of_length_one(row_krd) if is_unit else row_krd
        first_k1 = torch.arange(len(rows_kr), device=rows_kr.device)[:, None] * self.n_classes
        cell_s = (first_k1 + self.code_n[rows_kr]).ravel()
        count_kc = torch.bincount(cell_s, minlength=len(rows_kr) * self.n_classes)
        sum_cd = row_krd.new_zeros((len(count_kc), row_krd.shape[2]))
        sum_cd.index_add_(0, cell_s, row_krd.flatten(0, 1))
        mean_cd = sum_cd / count_kc.clamp(min=1)[:, None]
        shape = (len(rows_kr), self.n_classes)
        return _Draws(middle_kd, mean_cd.unflatten(0, shape), (count_kc == 0).view(shape))

    def _best(self, draws: _Draws, is_unit: bool) -> Any:
        """The class with the largest value; in float64 where rounding may decide."""
        middle_kd = draws.middle_kd - self.offset_d
        half_kc = draws.mean_kcd.square().sum(dim=2) / 2
        value_kct = self._values(draws, middle_kd, half_kc, is_unit)
        longest_k = (2 * half_kc.amax(dim=1)).sqrt()
        reach_kt = self.length_t + (middle_kd.norm(dim=1) + longest_k)[:, None]
        step = 2 * (rounding(self.near_td.shape[1]) + _STEPS_BESIDE)
        margin_kt = step * (longest_k * (1 + longest_k))[:, None] * reach_kt
        floor_kt = value_kct.amax(dim=1) - margin_kt.float()
        near = torch.nonzero(value_kct >= floor_kt[:, None], as_tuple=True)
        draw_p, class_p, test_p = near
        n_tests = floor_kt.shape[1]
        asked_p = draw_p * n_tests + test_p
        column_s = torch.empty(floor_kt.numel(), dtype=torch.int64, device=asked_p.device)
        column_s[asked_p] = class_p
        open_p = torch.nonzero(torch.bincount(asked_p, minlength=len(column_s))[asked_p] > 1)[:, 0]
        if len(open_p):
            draw_p, class_p, test_p = (each[open_p] for each in near)
            distance_p = self._measure(draws, (draw_p, class_p, test_p), is_unit)
            some, at = first_best(asked_p[open_p], -distance_p)
            column_s[some] = class_p[at]
        return column_s.view(floor_kt.shape)

    def _values(self, draws: _Draws, middle_kd: Any, half_kc: Any, is_unit: bool) -> Any:
        """`(x - mu) m - |m|² / 2`, the last term times `|x - mu|` for rows of length one."""
        left = split_left(draws.mean_kcd.flatten(0, 1))
        value_kct = product(left, self.right).unflatten(0, half_kc.shape)
        along_kc = torch.einsum("kcd,kd->kc", draws.mean_kcd, middle_kd)
        if not is_unit:
            along_kc = along_kc + half_kc
        elif float(half_kc.amax() - half_kc.amin()) > 0:
            far_kt = torch.cdist(middle_kd, self.near_td).float()
            value_kct.addcmul_(half_kc.float()[:, :, None], far_kt[:, None], value=-1)
        along_kc = torch.where(draws.is_absent_kc, torch.inf, along_kc)
        value_kct -= along_kc.float()[:, :, None]
        return value_kct

    def _measure(self, draws: _Draws, near: tuple[Any, Any, Any], is_unit: bool) -> Any:
        """Squared distances of (draw, class, test row) in float64."""
        n_pairs = max(1, _BLOCK_VALUES // self.near_td.shape[1])
        found = []
        for draw, cls, test in zip(*(each.split(n_pairs) for each in near), strict=True):
            x_pd = self.test_td[test] - draws.middle_kd[draw]
            x_pd = _of_length_one(x_pd) if is_unit else x_pd
            found.append((draws.mean_kcd[draw, cls] - x_pd).square_().sum(dim=1))
        return torch.cat(found)


def _of_length_one(x: Any) -> Any:
    length = x.norm(dim=-1, keepdim=True)
    return x / torch.where(length > 0, length, 1.0)
