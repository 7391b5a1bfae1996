"""Which gallery image does each query's own machine rank first?

Two ways to the same machine: few active images (`_exemplar_dual`) or many (`_exemplar_newton`). A
small pilot among the gallery's own images decides which way queries start; one that turns out to
have many active images changes over. Nothing depends on which queries are asked together. Memory:
the bank, and for 256 queries at a time their scores and small matrices (about 0.1 MB each).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fieldmark.probes._exemplar_bank import Bank, append_ones, leads, make_bank
from fieldmark.probes._exemplar_dual import (
    N_SEEDS,
    Desk,
    Forecast,
    Machine,
    choose_seeds,
    learn_forecast,
    likeness,
    violators,
)
from fieldmark.probes._exemplar_newton import Rotated, descend

_BLOCK = 256
_PILOTS = 16
_PILOT_ROUNDS = 2
_MOST_ROUNDS = 30
_QUICK_PIVOTS = 2
"""in the first round, which only finds out who matters: it need not be exact"""
_MOST_PIVOTS = 200


class Asker:
    """Exemplar machines over one gallery; `is_among` as in `make_bank`."""

    def __init__(self, x_nd: np.ndarray, cost: float, is_among: bool) -> None:
        self._bank: Bank = make_bank(x_nd, cost, is_among)
        self._many = max(self._bank.x_nd.shape[1] // 3, 64)

    def answer(
        self, x_qd: np.ndarray, own_q: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row of the best image and its score; `own_q`: the query's row, which is left out."""
        best_q, score_q = np.zeros(len(x_qd), np.intp), np.zeros(len(x_qd))
        query_qd = append_ones(x_qd.astype(self._bank.x_nd.dtype))
        for start in range(0, len(x_qd), _BLOCK):
            block = slice(start, start + _BLOCK)
            score_qn = self._score(query_qd[block], None if own_q is None else own_q[block])
            best_q[block] = score_qn.argmax(axis=1)
            score_q[block] = score_qn.max(axis=1)
        return best_q, score_q

    @cached_property
    def _rotated(self) -> Rotated:
        return Rotated(self._bank)

    @cached_property
    def _has_many(self) -> bool:
        """Are usually many images active? Asked of a few, evenly spread over the gallery."""
        own_q, query_qd = self._pilots
        score_qn, _ = self._work(query_qd, own_q, Forecast(), _PILOT_ROUNDS)
        return bool(np.median((score_qn > -1).sum(axis=1)) > self._many)

    @cached_property
    def _forecast(self) -> Forecast:
        own_q, query_qd = self._pilots
        if self._bank.n <= 2 * N_SEEDS:
            return Forecast()
        score_qn, _ = self._work(query_qd, own_q, Forecast(), _MOST_ROUNDS)
        return learn_forecast(likeness(self._bank, query_qd), score_qn)

    @cached_property
    def _pilots(self) -> tuple[np.ndarray, np.ndarray]:
        own_q = np.linspace(0, self._bank.n - 1, min(_PILOTS, self._bank.n)).astype(np.intp)
        return own_q, self._bank.x_nd[own_q]

    def _score(self, query_qd: np.ndarray, own_q: np.ndarray | None) -> np.ndarray:
        if self._has_many:
            return np.asarray(descend(self._bank, self._rotated, query_qd, own_q))
        score_qn, left = self._work(query_qd, own_q, self._forecast, _MOST_ROUNDS)
        if len(left):
            own = None if own_q is None else own_q[left]
            score_qn[left] = descend(self._bank, self._rotated, query_qd[left], own)
        return score_qn

    def _work(
        self, query_qd: np.ndarray, own_q: np.ndarray | None, forecast: Forecast, rounds: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores by growing lists of support vectors, and the queries for which it did not end."""
        seed_qk = choose_seeds(self._bank, query_qd, own_q, forecast)
        desk = Desk(self._bank)
        machines = [
            Machine(desk, query_d, rows) for query_d, rows in zip(query_qd, seed_qk, strict=True)
        ]
        score_qn = np.empty((len(query_qd), self._bank.n), query_qd.dtype)
        left, given_up = np.arange(len(query_qd)), list[int]()
        for turn in range(rounds):
            is_quick = turn == 0 and self._bank.n > N_SEEDS
            most = _QUICK_PIVOTS if is_quick else _MOST_PIVOTS
            weight_ld = np.stack([machines[each].solve(most) for each in left])
            score_ln = weight_ld @ self._bank.x_nd.T
            if own_q is not None:
                score_ln[np.arange(len(left)), own_q[left]] = -np.inf
            score_qn[left] = score_ln
            is_many = (score_ln > -1).sum(axis=1) > (
                3 * self._many if turn > _PILOT_ROUNDS else np.inf
            )
            given_up += left[is_many].tolist()
            is_open = [
                not many and _grow(machines[each], score_n, lead)
                for each, many, score_n, lead in zip(
                    left, is_many, score_ln, leads(score_ln), strict=True
                )
            ]
            left = left[is_open]
            if not len(left):
                break
        return score_qn, np.array([*given_up, *left], np.intp)


def _grow(machine: Machine, score_n: np.ndarray, lead: float) -> bool:
    """Whether the machine has to be solved again, and with whom."""
    new = violators(score_n, machine.rows, lead)
    if len(new):
        machine.let_in(new)
    return len(new) > 0 or not machine.is_settled
