"""Where is the minimum of the penalised logistic loss, for several strengths at once?

The walk goes over centred and scaled columns, whose curvatures are alike, whatever the features
are; the penalty is on the coefficients asked for, and the offset is free, so the minimum is the
same. Two classes have one log-odds, more have one logit each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fieldmark.probes._arrays import (
    Array,
    beside,
    double,
    namespace,
    numbers,
    sigmoid,
    turned,
)
from fieldmark.probes._lbfgs import minimise
from fieldmark.probes._moments import balanced_weights
from fieldmark.probes._scaling import column_moments
from fieldmark.probes._tensor import as_numpy, on_accelerator

_COPY_BYTES = 512 << 20
_BLOCK_VALUES, _FAR_BLOCK_VALUES = 1 << 20, 1 << 25
"""values in a block: in reach of a processor's cache, or worth a launch on an accelerator"""


@dataclass(frozen=True, slots=True)
class Found:
    flat_sp: np.ndarray
    """for each strength: coefficients (width × classes), then offsets, for features as they came"""
    n_iterations: int
    is_converged: bool


def fit_strengths(
    x_nd: Array,
    code_n: np.ndarray,
    strengths: list[float],
    choices: tuple[bool, bool],
    limits: tuple[float, int],
) -> Found:
    """`choices`: balanced classes? standardised features? `limits`: tolerance, most iterations."""
    is_balanced, is_standardised = choices
    loss = _LogisticLoss(x_nd, code_n, is_balanced)
    inverse_s = 1 / (np.array(strengths) * loss.weight)
    size_d = np.ones_like(loss.spread_d) if is_standardised else loss.spread_d**-2
    penalty_sdk = np.ones((len(strengths), x_nd.shape[1] + 1, loss.n_logits))
    penalty_sdk *= np.append(size_d, 0)[:, None] * inverse_s[:, None, None]
    penalty_sp = beside(penalty_sdk.reshape(len(strengths), -1), x_nd)
    minimum = minimise(
        loss.penalised(penalty_sp), penalty_sp * 0, penalty_sp + loss.curvature, *limits
    )
    value_sdk = as_numpy(minimum.point_sp).reshape(penalty_sdk.shape)
    return Found(loss.as_came(value_sdk), minimum.n_iterations, minimum.is_converged)


class _LogisticLoss:
    """Weighted mean cross-entropy of class numbers, and its gradient, over blocks of rows."""

    def __init__(self, x_nd: Array, code_n: np.ndarray, is_balanced: bool) -> None:
        n_classes = int(code_n.max()) + 1
        self.n_logits = 1 if n_classes == 2 else n_classes
        count_c = np.bincount(code_n, minlength=n_classes)
        weight_c = balanced_weights(count_c) if is_balanced else np.ones(n_classes)
        self.weight = float(weight_c @ count_c)
        share_n = weight_c[code_n] / self.weight
        self._share_n, self._code_n = beside(share_n, x_nd), beside(code_n.astype(np.int64), x_nd)
        self.mean_d, self.spread_d = column_moments(x_nd, np.arange(len(code_n)))
        self._mean_d, self._spread_d = beside(self.mean_d, x_nd), beside(self.spread_d, x_nd)
        # A scaled column's second moment times the mean of p (1 - p) at the start.
        self.curvature = (1 / n_classes) * (1 - 1 / n_classes)
        self._x_nd, self._copies = x_nd, list[Array]()
        if x_nd.shape[0] * x_nd.shape[1] * 8 <= _COPY_BYTES:
            self._copies = [self._scaled(block) for block in self._ranges()]

    def penalised(self, penalty_sp: Array) -> Callable[[Array], tuple[Array, Array]]:
        """Values (s) and gradients (s × p) of the loss plus half the penalty on squares."""

        def function(point_sp: Array) -> tuple[Array, Array]:
            value_s, slope_sp = self._loss(point_sp)
            pull_sp = penalty_sp * point_sp
            return value_s + (pull_sp * point_sp).sum(axis=1) / 2, slope_sp + pull_sp

        return function

    def as_came(self, value_sdk: np.ndarray) -> np.ndarray:
        """Flat coefficients and offsets for the features before scaling; two columns for two."""
        weight_sdk = value_sdk[:, :-1] / self.spread_d[:, None]
        offset_sk = value_sdk[:, -1] - np.einsum("d,sdk->sk", self.mean_d, weight_sdk)
        if self.n_logits == 1:
            weight_sdk = np.concatenate([0 * weight_sdk, weight_sdk], axis=2)
            offset_sk = np.concatenate([0 * offset_sk, offset_sk], axis=1)
        return np.concatenate([weight_sdk.reshape(len(value_sdk), -1), offset_sk], axis=1)

    def _loss(self, point_sp: Array) -> tuple[Array, Array]:
        point_sdk = point_sp.reshape(len(point_sp), -1, self.n_logits)
        value_s, slope_skd = 0 * point_sdk[:, 0, 0], 0 * turned(point_sdk)
        for block, z_bd in self._blocks():
            logit_sbk = z_bd @ point_sdk[:, :-1] + point_sdk[:, -1:]
            loss_sb, turn_sbk = self._bend(logit_sbk, self._code_n[block.start : block.stop])
            share_b = self._share_n[block.start : block.stop]
            turn_sbk *= share_b[:, None]
            value_s += (loss_sb * share_b).sum(axis=1)
            slope_skd[..., :-1] += turned(turn_sbk) @ z_bd
            slope_skd[..., -1] += turn_sbk.sum(axis=1)
        return value_s, turned(slope_skd).reshape(len(point_sp), -1)

    def _bend(self, logit_sbk: Array, code_b: Array) -> tuple[Array, Array]:
        """Loss (s × b) and its slope in the logits."""
        xp = namespace(logit_sbk)
        if self.n_logits == 1:
            logit_sb = logit_sbk[..., 0]
            loss_sb = xp.log1p(xp.exp(-xp.abs(logit_sb))) + xp.clip(logit_sb, 0, None)
            return loss_sb - code_b * logit_sb, (sigmoid(logit_sb) - code_b)[..., None]
        rows_b = numbers(range(len(code_b)), logit_sbk)
        top_sb = xp.amax(logit_sbk, -1)
        turn_sbk = xp.exp(logit_sbk - top_sb[..., None])
        sum_sb = turn_sbk.sum(axis=-1)
        loss_sb = xp.log(sum_sb) + top_sb - logit_sbk[:, rows_b, code_b]
        turn_sbk /= sum_sb[..., None]
        turn_sbk[:, rows_b, code_b] -= 1
        return loss_sb, turn_sbk

    def _ranges(self) -> list[range]:
        n_values = _FAR_BLOCK_VALUES if on_accelerator(self._x_nd) else _BLOCK_VALUES
        n, n_block = len(self._x_nd), max(1, n_values // self._x_nd.shape[1])
        return [range(start, min(start + n_block, n)) for start in range(0, n, n_block)]

    def _blocks(self) -> Iterator[tuple[range, Array]]:
        if self._copies:
            yield from zip(self._ranges(), self._copies, strict=True)
            return
        for block in self._ranges():
            yield block, self._scaled(block)

    def _scaled(self, block: range) -> Array:
        return (double(self._x_nd[block.start : block.stop]) - self._mean_d) / self._spread_d
