"""Where is the lowest point of several smooth convex functions, all walked at once?

L-BFGS (Nocedal 1980) with a diagonal first guess of the curvature and a halving line search. Each
run has its own history, step and end; a run that has ended stands still. Nothing is drawn: the same
input gives the same path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fieldmark.probes._arrays import Array, namespace, zeros

_HISTORY = 30
_DECREASE = 1e-4
_MOST_HALVINGS = 40
_ROUNDING = 1e-13
"""share of the function's value below which a difference is rounding"""

Function = Callable[[Array], tuple[Array, Array]]
"""points (s × p) → values (s), gradients (s × p)"""


@dataclass(frozen=True, slots=True)
class Minimum:
    point_sp: Array
    n_iterations: int
    is_converged: bool
    """every run's next step is below the tolerance, or no step goes lower in float64"""


def minimise(
    function: Function, start_sp: Array, curvature_sp: Array, tolerance: float, most: int
) -> Minimum:
    """Until each run's next step, in its largest value, is below `tolerance × (1 + value)`."""
    xp = namespace(start_sp)
    point_sp, (value_s, slope_sp) = start_sp, function(start_sp)
    history: deque[tuple[Array, Array, Array]] = deque(maxlen=_HISTORY)
    is_stuck_s = value_s != value_s
    for iteration in range(most):
        way_sp = -_curved(slope_sp, history, curvature_sp)
        reach_s, size_s = xp.amax(xp.abs(way_sp), 1), xp.amax(xp.abs(point_sp), 1)
        is_open_s = (reach_s > tolerance * (1 + size_s)) & ~is_stuck_s
        if not bool(is_open_s.any()):
            return Minimum(point_sp, iteration, True)
        way_sp = way_sp * is_open_s[:, None]
        found = _walk(function, point_sp, value_s, slope_sp, way_sp)
        is_stuck_s = is_stuck_s | (is_open_s & ~found.has_moved_s)
        _remember(history, found.point_sp - point_sp, found.slope_sp - slope_sp)
        point_sp, value_s, slope_sp = found.point_sp, found.value_s, found.slope_sp
    return Minimum(point_sp, most, False)


def _dot(one_sp: Array, two_sp: Array) -> Array:
    return (one_sp * two_sp).sum(axis=1)[:, None]


def _curved(slope_sp: Array, history: deque[tuple[Array, Array, Array]], first_sp: Array) -> Array:
    """The slope divided by the curvature the history tells of (the two-loop recursion)."""
    way_sp, shares = slope_sp / 1, []
    for move_sp, turn_sp, weight_s1 in reversed(history):
        share_s1 = weight_s1 * _dot(move_sp, way_sp)
        shares.append(share_s1)
        way_sp = way_sp - share_s1 * turn_sp
    way_sp = way_sp / first_sp
    if history:
        move_sp, turn_sp, weight_s1 = history[-1]
        bend_s1 = weight_s1 * _dot(turn_sp, turn_sp / first_sp)
        way_sp = way_sp / namespace(way_sp).where(bend_s1 > 0, bend_s1, 1 + 0 * bend_s1)
    for (move_sp, turn_sp, weight_s1), share_s1 in zip(history, reversed(shares), strict=True):
        way_sp = way_sp + (share_s1 - weight_s1 * _dot(turn_sp, way_sp)) * move_sp
    return way_sp


def _remember(history: deque[tuple[Array, Array, Array]], move_sp: Array, turn_sp: Array) -> None:
    """A pair without curvature (a run that stands still) gets the weight 0: it says nothing."""
    xp, along_s1 = namespace(move_sp), _dot(move_sp, turn_sp)
    length_s1 = _dot(move_sp, move_sp) * _dot(turn_sp, turn_sp)
    says_s1 = along_s1 * along_s1 > 1e-24 * length_s1
    weight_s1 = xp.where(says_s1, 1 / xp.where(says_s1, along_s1, 1.0 + 0 * along_s1), 0 * along_s1)
    history.append((move_sp, turn_sp, weight_s1))


@dataclass(frozen=True, slots=True)
class _Found:
    point_sp: Array
    value_s: Array
    slope_sp: Array
    has_moved_s: Array


def _walk(
    function: Function, point_sp: Array, value_s: Array, slope_sp: Array, way_sp: Array
) -> _Found:
    """For each run the first of 1, 1/2, 1/4 ... of the way that goes low enough."""
    xp = namespace(point_sp)
    fall_s = _dot(slope_sp, way_sp)[:, 0]
    step_s = zeros(tuple(value_s.shape), point_sp) + 1
    for _ in range(_MOST_HALVINGS):
        next_sp = point_sp + step_s[:, None] * way_sp
        next_s, after_sp = function(next_sp)
        is_low_s = next_s <= value_s + _DECREASE * step_s * fall_s
        # Near the end values differ by rounding only; the slope along the way still tells.
        is_near_s = next_s <= value_s + _ROUNDING * xp.abs(value_s)
        is_flatter_s = xp.abs(_dot(after_sp, way_sp)[:, 0]) <= 0.9 * xp.abs(fall_s)
        is_good_s = is_low_s | (is_near_s & is_flatter_s)
        if bool(is_good_s.all()):
            break
        step_s = xp.where(is_good_s, step_s, step_s / 2)
    keep = is_good_s
    return _Found(
        xp.where(keep[:, None], next_sp, point_sp),
        xp.where(keep, next_s, value_s),
        xp.where(keep[:, None], after_sp, slope_sp),
        keep,
    )
