"""Do intervals hold the truth as often as they claim, and are equal models left together?

Repeats each question on simulated worlds whose truth is known: shares, bursts of frames that fare
alike (correlation 0.6), classes with a long tail (Zipf, 100 of them). Prints the table of the
methods page; `--write` puts it there. `--repeats` is per row; the page says how many it used.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from fieldmark.metrics import load_metric
from fieldmark.stats import (
    Items,
    Resampling,
    compare,
    interval,
    rank_intervals,
    tiers,
    variance_parts,
)

PAGE = Path(__file__).parent.parent / "docs" / "methods.md"
BEGIN, END = "<!-- simulations: begin -->\n", "<!-- simulations: end -->"
CLASSES, DRAWS = 100, 500
Trial = Callable[[np.random.Generator, int], bool]
"""(random, number of the repeat) -> whether it happened"""


@dataclass(frozen=True)
class Row:
    """A question, what is claimed, and how one repeat of it is simulated."""

    question: str
    case: str
    claim: tuple[float, float]
    """the share lies between"""
    trial: Trial
    cost: float = 1
    """repeats are divided by it"""

    def measure(self, repeats: int, seed: int = 0) -> tuple[float, int]:
        """The share of repeats in which it happened, and how many there were."""
        n = max(1, int(repeats / self.cost))
        random = np.random.default_rng([seed, *(self.question + self.case).encode()])
        return sum(self.trial(random, repeat) for repeat in range(n)) / n, n


@dataclass(frozen=True)
class World:
    """Items in bursts, of classes with or without a tail."""

    n: int
    burst: int = 1
    is_tail: bool = True
    alike: float = 0.6
    """correlation of right and wrong within a burst"""

    def target(self, random: np.random.Generator) -> np.ndarray:
        share = 1 / np.arange(1, CLASSES + 1) if self.is_tail else np.ones(CLASSES)
        return random.choice(CLASSES, self.n, p=share / share.sum())

    @property
    def unit(self) -> np.ndarray | None:
        return None if self.burst == 1 else np.arange(self.n) // self.burst

    def right(self, random: np.random.Generator, skill: float, models: int = 1) -> np.ndarray:
        """Right or wrong (models × items); half of the luck is shared by all models."""
        n_units = self.n // self.burst
        if self.burst == 1:
            chance = np.where(random.random(self.n) < 0.5, skill, random.random(self.n) < skill)
            return np.asarray(random.random((models, self.n)) < chance)
        total = 1 / self.alike - 1
        beta = skill * total, (1 - skill) * total
        is_shared = random.random(n_units) < 0.5
        chance_mu = np.where(
            is_shared, random.beta(*beta, n_units), random.beta(*beta, (models, n_units))
        )
        return np.asarray(random.random((models, self.n)) < np.repeat(chance_mu, self.burst, 1))

    def answers(
        self, random: np.random.Generator, target: np.ndarray, right: np.ndarray
    ) -> np.ndarray:
        other = (target + random.integers(1, CLASSES, right.shape)) % CLASSES
        return np.where(right, target, other)


def settings(repeat: int) -> Resampling:
    return Resampling(draws=DRAWS, seed=repeat)


def share_covered(n: int, right: float, burst: int = 1, by_unit: bool = True) -> Trial:
    world = World(n, burst)

    def trial(random: np.random.Generator, repeat: int) -> bool:
        answer = world.right(random, right)[0].astype(int)
        items = Items(np.ones(n, int), world.unit if by_unit else None)
        found = interval(items, answer, load_metric("accuracy"), settings(repeat))
        return found.low <= right <= found.high

    return trial


def macro_covered(name: str, world: World, skill: float = 0.7) -> Trial:
    metric = load_metric(name)
    truth = _truth(name, skill)

    def trial(random: np.random.Generator, repeat: int) -> bool:
        target = world.target(random)
        answer = world.answers(random, target, world.right(random, skill))[0]
        found = interval(Items(target, world.unit), answer, metric, settings(repeat))
        return found.low <= truth <= found.high

    return trial


@cache
def _truth(name: str, skill: float) -> float:
    """The score on a million items."""
    random, world = np.random.default_rng(1), World(1_000_000)
    target = world.target(random)
    answer = world.answers(random, target, world.right(random, skill))[0]
    return load_metric(name)(target, answer)


def parts_covered(random: np.random.Generator, repeat: int) -> bool:
    right_p, part = np.linspace(0.6, 0.95, 10), np.repeat(np.arange(10), 40)
    answer = (random.random(400) < right_p[part]).astype(int)
    items = Items(np.ones(400, int), None, part, "mean")
    found = interval(items, answer, load_metric("accuracy"), settings(repeat))
    return bool(found.low <= right_p.mean() <= found.high)


def difference_covered(name: str, world: World) -> Trial:
    """A model of skill .75 against one of .65."""
    metric = load_metric(name)
    truth = 0.1 if name == "accuracy" else _truth(name, 0.75) - _truth(name, 0.65)

    def trial(random: np.random.Generator, repeat: int) -> bool:
        target = world.target(random)
        a, b = (
            world.answers(random, target, world.right(random, skill))[0] for skill in (0.75, 0.65)
        )
        found = compare(Items(target, world.unit), a, b, metric, settings(repeat))
        return found.low <= truth <= found.high

    return trial


def alarm(name: str, world: World) -> Trial:
    metric = load_metric(name)

    def trial(random: np.random.Generator, repeat: int) -> bool:
        target = world.target(random)
        a, b = world.answers(random, target, world.right(random, 0.7, 2))
        return compare(Items(target, world.unit), a, b, metric, settings(repeat)).is_clear

    return trial


def parted(name: str, world: World, models: int = 10) -> Trial:
    metric = load_metric(name)

    def trial(random: np.random.Generator, repeat: int) -> bool:
        target = world.target(random)
        answers = world.answers(random, target, world.right(random, 0.7, models))
        return len(tiers(Items(target, world.unit), answers, metric, settings(repeat)).leaders) > 1

    return trial


def planted(name: str, world: World, skill: float = 0.85, models: int = 10) -> Trial:
    metric = load_metric(name)

    def trial(random: np.random.Generator, repeat: int) -> bool:
        target = world.target(random)
        right = world.right(random, 0.7, models)
        right[3] = world.right(random, skill)[0]
        answers = world.answers(random, target, right)
        found = tiers(Items(target, world.unit), answers, metric, settings(repeat))
        return found.leaders[0] == 3 and found.letters.count("A") == 1

    return trial


def repeats_covered(trainings: int, n: int, training_sd: float) -> Trial:
    def trial(random: np.random.Generator, _: int) -> bool:
        hard = random.normal(0, 0.2, n)
        chance = 0.7 + random.normal(0, training_sd, trainings)[:, None] + hard
        found = variance_parts(random.random((trainings, n)) < np.clip(chance, 0, 1))
        return found.low <= 0.7 <= found.high

    return trial


def ranks_covered(random: np.random.Generator, repeat: int) -> bool:
    """Twelve tasks, six models: is the true mean of the third one held?"""
    skill = np.linspace(0.3, -0.3, 6)
    true_tm = skill + random.normal(0, 0.1, (12, 6)) + random.normal(0, 0.2, (12, 1))
    value_tm = true_tm + random.normal(0, 0.05, (12, 6))
    replicates = [each + random.normal(0, 0.05, (200, 6)) for each in value_tm]
    found = rank_intervals(value_tm, replicates, resampling=settings(repeat)).mean
    return bool(found.low[2] <= skill[2] <= found.high[2])


HELD, NEAR, WEAK, FEW = (0.92, 0.97), (0.92, 0.98), (0.85, 0.99), (0.0, 0.06)


def rows() -> Iterator[Row]:
    """Every claim of the methods page."""
    what = "interval holds the score"
    for n, right in ((30, 0.9), (100, 0.95), (1000, 0.9)):
        yield Row(what, f"accuracy {right:.2f}, n = {n}", NEAR, share_covered(n, right))
    for burst in (3, 10):
        case = f"accuracy, 600 frames in bursts of {burst}"
        yield Row(what, case, HELD, share_covered(600, 0.8, burst))
        alone = share_covered(600, 0.8, burst, by_unit=False)
        yield Row(what, f"{case}, *taken one by one*", (0.0, 0.9), alone)
    yield Row(what, "accuracy, mean over 10 parts of 40", HELD, parts_covered)
    for name, band in (("macro_accuracy", HELD), ("macro_f1", WEAK)):
        for world in (World(500), World(2000), World(2000, 10)):
            yield Row(what, f"{name}, {_words(world)}", band, macro_covered(name, world))
    for name, world in _worlds():
        case = f"{name}, {_words(world)}"
        trial = difference_covered(name, world)
        yield Row("interval holds the difference", case, HELD, trial)
        yield Row("two equal models are told apart", case, FEW, alarm(name, world), 0.5)
        yield Row("ten equal models are parted", case, FEW, parted(name, world), 2)
    yield from _others()


def _others() -> Iterator[Row]:
    what = "a planted better model leads alone"
    for name in ("accuracy", "macro_f1"):
        case = f"{name}, .85 among nine of .70, n = 2000"
        yield Row(what, case, (0.9, 1.0), planted(name, World(2000)), 4)
    what = "interval holds the score, other trainings too"
    for spread in (0.0, 0.05):
        case = f"5 trainings, spread {spread:.2f}, 300 items"
        yield Row(what, case, (0.92, 0.98), repeats_covered(5, 300, spread))
    case = "6 models, 12 tasks; items and tasks drawn"
    yield Row("interval holds the mean over tasks", case, (0.92, 0.99), ranks_covered)


def _worlds() -> Iterator[tuple[str, World]]:
    yield "accuracy", World(300)
    yield "accuracy", World(600, 3)
    yield "accuracy", World(600, 10)
    for name in ("macro_accuracy", "macro_f1"):
        yield name, World(500)
        yield name, World(2000)
        yield name, World(2001, 3)
        yield name, World(2000, 10)


def _words(world: World) -> str:
    bursts = f" in bursts of {world.burst}" if world.burst > 1 else ""
    return f"long tail, n = {world.n}{bursts}"


def table(repeats: int) -> str:
    """The simulations as Markdown."""
    lines = ["| question | case | claimed | measured | repeats |", "|---|---|---|---|---|"]
    for row in rows():
        share, n = row.measure(repeats)
        least, most = row.claim
        claim = f"{100 * least:.0f} to {100 * most:.0f} %"
        lines.append(f"| {row.question} | {row.case} | {claim} | {100 * share:.1f} % | {n:,} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1600)
    parser.add_argument("--write", action="store_true", help="put the table into the methods page")
    given = parser.parse_args()
    found = table(given.repeats)
    print(found)
    if given.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + found + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
