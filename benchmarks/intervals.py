"""Coverage and error rates (Monte Carlo): do intervals hold the truth as often as they claim?

Repeats each question on the worlds of `_worlds.py`, whose truth is known, and prints the tables of
the methods page; `--write` puts them there, `--only` runs the cells whose case holds a word.
`--close` repeats the cells in which an independent check found something wrong 4,000 times with
each of two seeds, and puts a table of their own into the page. An
interval that is not printed (its limits are NaN, with the reason in words) is counted apart:
coverage is over those printed. One cell asks several questions of the same draws. The seeds are
fixed; the slowest cells are named on stderr. `--quick` repeats every fifth cell once.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from _quick import Flags, finish
from _rows import note
from _worlds import (
    KINDS,
    Balanced,
    Bursts,
    Cameras,
    Ceiling,
    Certainties,
    Clusters,
    Draw,
    FewShots,
    FewSplits,
    Field,
    Individuals,
    LongTail,
    Mushrooms,
    Parts,
    Random,
    RestOfPool,
    Shares,
    Traits,
    TraitSpecies,
    World,
)
from fieldmark.metrics import load_metric
from fieldmark.stats import (
    Comparison,
    Errors,
    Items,
    compare_pair,
    errors,
    join,
    may_be_best,
    rank_limits,
    rank_limits_elsewhere,
    score_intervals,
    tiers,
)

PAGE = Path(__file__).parent.parent / "docs" / "methods.md"
BEGIN, END = "<!-- simulations: begin -->\n", "<!-- simulations: end -->"
CLOSE_REPEATS, CLOSE_SEEDS = 4000, (0, 1)

SCORE = "interval holds the score"
DIFFERENCE = "interval holds the difference"
ALARM = "two equal models are told apart"
AGREE = "interval and p agree"
SEEN = "a difference as large as the smallest visible one is seen"
LOST = "tier A loses the best model"
SIZE = "models in tier A"
ALONE = "a planted better model leads alone"
OVERALL = "the overall verdict names the better model"
RANK = "rank limits hold the true rank on these tasks"
RANK_LIKE = "rank limits hold the true rank over tasks like these"
PLACES = "places between the rank limits"
POWER = "a true lead is seen"

Key = tuple[str, str]
"""question, case"""
Outcome = tuple[Key, float | None]
"""whether (or how much of) it happened; None where nothing is printed"""


@dataclass(frozen=True)
class Claim:
    """Between which values a row lies."""

    least: float
    most: float
    is_share: bool = True

    @property
    def words(self) -> str:
        if not self.is_share:
            return f"at most {self.most:g}"
        return f"{100 * self.least:.0f} to {100 * self.most:.0f} %"

    def show(self, value: float) -> str:
        if value != value:
            return "none printed"
        return f"{100 * value:.1f} %" if self.is_share else f"{value:.1f}"

    def holds(self, value: float, n: int) -> bool:
        """Whether a share of n repeats lies between, two standard errors of chance allowed."""
        if value != value:  # nothing was printed that could be wrong
            return True
        low, high = (
            2 * np.sqrt(edge * (1 - edge) / n) if self.is_share else 0.0
            for edge in (self.least, self.most)
        )
        return bool(self.least - low <= value <= self.most + high)


HELD, FEW, ALWAYS = Claim(0.92, 0.97), Claim(0.0, 0.06), Claim(1.0, 1.0)
WIDE = Claim(0.92, 1.0)
"""no exact 95 % exists, or none is known that is not too narrow elsewhere"""
VISIBLE = Claim(0.75, 1.0)
LOOSE = {SCORE: WIDE, DIFFERENCE: WIDE, ALARM: FEW}


FEWEST_PRINTED = 20


@dataclass(frozen=True)
class Measured:
    """What came of one row."""

    value: float
    """mean over what was printed; NaN where that was fewer than `FEWEST_PRINTED`"""
    printed: float
    """share of the repeats in which something was"""
    n: int

    def with_more(self, other: Measured) -> Measured:
        """Both together."""
        n, kept, others = self.n + other.n, self.printed * self.n, other.printed * other.n
        total = sum(m.value * m.printed * m.n for m in (self, other) if m.value == m.value)
        value = total / (kept + others) if kept + others else np.nan
        return Measured(value, (kept + others) / n, n)


@dataclass(frozen=True)
class Cell:
    """A simulated world, and what is claimed of it."""

    name: str
    claims: Mapping[Key, Claim]
    trial: Callable[[Random], Iterator[Outcome]]

    def measure(self, repeats: int, seed: int = 0) -> dict[Key, Measured]:
        """Every row of the cell."""
        random = np.random.default_rng([seed, *self.name.encode()])
        values: dict[Key, list[float]] = {key: [] for key in self.claims}
        asked = dict.fromkeys(self.claims, 0)
        for _ in range(repeats):
            for key, value in self.trial(random):
                asked[key] += 1
                if value is not None:
                    values[key].append(value)
        return {
            key: Measured(
                float(np.mean(kept)) if len(kept) >= FEWEST_PRINTED else np.nan,
                len(kept) / max(1, asked[key]),
                asked[key],
            )
            for key, kept in values.items()
        }


# --- the statistics, as a user calls them ---


@cache
def metric_of(name: str) -> Any:
    metric: Any = load_metric(name)
    if metric.uses != "kinds":
        return metric
    bound = partial(metric, kind=KINDS)
    bound.__dict__.update(vars(metric))
    return bound


def items_of(draw: Draw) -> Items:
    return Items(draw.target, draw.unit, draw.part, draw.score, draw.repeat)


def errors_of(draw: Draw, name: str = "accuracy") -> Errors:
    return errors(items_of(draw), draw.answers_mn, metric_of(name), draw.once_m)


def holds_score(scores: Errors, truth: float) -> bool | None:
    found = score_intervals(scores)[0]
    return _holds(found.low, truth, found.high)


def _holds(low: float, truth: float, high: float) -> bool | None:
    if low != low or high != high:
        return None
    return bool(low - 1e-9 <= truth <= high + 1e-9)


def _agrees(found: Comparison) -> bool | None:
    is_held = _holds(found.low, 0.0, found.high)
    return None if is_held is None else is_held == (found.p > 1 - found.level)


# --- one or two models ---


def cell(
    world: World,
    *names: str,
    claims: Mapping[str, Claim] | None = None,
) -> Cell:
    """The score of one model, the difference of two unlike ones, and two equal ones."""
    asked = claims or ABREAST
    case_of = {name: f"{name}, {world.words}" for name in names}

    def trial(random: Random) -> Iterator[Outcome]:
        draw = world.draw(random)
        for name, case in case_of.items():
            scores, truth_m = errors_of(draw, name), draw.truth[name]
            if SCORE in asked:
                yield (SCORE, case), holds_score(scores, truth_m[0])
            if DIFFERENCE in asked:
                found = compare_pair(scores, 0, 2)
                yield (DIFFERENCE, case), _holds(found.low, truth_m[0] - truth_m[2], found.high)
                yield (AGREE, name), _agrees(found)
            if ALARM in asked:
                found = compare_pair(scores, 0, 1)
                yield (ALARM, case), found.is_clear
                yield (AGREE, name), _agrees(found)

    rows = {(ask, case): claim for case in case_of.values() for ask, claim in asked.items()}
    rows |= {(AGREE, name): ALWAYS for name in names if ALARM in asked}
    return Cell("; ".join(case_of.values()), rows, trial)


def planted_cell(world: Shares | Clusters) -> Cell:
    """A difference as large as the median of what such items call visible; None where they say
    that none is."""
    case = f"accuracy, {world.words}"

    @cache
    def planted() -> World | None:
        random, there = np.random.default_rng(2), world
        for _ in range(4):  # what is visible depends a little on the difference itself
            draws = [there.draw(random) for _ in range(60)]
            seen = [compare_pair(errors_of(draw), 0, 2).detectable for draw in draws]
            visible = float(np.median(seen))
            if not visible < world.skill:
                return None
            there = replace(world, ratios=(1.0, 1.0, 1 - visible / world.skill))
        return there

    def trial(random: Random) -> Iterator[Outcome]:
        there = planted()
        if there is None:
            yield (SEEN, case), None
            return
        found = compare_pair(errors_of(there.draw(random)), 0, 2)
        yield (SEEN, case), found.is_clear and found.difference > 0

    return Cell(f"planted, {case}", {(SEEN, case): VISIBLE}, trial)


def power_cell(world: Shares | Clusters, lead: float) -> Cell:
    """A true lead, as `compare` sees it and as a regression on a constant does (Liang and Zeger
    1986, `OLS(d, 1).fit(cov_type="cluster", use_t=True)` in statsmodels)."""
    world = replace(world, ratios=(1.0, 1.0, 1 - lead / world.skill))
    case = f"{world.words}, {100 * lead:g} points"
    ways = {way: f"{case}: {way}" for way in ("fieldmark", "cluster-robust t")}

    def trial(random: Random) -> Iterator[Outcome]:
        draw = world.draw(random)
        found = compare_pair(errors_of(draw), 0, 2)
        low, high = cluster_robust(draw)
        for way, limits in zip(ways.values(), ((found.low, found.high), (low, high)), strict=True):
            yield (POWER, way), limits[0] > 0
            yield (DIFFERENCE, way), _holds(limits[0], lead, limits[1])

    anything = Claim(0.0, 1.0)
    ours, rivals = ways.values()
    rows = {(POWER, way): anything for way in ways.values()}
    rows |= {(DIFFERENCE, ours): WIDE, (DIFFERENCE, rivals): anything}
    return Cell(f"power, {case}", rows, trial)


def cluster_robust(draw: Draw) -> tuple[float, float]:
    """The limits of the difference between models `a` and `c`."""
    from scipy.special import stdtrit

    right_mn = draw.answers_mn == draw.target
    gap_n = right_mn[0].astype(float) - right_mn[2]
    unit = np.arange(len(gap_n)) if draw.unit is None else draw.unit
    sum_u = np.bincount(unit, gap_n - gap_n.mean())
    half = stdtrit(len(sum_u) - 1, 0.975) * np.sqrt(
        len(sum_u) / (len(sum_u) - 1) * (sum_u**2).sum()
    )
    return float(gap_n.mean() - half / len(gap_n)), float(gap_n.mean() + half / len(gap_n))


# --- many models, many tasks ---


def ladder(n_models: int) -> tuple[float, ...]:
    return tuple(np.linspace(0.8, 0.6, n_models))


def one_better(n_models: int) -> tuple[float, ...]:
    return (0.8, *[0.77] * (n_models - 1))


def tier_cell(world: Field, most: float) -> Cell:
    """Does the truly best model stay in tier A, and how many share it?"""

    def trial(random: Random) -> Iterator[Outcome]:
        is_best_m = may_be_best(errors_of(world.draw(random)))
        yield (LOST, world.words), not is_best_m[0]
        yield (SIZE, world.words), int(is_best_m.sum())

    rows = {(LOST, world.words): FEW, (SIZE, world.words): Claim(1, most, is_share=False)}
    return Cell(world.words, rows, trial)


def equal_cell(world: Any, name: str, n_models: int = 10) -> Cell:
    """Equal models: does any of them fall out of tier A, and does the first one?"""
    world = replace(world, ratios=(1.0,) * n_models)
    case = f"{n_models} equal models, {name}, {world.words}"

    def trial(random: Random) -> Iterator[Outcome]:
        yield (LOST, case), not may_be_best(errors_of(world.draw(random), name))[0]

    return Cell(case, {(LOST, case): FEW}, trial)


def alone_cell(world: Any, name: str) -> Cell:
    """One model of skill .85 among nine of .70."""
    world = replace(world, ratios=(1.0,) * 3 + (0.85 / 0.7,) + (1.0,) * 6)
    case = f"{name}, .85 among nine of .70, {world.words}"

    def trial(random: Random) -> Iterator[Outcome]:
        letters = tiers(errors_of(world.draw(random), name))
        yield (ALONE, case), [letter == "A" for letter in letters] == [m == 3 for m in range(10)]

    return Cell(case, {(ALONE, case): Claim(0.9, 1.0)}, trial)


def overall_cell(n_tasks: int, n: int, gap: float) -> Cell:
    """Two models on several tasks of unlike difficulty: the mean difference over tasks."""
    case = f"{n_tasks} tasks of {n} photos, {100 * gap:g} points apart"
    question, claim = (OVERALL, Claim(0.95, 1.0)) if gap else (ALARM, FEW)
    worlds = [
        Field((skill + gap / 2, skill - gap / 2), n, "")
        for skill in np.linspace(0.5, 0.85, n_tasks)
    ]
    rows = {(question, case): claim, (DIFFERENCE, case): HELD, (AGREE, "over tasks"): ALWAYS}

    def trial(random: Random) -> Iterator[Outcome]:
        tasks = [errors_of(world.draw(random)) for world in worlds]
        found = compare_pair(join(tasks, range(n_tasks)), 0, 1)
        yield (question, case), found.is_clear and (found.difference > 0 or not gap)
        yield (DIFFERENCE, case), _holds(found.low, gap, found.high)
        yield (AGREE, "over tasks"), _agrees(found)

    return Cell(case, rows, trial)


def rank_cell(n_tasks: int, n_models: int, n: int, spread: float) -> Cell:
    """Ranks by the mean over tasks: on these tasks, and over all tasks such as these.

    A model's skill on a task is its own plus a draw of the task's; its rank over tasks like these
    is that of its own skill. The rows count models, not tables.
    """
    case = f"{n_tasks} tasks, {n_models} models, {n} photos, spread over tasks {spread}"
    skill_m = np.linspace(0.75, 0.65, n_models)
    rows = {
        (RANK, case): WIDE,
        (RANK_LIKE, case): WIDE,
        (PLACES, f"{case}: on these"): Claim(0, n_models, is_share=False),
        (PLACES, f"{case}: like these"): Claim(0, n_models, is_share=False),
    }

    def trial(random: Random) -> Iterator[Outcome]:
        true_tm = skill_m + random.normal(0, spread, (n_tasks, n_models))
        true_tm = np.clip(true_tm + random.normal(0, 0.05, (n_tasks, 1)), 0.02, 0.98)
        made = [errors_of(Field(tuple(true_m), n, "").draw(random)) for true_m in true_tm]
        low_m, high_m = rank_limits(join(made, range(n_tasks))).T
        rank_m = _rank(true_tm.mean(axis=0))
        yield (RANK, case), float(np.mean((low_m <= rank_m) & (rank_m <= high_m)))
        yield (PLACES, f"{case}: on these"), float(np.mean(high_m - low_m + 1))
        low_m, high_m = rank_limits_elsewhere(np.stack([each.value_m for each in made])).T
        rank_m = _rank(skill_m)
        yield (RANK_LIKE, case), float(np.mean((low_m <= rank_m) & (rank_m <= high_m)))
        yield (PLACES, f"{case}: like these"), float(np.mean(high_m - low_m + 1))

    return Cell(case, rows, trial)


def _rank(value_m: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(-value_m)) + 1


# --- every claim of the methods page ---


def cells() -> Iterator[Cell]:
    """All of them, easy worlds first."""
    yield from _photo_cells()
    yield from _unit_cells()
    yield from _training_cells()
    yield from _corner_cells()
    yield from _many_cells()


def _photo_cells() -> Iterator[Cell]:
    """Independent photos, and the worlds of version 1."""
    for n, skill in ((30, 0.9), (100, 0.95), (1000, 0.9)):
        yield cell(Shares(n, skill), "accuracy")
    yield cell(LongTail(300), "accuracy")
    for n in (500, 2000):
        yield cell(LongTail(n), "macro_accuracy", "macro_f1")
    for burst in (3, 10):
        yield cell(LongTail(600, burst=burst), "accuracy")
        yield cell(LongTail(2000 // burst * burst, burst=burst), "macro_accuracy", "macro_f1")
    for n_classes, n in ((100, 300), (400, 1000)):
        yield cell(LongTail(n, n_classes, "hard tail"), "macro_accuracy")
    yield cell(Parts(10, 40, is_even=True), "accuracy")
    for mean in (4, 10, 110):
        yield cell(Parts(164, mean), "accuracy")
    yield cell(Parts(164, 10, score="pooled"), "accuracy")


def _unit_cells() -> Iterator[Cell]:
    """Photos that belong together."""
    alone = {SCORE: Claim(0.0, 0.9)}
    for n_units, size in ((200, 3), (60, 10)):
        yield cell(Clusters(n_units, 0.8, 0.6, True, size), "accuracy")
        world = Clusters(n_units, 0.8, 0.6, True, size, taken_alone=True)
        yield cell(world, "accuracy", claims=alone)
    for skill, icc, is_even in (
        (0.8, 0.6, True), (0.8, 0.6, False), (0.8, 0.1, False),
        (0.95, 0.6, True), (0.95, 0.6, False), (0.95, 0.1, False),
    ):  # fmt: skip
        for n_units in (5, 10, 20, 50):
            yield cell(Clusters(n_units, skill, icc, is_even), "accuracy", claims=LOOSE)
    for n_units, n_classes, icc in (
        (20, 5, 0.3), (60, 10, 0.6), (200, 30, 0.1), (200, 30, 0.6), (200, 100, 0.6),
        (100, 100, 0.6),
    ):  # fmt: skip
        for is_even in (True, False):
            world = Bursts(n_units, n_classes, icc, is_even)
            claims = LOOSE if icc < 0.3 else ABREAST
            yield cell(world, "macro_accuracy", "macro_f1", claims=claims)
    for n_units, icc, is_even, mean in (
        (17, 0.3, False, 7),
        (50, 0.6, True, 15),
        (100, 0.1, False, 8),
    ):
        yield cell(Individuals(n_units, icc, is_even, mean), "accuracy", "macro_accuracy")
    for rho in (0.0, 0.1, 0.2, 0.3):
        yield cell(Traits(9, 100, rho), "accuracy", "macro_f1")
    for rho in (0.15, 0.25):
        yield cell(Traits(4, 60, rho), "accuracy", "macro_f1")
    for icc in (0.05, 0.1, 0.2):
        claims = LOOSE if icc < 0.1 else ABREAST
        yield cell(Cameras(icc), "accuracy", "macro_accuracy", "macro_f1", claims=claims)
    for n_units, rate in ((17, 0.02), (50, 0.01), (200, 0.004)):
        yield cell(FewSplits(n_units, rate), "accuracy", claims={ALARM: FEW})


def _training_cells() -> Iterator[Cell]:
    """Few shots: other trainings and other photos."""
    for n_classes in (5, 20):
        for shots in (1, 5, 20):
            for n in (200, 2000):
                yield cell(FewShots(n_classes, shots, 5, n), "accuracy")
    this = {SCORE: HELD}
    for n_classes, shots in ((5, 1), (20, 5)):
        world = FewShots(n_classes, shots, 1, 200, of_this_training=True)
        yield cell(world, "accuracy", claims=this)
    yield cell(FewShots(5, 1, 20, 200), "accuracy")


def _corner_cells() -> Iterator[Cell]:
    """Errors towards the head, ceilings, few positives, dear mistakes."""
    for n_classes, n in ((100, 500), (400, 2000)):
        for skill in ("even", "hard tail", "perfect head"):
            world = LongTail(n, n_classes, skill, "to the head")
            yield cell(world, "macro_accuracy", "macro_f1")
    for ceiling in (
        Ceiling(10, 0.95), Ceiling(10, 0.9), Ceiling(5, 0.8), Ceiling(3, 0.7), Ceiling(10, 0.9, 2),
    ):  # fmt: skip
        yield cell(ceiling, "macro_accuracy", claims=LOOSE)
    for n in (30, 100, 400):
        for share, gap in ((0.1, 2.0), (0.5, 2.0)):
            yield cell(Certainties(n, share, gap), "average_precision")
    for n in (100, 500, 3000):
        for missed in (0.1, 0.02):
            yield cell(Mushrooms(n, missed), "user_loss", claims=LOOSE)


def _many_cells() -> Iterator[Cell]:
    """Tiers, tasks taken together, ranks, what is visible."""
    for n_models, n, most in ((5, 500, 2.0), (20, 500, 7.0), (85, 500, 25.0), (85, 5000, 10.0)):
        yield tier_cell(Field(ladder(n_models), n, "a ladder from .80 to .60"), most)
    for n_models, most in ((20, 3.0), (85, 8.0)):
        yield tier_cell(Field(one_better(n_models), 5000, "one .80, the others .77"), most)
    for world, name in (
        (Shares(300, 0.7), "accuracy"), (Clusters(60, 0.7, 0.6, False), "accuracy"),
        (LongTail(500), "macro_accuracy"), (LongTail(2000, burst=10), "macro_f1"),
        (Bursts(60, 10, 0.6, False), "macro_accuracy"),
    ):  # fmt: skip
        yield equal_cell(world, name)
    yield alone_cell(Shares(2000, 0.7), "accuracy")
    yield alone_cell(LongTail(2000), "macro_f1")
    for n_tasks, n, gap in ((20, 300, 0.03), (20, 300, 0.0), (8, 100, 0.0), (3, 60, 0.0)):
        yield overall_cell(n_tasks, n, gap)
    for spread in (0.03, 0.08):
        yield rank_cell(8, 20, 300, spread)
    yield rank_cell(3, 6, 300, 0.05)
    yield planted_cell(Shares(100, 0.8))
    yield planted_cell(Shares(1000, 0.8))
    for n_units in (8, 16, 40, 100):
        yield planted_cell(Clusters(n_units, 0.8, 0.3, True))


def close_cells() -> Iterator[Cell]:
    """Where an independent check found type-I errors above 6 %, or intervals too wide."""
    for n_classes, shots, pool in ((27, 1, 40), (27, 1, 20), (10, 1, 20), (10, 5, 20)):
        yield cell(RestOfPool(n_classes, shots, pool), "accuracy", claims=LOOSE)
    for n_classes, shots in ((5, 1), (20, 5)):
        world = FewShots(n_classes, shots, 5, 200, others_once=True)
        yield cell(world, "accuracy", claims=LOOSE)
    for n_units, size, skill in ((20, 5, 0.98), (50, 5, 0.98), (100, 2, 0.99), (268, 2, 0.99)):
        yield cell(Clusters(n_units, skill, 0.6, True, size), "accuracy", claims=LOOSE)
    for n_units in (35, 50):
        yield cell(Clusters(n_units, 0.85, 0.9, False), "accuracy", claims=LOOSE)
    for n_classes, size in ((400, 5), (27, 40), (5, 20)):
        yield cell(Balanced(n_classes, size), "accuracy", "macro_accuracy", claims=LOOSE)
    for icc in (0.1, 0.3):
        world = Bursts(25, 5, icc, True, has_tail=True)
        yield cell(world, "macro_accuracy", claims=LOOSE)
    for n_species, mean, share, icc in ((100, 5, 0.1, 0.3), (30, 10, 0.3, 0.1)):
        world = TraitSpecies(n_species, mean, share, icc)
        yield cell(world, "average_precision", claims=LOOSE)
    yield equal_cell(Clusters(40, 0.7, 0.6, False), "accuracy")
    for n_units in (5, 6, 8, 12):
        yield cell(Clusters(n_units, 0.7, 0.3, True), "accuracy", claims=LOOSE)
    yield power_cell(Shares(300, 0.7), 0.031)
    for n_units, is_even, size, lead in (
        (60, True, 5, 0.031), (30, False, 10, 0.05), (12, False, 10, 0.095), (12, True, 10, 0.095),
        (8, True, 10, 0.123), (6, True, 10, 0.17), (5, True, 10, 0.224),
    ):  # fmt: skip
        yield power_cell(Clusters(n_units, 0.7, 0.3, is_even, size), lead)


# --- the tables ---


Row = tuple[Key, Claim, Measured]
ABREAST = {SCORE: HELD, DIFFERENCE: HELD, ALARM: FEW}
"""questions that share a line; a claim that is not this one is written beside the figure"""
CHANCE = (
    "A share measured in 1,000 repeats has a standard error of 0.9 points at 92 % and 0.8 at 6 %; "
    "a claim is kept within two of these. *None printed*: no interval, and the reason in words."
)
CLOSE_CHANCE = (
    f"{CLOSE_REPEATS:,} repeats with each of two seeds: a standard error of 0.4 points at 92 % and "
    "at 6 %. Power and coverage of a cluster-robust *t* stand beside ours, on the same draws."
)


def measure_all(
    chosen: list[int], repeats: int, processes: int, close: bool = False, seed: int = 0
) -> list[Row]:
    """Every row of the cells of these numbers; rows that several cells add to are one."""
    found: dict[Key, tuple[Claim, Measured]] = {}
    seconds: dict[str, float] = {}
    with ProcessPoolExecutor(processes) as pool:
        measure = partial(_measure, repeats=repeats, close=close, seed=seed)
        for number, rows, taken in pool.map(measure, chosen):
            here = _cells(close)[number]
            seconds[here.name] = taken
            note(f"{len(seconds)}/{len(chosen)} {taken:.1f} s {here.name}")
            for key, measured in rows.items():
                claim = here.claims[key]
                if not claim.holds(measured.value, round(measured.printed * measured.n)):
                    note(f"not as claimed: {key[0]}: {key[1]}: {claim.show(measured.value)}")
                found[key] = claim, measured.with_more(found[key][1]) if key in found else measured
    for name in sorted(seconds, key=lambda name: -seconds[name])[:8]:
        note(f"{seconds[name]:6.1f} s  {name}")
    note(f"{sum(seconds.values()):6.1f} s of one processor in all")
    return [(key, *found[key]) for key in found]


@cache
def _cells(close: bool = False) -> list[Cell]:
    return list(close_cells() if close else cells())


def _measure(
    number: int, repeats: int, close: bool, seed: int
) -> tuple[int, dict[Key, Measured], float]:
    start = time.process_time()
    rows = _cells(close)[number].measure(repeats, seed)
    return number, rows, time.process_time() - start


def close_table(rows: list[list[Row]]) -> str:
    """One line a case, with the figures of every seed; power beside that of the rival."""
    found = {row[0][0]: [measured for _, _, measured in row] for row in zip(*rows, strict=True)}
    claims = {key: claim for key, claim, _ in rows[0]}
    questions = [*ABREAST, LOST, POWER]
    lines = [CLOSE_CHANCE, "", f"| case | {' | '.join(questions)} |"]
    lines.append(f"|{'---|' * (1 + len(questions))}")
    for case in dict.fromkeys(case for question, case in found if question != AGREE):
        shown = [
            " / ".join(claims[question, case].show(one.value) for one in found[question, case])
            if (question, case) in found
            else ""
            for question in questions
        ]
        lines.append(f"| {case} | {' | '.join(shown)} |")
    agree = sum(one.n for key, seeds in found.items() if key[0] == AGREE for one in seeds)
    apart = sum(
        (1 - one.value) * one.n * one.printed
        for key, seeds in found.items()
        if key[0] == AGREE
        for one in seeds
        if one.value == one.value
    )
    lines += ["", f"Interval and p contradict each other in {apart:.0f} of {agree:,} comparisons."]
    return "\n".join(lines) + "\n"


def tables(rows: list[Row]) -> str:
    """The simulations as Markdown: one line a case, then the questions asked of few cases."""
    found = {key: (claim, measured) for key, claim, measured in rows}
    heads = [f"{question}: {claim.words}" for question, claim in ABREAST.items()]
    lines = [CHANCE, "", f"| case | {' | '.join(heads)} | repeats |", f"|{'---|' * 5}"]
    for case in dict.fromkeys(case for question, case in found if question in ABREAST):
        shown = [_shown(found.get((question, case)), claim) for question, claim in ABREAST.items()]
        n = max(found[key][1].n for key in found if key[1] == case)
        lines.append(f"| {case} | {' | '.join(shown)} | {n:,} |")
    lines += ["", "| question | case | claimed | measured | repeats |", f"|{'---|' * 5}"]
    for (question, case), (claim, measured) in found.items():
        if question not in ABREAST:
            shown = claim.show(measured.value)
            lines.append(f"| {question} | {case} | {claim.words} | {shown} | {measured.n:,} |")
    return "\n".join(lines) + "\n"


def _shown(row: tuple[Claim, Measured] | None, usual: Claim) -> str:
    """A figure; how often there was none; another claim than the column's."""
    if row is None:
        return ""
    claim, measured = row
    shown = claim.show(measured.value)
    if 0 < measured.printed < 1:
        few = "hardly any printed", f"{shown}, of {100 * measured.printed:.0f} % printed"
        shown = few[measured.value == measured.value]
    return shown if claim == usual else f"{shown} ({claim.words})"


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--repeats", type=int, default=1000)
    flags.add_argument("--processes", type=int, default=1)
    flags.add_argument("--only", default="", help="cells whose case holds this")
    flags.add_argument("--write", action="store_true", help="put the tables into the methods page")
    flags.add_argument("--close", action="store_true", help="the cells of the close look, twice")
    given = flags.parse(repeats=1)
    found = _cells(given.close)
    chosen = [number for number, cell in enumerate(found) if given.only in cell.name]
    chosen = chosen[::5] if given.quick else chosen
    if given.close:
        repeats = 1 if given.quick else CLOSE_REPEATS
        seeds = [measure_all(chosen, repeats, given.processes, True, seed) for seed in CLOSE_SEEDS]
        rows, text, name = seeds[0], close_table(seeds), "close look"
    else:
        rows = measure_all(chosen, given.repeats, given.processes)
        text, name = tables(rows), "simulations"
    print(text)
    if given.write and not given.quick:
        begin, end = (mark.replace("simulations", name) for mark in (BEGIN, END))
        before, rest = PAGE.read_text().split(begin)
        PAGE.write_text(before + begin + text + end + rest.split(end)[1])
    return finish(f"intervals: {len(rows)} rows of {len(chosen)} cells", {}, given.quick)


if __name__ == "__main__":
    sys.exit(main())
