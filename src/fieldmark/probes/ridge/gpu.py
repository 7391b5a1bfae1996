"""Ridge on a GPU: which strength is best on held-out rows, where the features live on the device?

The sums are those of `system`, in float64 on the device. A GPU factors one matrix for each strength
sooner than it finds eigenvectors, and scores every strength sooner than it combines a few: rows
whose lead is within the rounding of the fast product are scored again in float64, so the answers
are those of float64.

Memory on the device beyond the features: `folds × classes × width` float64 for the class sums, the
coefficients of some strengths (`_BLOCK_VALUES` float64) and one block of decision values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fieldmark.probes._arrays import as_numpy
from fieldmark.probes._product import (
    first_best,
    rounding,
    scaled_product,
    split_left,
    split_right,
)
from fieldmark.probes._select import Scorer, Splits
from fieldmark.probes.ridge.system import (
    LinearModel,
    NormalEquations,
    TrainingSet,
    balanced_weights,
    standardise,
)

_BLOCK_ROWS = 1 << 16
_BLOCK_VALUES = 1 << 27
_FEW_VALUES = 1 << 26
_FEW_NEAR = 16
"""classes a row, up to which pairs are scored sooner than all classes"""


@dataclass(frozen=True, slots=True)
class _FoldSums:
    """Sums over the rows of one fold, about the offset."""

    count_c: np.ndarray
    sum_cd: Any
    square_d: Any
    low_d: Any
    high_d: Any
    second_tdd: Any
    """sums of outer products with the weights of each training set (without fold t; of all)"""


class GpuRidgePath:
    """As `path.RidgePath`, for features on a GPU."""

    def __init__(self, x_nd: Any, code_n: np.ndarray, is_balanced: bool, splits: Splits) -> None:
        self.x_nd, self.code_n, self.is_balanced = x_nd, code_n, is_balanced
        self.held = [held for _, held in splits] or [np.arange(len(code_n))]
        self.has_folds = len(splits) > 0
        self.offset_d = x_nd.mean(dim=0, dtype=torch.float64)
        n_classes = int(code_n.max()) + 1
        self.count_fc = np.stack(
            [np.bincount(code_n[held], minlength=n_classes) for held in self.held]
        )
        self.parts = [
            self._sums(rows, count_c)
            for rows, count_c in zip(self.held, self.count_fc, strict=True)
        ]

    def scores(self, alphas: list[float], scorer: Scorer, _n_jobs: int = 1) -> np.ndarray:
        """Held-out score by strength and fold; one fold at a time fills the device."""
        score_fa = []
        for fold, held in enumerate(self.held):
            equations = self._equations(fold)
            column_an = self._predict(held, equations, alphas)
            score_fa.append(
                [scorer(self.code_n[held], equations.present_c[column_n]) for column_n in column_an]
            )
        return np.array(score_fa).T

    def model(self, alpha: float) -> LinearModel:
        """The classifier learnt from all rows."""
        equations = self._equations(-1)
        coef_dc = _solve(equations, [alpha])[0] / equations.scale_d[:, None]
        intercept_c = equations.bias_c - equations.centre_d @ coef_dc
        return LinearModel(equations.present_c, as_numpy(coef_dc), as_numpy(intercept_c))

    def _training_counts(self) -> list[np.ndarray]:
        """Of the sets without each fold, and of all rows."""
        total_c = self.count_fc.sum(axis=0)
        without = [total_c - held_c for held_c in self.count_fc] if self.has_folds else []
        return [*without, total_c]

    def _sums(self, rows: np.ndarray, count_c: np.ndarray) -> _FoldSums:
        device, width = self.x_nd.device, self.x_nd.shape[1]
        weights = (
            [balanced_weights(count) for count in self._training_counts()]
            if self.is_balanced
            else []
        )
        weight_tc = torch.as_tensor(np.array(weights), device=device)
        code_n = torch.as_tensor(self.code_n, device=device)
        zeros = torch.zeros(
            (max(1, len(weights)), width, width), dtype=torch.float64, device=device
        )
        sum_cd = zeros.new_zeros((len(count_c), width))
        square_d, low_d, high_d = zeros.new_zeros(width), [], []
        for block in torch.as_tensor(rows, device=device).split(_BLOCK_ROWS):
            part_bd = self.x_nd[block].double() - self.offset_d
            sum_cd.index_add_(0, code_n[block], part_bd)
            square_d += part_bd.square().sum(dim=0)
            low_d.append(part_bd.amin(dim=0))
            high_d.append(part_bd.amax(dim=0))
            if not weights:
                zeros[0].addmm_(part_bd.T, part_bd)
            for second_dd, weight_c in zip(zeros, weight_tc, strict=False):
                second_dd.addmm_(part_bd.T, part_bd * weight_c[code_n[block], None])
        low, high = torch.stack(low_d).amin(dim=0), torch.stack(high_d).amax(dim=0)
        return _FoldSums(count_c, sum_cd, square_d, low, high, zeros)

    def _equations(self, fold: int) -> NormalEquations:
        """Of the training set without a fold; -1: of all rows."""
        kept = [part for at, part in enumerate(self.parts) if at != fold]
        count_c = np.sum([part.count_c for part in kept], axis=0)
        low_d = torch.stack([part.low_d for part in kept]).amin(dim=0)
        high_d = torch.stack([part.high_d for part in kept]).amax(dim=0)
        weight_c = balanced_weights(count_c) if self.is_balanced else np.ones(len(count_c))
        train = TrainingSet(
            offset_d=self.offset_d,
            count_c=count_c,
            sum_cd=sum(part.sum_cd for part in kept),
            square_d=sum(part.square_d for part in kept),
            is_constant_d=low_d == high_d,
            weight_c=weight_c,
            second_dd=sum(part.second_tdd[fold if self.is_balanced else 0] for part in kept),
        )
        return standardise(train)

    def _predict(
        self, held: np.ndarray, equations: NormalEquations, alphas: list[float]
    ) -> np.ndarray:
        """Columns of the winning classes (strengths × rows)."""
        width, n_classes = equations.target_dc.shape
        n_alphas = max(1, _BLOCK_VALUES // (width * n_classes))
        n_rows = max(64, _BLOCK_VALUES // n_classes)
        columns_a = []
        for start in range(0, len(alphas), n_alphas):
            coef_adc = _solve(equations, alphas[start : start + n_alphas])
            strengths = [_Coefficients(coef_dc, equations.bias_c) for coef_dc in coef_adc]
            columns = []
            for block in torch.as_tensor(held, device=self.x_nd.device).split(n_rows):
                z_bd = (self.x_nd[block].double() - equations.centre_d) / equations.scale_d
                z_be = torch.cat([z_bd, torch.ones_like(z_bd[:, :1])], dim=1)
                rows = _Queries(z_be)
                columns.append(torch.stack([strength.winners(rows) for strength in strengths]))
            columns_a.append(torch.cat(columns, dim=1))
        return as_numpy(torch.cat(columns_a))


class _Queries:
    """Rows with a last column of ones, ready for the fast product."""

    def __init__(self, z_be: Any) -> None:
        self.z_be, self.left = z_be, split_left(z_be)
        self.length_b = z_be.norm(dim=1)


class _Coefficients:
    """Coefficients of one strength, with the intercepts as their last row.

    All about their mean over the classes: no comparison needs it, and bounds are tighter without.
    """

    def __init__(self, coef_dc: Any, bias_c: Any) -> None:
        coef_ec = torch.cat([coef_dc, bias_c[None]])
        self.coef_ec = coef_ec - coef_ec.mean(dim=1, keepdim=True)
        self.right = split_right(self.coef_ec)
        self.longest = self.coef_ec.norm(dim=0).max()

    def winners(self, rows: _Queries) -> Any:
        """The class with the highest decision value; the first among equals."""
        value_bc = scaled_product(rows.left, self.right)
        scale = rows.left.scale * self.right.scale
        margin_b = 2 * scale * rounding(len(self.coef_ec)) * self.longest * rows.length_b
        best_b, column_b = value_bc.max(dim=1)
        value_bc.scatter_(1, column_b[:, None], -torch.inf)
        floor_b = best_b - margin_b.float()
        open_b = torch.nonzero(~(value_bc.amax(dim=1) < floor_b))[:, 0]
        for some in open_b.split(max(1, _FEW_VALUES // value_bc.shape[1])):
            is_near_sc = value_bc[some] >= floor_b[some, None]
            is_near_sc.scatter_(1, column_b[some, None], True)
            column_b[some] = self._settle(rows.z_be[some], is_near_sc)
        return column_b

    def _settle(self, z_be: Any, is_near_bc: Any) -> Any:
        """Winners in float64: among the near classes, or among all where those are many."""
        row_p, class_p = torch.nonzero(is_near_bc, as_tuple=True)
        if len(row_p) > _FEW_NEAR * len(z_be):
            return (z_be @ self.coef_ec).argmax(dim=1)
        _, at = first_best(row_p, self._exactly(z_be, row_p, class_p))
        return class_p[at]

    def _exactly(self, z_be: Any, row_p: Any, class_p: Any) -> Any:
        """Decision values of some rows for some classes, in float64."""
        n_pairs = max(1, _FEW_VALUES // z_be.shape[1])
        return torch.cat(
            [
                (z_be[row] * self.coef_ec.T[column]).sum(dim=1)
                for row, column in zip(row_p.split(n_pairs), class_p.split(n_pairs), strict=True)
            ]
        )


def decide(model: LinearModel, x_nd: Any) -> tuple[np.ndarray, np.ndarray]:
    """As `LinearModel.decide`, for rows on a GPU."""
    coef_dc = torch.as_tensor(model.coef_dc, device=x_nd.device)
    bias_c = torch.as_tensor(model.intercept_c, device=x_nd.device)
    columns, leads = [np.empty(0, np.intp)], [np.empty(0)]
    for part_bd in x_nd.split(max(64, _FEW_VALUES // coef_dc.shape[1])):
        value_bc = part_bd.double() @ coef_dc + bias_c
        size_b = value_bc[:, 1].abs()
        best_b, column_b = value_bc.max(dim=1)
        value_bc.scatter_(1, column_b[:, None], -torch.inf)
        columns.append(as_numpy(column_b))
        lead_b = size_b if len(model.present_c) == 2 else best_b - value_bc.amax(dim=1)
        leads.append(as_numpy(lead_b))
    return model.present_c[np.concatenate(columns)], np.concatenate(leads)


def _solve(equations: NormalEquations, alphas: list[float]) -> Any:
    """Coefficients of standardised features (strengths × d × c)."""
    strength_a11 = equations.bias_c.new_tensor(alphas)[:, None, None]
    eye_dd = torch.eye(len(equations.second_dd), dtype=torch.float64, device=strength_a11.device)
    factor_add, trouble_a = torch.linalg.cholesky_ex(equations.second_dd + strength_a11 * eye_dd)
    if not trouble_a.any():
        target_adc = equations.target_dc.expand(len(alphas), *equations.target_dc.shape)
        return torch.cholesky_solve(target_adc, factor_add)
    lambda_m, axes_dm = torch.linalg.eigh(equations.second_dd)
    lambda_m1 = lambda_m.clamp(min=0.0)[:, None]
    return axes_dm @ ((axes_dm.T @ equations.target_dc) / (lambda_m1 + strength_a11))
