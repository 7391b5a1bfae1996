"""L-BFGS for multinomial logistic regression: how are all strengths of one penalty fitted in turn?

The objective is scikit-learn's: `Σ weight · (log Σ exp z - z_true) + |w|² / 2C`, offsets free. The
strengths are fitted from the strongest penalty down, each from where the last one ended. What makes
the steps few is the preconditioner: the curvature of a class, averaged over the classes, `M = Xᵀ
diag(weight · mean p(1-p)) X + 1/C`, by one Cholesky factor that is renewed when the probabilities
have sharpened. L-BFGS (Nocedal 1980; m = 10) learns the rest. The logits along a direction are
known from one product, so the line search is a root of the slope and costs no further product:
two products an iteration in all. With fewer rows than columns the problem is solved in the span of
the rows (QR), where it is the same.

It stops when `√(gᵀM⁻¹g) · max √(xᵀM⁻¹x)`, a first-order bound on how far any training logit can
still move, is below `tol`. numpy on a CPU, torch where the features are a tensor on a GPU.
Everything is float64. Memory: a copy of the features, four arrays of rows × classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fieldmark.probes._arrays import (
    Array,
    as_numpy,
    beside,
    double,
    namespace,
    on_accelerator,
    softmax,
)

_MEMORY = 10
_SHARPER = 2.0
"""how much the mean curvature may change before the preconditioner is renewed"""
_FLAT = 0.3
"""share of the first slope at which a line search ends"""
_MOST_TRIALS = 12
_JITTER = 1e-13
_REACH_ROWS = 512
_NARROW = 1.5
"""columns per row, from which the span of the rows is worth a QR"""


@dataclass(frozen=True, slots=True)
class LogisticFit:
    """Weights of the features as they came; one column for two classes."""

    weight_dk: np.ndarray
    offset_k: np.ndarray
    n_iter: int
    is_converged: bool


def fit_strengths(
    x_nd: Array,
    code_n: np.ndarray,
    weight_n: np.ndarray,
    strengths: Sequence[float],
    tol: float,
    max_iter: int,
) -> list[LogisticFit]:
    """One fit for each strength `C`, in the order given; of classes 0 .. K-1 all are present."""
    problem = _LogisticProblem.make(x_nd, code_n, weight_n)
    start = None
    fits: dict[float, LogisticFit] = {}
    for strength in sorted(set(strengths)):
        descent = _LogisticDescent(problem, strength, start)
        n_iter, is_converged = descent.run(tol, max_iter)
        start = descent.w_dk
        fits[strength] = LogisticFit(*problem.restore(start), n_iter, is_converged)
    return [fits[strength] for strength in strengths]


@dataclass(frozen=True, slots=True)
class _LogisticProblem:
    x_nd: Array
    """centred, or in the span of the rows, with a last column of ones"""
    true_nk: Array
    weight_n1: Array
    mean_d: Array
    axes_dm: Array | None
    """orthonormal basis of the rows' span"""

    @classmethod
    def make(cls, x_nd: Array, code_n: np.ndarray, weight_n: np.ndarray) -> _LogisticProblem:
        x_nd, xp = double(x_nd), namespace(x_nd)
        weight_n1 = beside(weight_n[:, None], x_nd)
        # The offsets are free, so this changes no minimum, and parts offsets from weights.
        mean_d = (weight_n1 * x_nd).sum(axis=0) / weight_n.sum()
        x_nd = x_nd - mean_d
        axes_dm = None
        if x_nd.shape[1] > _NARROW * len(x_nd):
            axes_dm, r_mn = xp.linalg.qr(x_nd.T)
            x_nd = r_mn.T
        n_classes = int(code_n.max()) + 1
        true_nk = (code_n[:, None] == np.arange(n_classes)).astype(np.float64)
        ones_n1 = xp.ones_like(x_nd[:, :1])
        x_nd = xp.concatenate([x_nd, ones_n1], axis=1)
        return cls(x_nd, beside(true_nk[:, n_classes == 2 :], x_nd), weight_n1, mean_d, axes_dm)

    def restore(self, w_dk: Array) -> tuple[np.ndarray, np.ndarray]:
        weight_dk = w_dk[:-1] if self.axes_dm is None else self.axes_dm @ w_dk[:-1]
        return as_numpy(weight_dk), as_numpy(w_dk[-1] - self.mean_d @ weight_dk)

    def probabilities(self, z_nk: Array) -> Array:
        """Of each class, or of the second of two."""
        if z_nk.shape[1] > 1:
            return softmax(z_nk)
        return softmax(namespace(z_nk).concatenate([0 * z_nk, z_nk], axis=1))[:, 1:]


class _LogisticDescent:
    """One strength on its way to the minimum."""

    def __init__(self, problem: _LogisticProblem, strength: float, start: Array | None) -> None:
        self.problem, x_nd = problem, problem.x_nd
        xp = namespace(x_nd)
        self.penalty_d1 = xp.ones_like(x_nd[0])[:, None] / strength
        self.penalty_d1[-1] = 0.0
        zero_dk = x_nd[:0].T @ problem.true_nk[:0]
        self.w_dk = zero_dk if start is None else start
        self.z_nk = x_nd @ self.w_dk
        self.p_nk = problem.probabilities(self.z_nk)
        self.curve = 0.0
        """mean curvature that the preconditioner was made for"""

    def run(self, tol: float, max_iter: int) -> tuple[int, bool]:
        """Iterations, and whether the minimum was reached."""
        g_dk, memory = self._slope(), _Memory()
        for step in range(max_iter):
            if self._renew():
                memory, fair_dk = _Memory(), self.solve(g_dk)
            doubt = max(_dot(g_dk, fair_dk), 0.0) ** 0.5 * self.reach
            if doubt <= tol:
                return step, True
            way_dk = memory.direction(g_dk, fair_dk)
            far = self._walk(way_dk, _dot(g_dk, way_dk))
            if far == 0:  # the slope is at the rounding of float64
                return step, doubt <= max(tol, 1e-3)
            old_dk, old_fair_dk, g_dk = g_dk, fair_dk, self._slope()
            fair_dk = self.solve(g_dk)
            memory.add(far * way_dk, g_dk - old_dk, fair_dk - old_fair_dk)
        return max_iter, False

    def _slope(self) -> Array:
        problem = self.problem
        return (
            problem.x_nd.T @ (problem.weight_n1 * (self.p_nk - problem.true_nk))
            + self.penalty_d1 * self.w_dk
        )

    def _renew(self) -> bool:
        """Makes the preconditioner anew where the probabilities have sharpened (or at first)."""
        problem = self.problem
        curve_n = (problem.weight_n1 * self.p_nk * (1 - self.p_nk)).mean(axis=1)
        curve = float(curve_n.sum())
        if self.curve and 1 / _SHARPER < curve / self.curve < _SHARPER:
            return False
        self.curve = curve
        root_nd = problem.x_nd * curve_n[:, None] ** 0.5
        hessian_dd = root_nd.T @ root_nd
        diagonal_d = hessian_dd.diagonal() + self.penalty_d1[:, 0]
        diagonal_d = diagonal_d + _JITTER * diagonal_d.max()
        self.solve = _factor(hessian_dd, diagonal_d)
        some_dr = problem.x_nd[:: max(1, len(problem.x_nd) // _REACH_ROWS)].T
        self.reach = float((some_dr * self.solve(some_dr)).sum(axis=0).max()) ** 0.5
        return True

    def _walk(self, way_dk: Array, slope: float) -> float:
        """Moves to where the slope along the way has all but vanished; how far that is."""
        problem = self.problem
        move_nk = problem.x_nd @ way_dk
        pull, lean = (_dot(self.penalty_d1 * way_dk, end) for end in (way_dk, self.w_dk))
        low, high, far = (0.0, slope), (np.inf, 0.0), 1.0
        for _ in range(_MOST_TRIALS):
            z_nk = self.z_nk + far * move_nk
            p_nk = problem.probabilities(z_nk)
            here = _dot(problem.weight_n1 * (p_nk - problem.true_nk), move_nk) + lean + far * pull
            if abs(here) <= _FLAT * abs(slope):
                break
            low, high = ((far, here), high) if here < 0 else (low, (far, here))
            if high[0] == np.inf:
                far = 2 * far
            else:  # the secant, kept inside the bracket
                share = low[1] / (low[1] - high[1])
                far = low[0] + min(max(share, 0.05), 0.95) * (high[0] - low[0])
        else:
            far = low[0]
            z_nk = self.z_nk + far * move_nk
            p_nk = problem.probabilities(z_nk)
        self.z_nk, self.p_nk, self.w_dk = z_nk, p_nk, self.w_dk + far * way_dk
        return far


class _Memory:
    """The last steps of L-BFGS: what was walked, what the slope did, and that preconditioned."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Array, Array, Array, float]] = []

    def add(self, walked: Array, turned: Array, fair: Array) -> None:
        product = _dot(walked, turned)
        if product > 0:
            self.pairs = [*self.pairs[1 - _MEMORY :], (walked, turned, fair, product)]

    def direction(self, g_dk: Array, fair_dk: Array) -> Array:
        """The two-loop recursion; `fair_dk` is the preconditioned slope."""
        q_dk, fair_dk, shares = g_dk, fair_dk, []
        for walked, turned, fair, product in reversed(self.pairs):
            share = _dot(walked, q_dk) / product
            q_dk, fair_dk = q_dk - share * turned, fair_dk - share * fair
            shares.append(share)
        if self.pairs:
            _, turned, fair, product = self.pairs[-1]
            fair_dk = fair_dk * (product / _dot(turned, fair))
        for (walked, turned, _, product), share in zip(self.pairs, reversed(shares), strict=True):
            fair_dk = fair_dk + (share - _dot(turned, fair_dk) / product) * walked
        return -fair_dk


def _factor(hessian_dd: Array, diagonal_d: Array) -> Callable[[Array], Array]:
    """Solves `hessian · w = g` by its Cholesky factor; the diagonal is given apart."""
    if on_accelerator(hessian_dd):
        import torch

        hessian_dd.diagonal().copy_(diagonal_d)
        factor_dd = torch.linalg.cholesky(hessian_dd)
        return lambda g_dk: torch.cholesky_solve(g_dk, factor_dd)
    from scipy.linalg import cho_factor, cho_solve

    np.fill_diagonal(hessian_dd, diagonal_d)
    factor = cho_factor(hessian_dd, lower=True, overwrite_a=True, check_finite=False)
    return lambda g_dk: cho_solve(factor, g_dk, check_finite=False)


def _dot(a: Array, b: Array) -> float:
    return float((a * b).sum()) if on_accelerator(a) else float(np.vdot(a, b))
