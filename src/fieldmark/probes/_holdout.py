"""Which setting of a sweep is best on rows that were held out?"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldmark import draws
from fieldmark.errors import UsageError
from fieldmark.probes._inputs import ProbeDataError
from fieldmark.probes._select import rare_notes

NOTHING_HELD_OUT = "too few images to hold any out: no search, the first setting listed"


def parse_numbers(probe: str, name: str, value: Any, is_zero_ok: bool = False) -> list[float]:
    """A number or a list of numbers, in the order given.

    >>> parse_numbers("linear", "learning_rates", [1e-3, "3e-4"])
    [0.001, 0.0003]
    """
    entries = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
    try:
        numbers = [float("nan") if isinstance(each, bool) else float(each) for each in entries]
    except (TypeError, ValueError):
        numbers = []
    is_good = all(0 <= each < float("inf") and (each > 0 or is_zero_ok) for each in numbers)
    if not (numbers and is_good):
        bound = "from 0 up" if is_zero_ok else "above 0"
        raise UsageError(
            f"probe {probe!r}: {name} is {value!r}, expected a number {bound} or a list of them."
        )
    return numbers


def check_share(probe: str, name: str, value: object, is_zero_ok: bool = False) -> None:
    """Refuses anything but a number between 0 and 1."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    share = float(value) if is_number else -1.0  # type: ignore[arg-type]
    if not (0 < share < 1 or (is_zero_ok and share == 0)):
        bounds = "from 0 to below 1" if is_zero_ok else "between 0 and 1"
        raise UsageError(f"probe {probe!r}: {name} is {value!r}, expected a number {bounds}.")


def hold_out(code_n: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and rows to judge by, each class in its share.

    Of each class that has two rows at least one is held out and at least one is kept.
    """
    order_n = draws.generator(seed, "holdout").permutation(len(code_n))
    order_n = order_n[np.argsort(code_n[order_n], kind="stable")]
    count_c = np.bincount(code_n)
    wanted_c = np.maximum(np.rint(share * count_c), 1).astype(np.intp)
    held_c = np.minimum(wanted_c, np.maximum(count_c - 1, 0))
    start_c = np.cumsum(count_c) - count_c
    code_o = code_n[order_n]
    is_held_o = np.arange(len(code_n)) - start_c[code_o] < held_c[code_o]
    return np.sort(order_n[~is_held_o]), np.sort(order_n[is_held_o])


def usable_scores(probe: str, score_r: np.ndarray, is_finite_r: np.ndarray) -> np.ndarray:
    """The scores, -inf for runs whose weights did not stay finite."""
    if not is_finite_r.any():
        raise diverged(probe)
    return np.where(is_finite_r, score_r, -np.inf)


def holdout_notes(code_n: np.ndarray, score_r: np.ndarray) -> list[str]:
    """What a person should know of a search: classes without a judge, runs that diverged."""
    n_diverged = int(np.isneginf(score_r).sum())
    lost = [f"{n_diverged} of {len(score_r)} settings diverged"] if n_diverged else []
    return rare_notes(code_n, 2, "none of them held out") + lost


def diverged(probe: str) -> ProbeDataError:
    return ProbeDataError(
        f"probe {probe!r}: the weights grew beyond all bounds: scale the features "
        "(normalise: [standardise]) or lower the learning rate."
    )


def finite_runs(flat_sp: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(flat_sp).all(axis=1))
