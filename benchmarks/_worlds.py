"""Simulated worlds (Monte Carlo): photos of nature whose true scores are known.

A world draws one test set and the answers of three models, `a`, `b` and `c`: `a` and `b` are
equally good and err partly on the same photos, `c` is right .85 times as often. Each world's
docstring says where its truth comes from: a formula throughout, but for few-shot training, whose
truth is the mean over thousands of trainings. The truth of a mean over classes is over the classes
that the test set holds, and that of F1 is at the test set's mix of classes: twice the expected hits
over class size plus expected answers (`f1_truth`, equal to the metric on weighted cells).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import numpy as np

Random = np.random.Generator
RATIOS = (1.0, 1.0, 0.85)
"""how often each of the three models is right, as a share of what the best is"""
RATIO_M = np.array(RATIOS)


@dataclass(frozen=True, slots=True)
class Draw:
    """One test set, the models' answers to it (models × items), and each model's true scores."""

    target: np.ndarray
    answers_mn: np.ndarray
    truth: Mapping[str, np.ndarray]
    """by metric"""
    unit: np.ndarray | None = None
    part: np.ndarray | None = None
    score: Literal["pooled", "mean"] = "pooled"
    repeat: np.ndarray | None = None
    once_m: np.ndarray | None = None
    """models that were trained once, where others were several times"""


class World(Protocol):
    """Where test sets come from."""

    @property
    def words(self) -> str: ...

    def draw(self, random: Random) -> Draw: ...


# --- right and wrong ---


def shared_luck(random: Random, n_models: int, n: int) -> np.ndarray:
    """A uniform number for each model and item; on half of the items the same for all models."""
    is_shared, luck_n = random.random(n) < 0.5, random.random(n)
    return np.where(is_shared, luck_n, random.random((n_models, n)))


def right_in_units(
    random: Random, skill_u: np.ndarray, size_u: np.ndarray, icc: float, ratio_m: np.ndarray
) -> np.ndarray:
    """Right or wrong (models × items) with the correlation `icc` within a unit (beta-binomial).

    Half of the units are as easy for one model as for the others.
    """
    total = 1 / icc - 1
    beta = skill_u * total, (1 - skill_u) * total
    n_units = len(size_u)
    chance_mu = np.where(
        random.random(n_units) < 0.5,
        random.beta(*beta),
        random.beta(*beta, (len(ratio_m), n_units)),
    )
    chance_mn = np.repeat(chance_mu * ratio_m[:, None], size_u, axis=1)
    return random.random(chance_mn.shape) < chance_mn


def unit_sizes(random: Random, n_units: int, mean: int, is_even: bool) -> np.ndarray:
    """Items of each unit: all alike, or log-normal (sd 1.3: the largest of 50 has a quarter)."""
    if is_even:
        return np.full(n_units, mean)
    size_u = np.exp(random.normal(-0.845, 1.3, n_units)) * mean
    return np.maximum(1, np.rint(size_u)).astype(np.intp)


def answer(
    random: Random, target: np.ndarray, right_mn: np.ndarray, to_c: np.ndarray
) -> np.ndarray:
    """The target where right, else another class, drawn with the weights `to_c`."""
    cumulative = np.cumsum(to_c)
    before, own = cumulative[target] - to_c[target], to_c[target]
    place = random.random(right_mn.shape) * (cumulative[-1] - own)
    place += np.where(place >= before, own, 0.0)  # jumps over the target's own stretch
    other = np.searchsorted(cumulative, place, side="right")
    return np.where(right_mn, target, np.minimum(other, len(to_c) - 1))


def f1_truth(size_c: np.ndarray, skill_mc: np.ndarray, to_c: np.ndarray) -> np.ndarray:
    """Macro F1 of each model with the expected hits and answers of classes of these sizes."""
    hits_mc = size_c * skill_mc
    per_weight_mc = (size_c - hits_mc) / (to_c.sum() - to_c)
    astray_mc = to_c * (per_weight_mc.sum(axis=1, keepdims=True) - per_weight_mc)
    is_here = size_c > 0
    f1_mc = 2 * hits_mc[:, is_here] / (size_c + hits_mc + astray_mc)[:, is_here]
    return np.asarray(f1_mc.mean(axis=1))


def class_truth(target: np.ndarray, skill_mc: np.ndarray, to_c: np.ndarray) -> dict:
    """The true scores of models with that skill in each class, on a test set with these labels."""
    size_c = np.bincount(target, minlength=len(to_c))
    return {
        "macro_accuracy": skill_mc[:, size_c > 0].mean(axis=1),
        "macro_f1": f1_truth(size_c, skill_mc, to_c),
    }


def zipf(n_classes: int) -> np.ndarray:
    share_c = 1 / np.arange(1, n_classes + 1)
    return np.asarray(share_c / share_c.sum())


# --- independent photos ---


@dataclass(frozen=True)
class Shares:
    """Independent photos, right with one probability: the truth."""

    n: int
    skill: float
    ratios: tuple[float, ...] = RATIOS

    @property
    def words(self) -> str:
        return f"{self.skill:.2f}, {self.n} photos"

    def draw(self, random: Random) -> Draw:
        skill_m = self.skill * np.array(self.ratios)
        right_mn = (shared_luck(random, len(skill_m), self.n) < skill_m[:, None]).astype(int)
        return Draw(np.ones(self.n, int), right_mn, {"accuracy": skill_m})


@dataclass(frozen=True)
class LongTail:
    """Classes of Zipf's sizes. The truth of accuracy is over the population where all classes are
    alike, and is not given where they differ."""

    n: int
    n_classes: int = 100
    skill: Literal["even", "hard tail", "perfect head"] = "even"
    errors: Literal["anywhere", "to the head"] = "anywhere"
    burst: int = 1
    """frames of a burst, each of its own species, as in no camera: the worlds of version 1"""
    icc: float = 0.6
    ratios: tuple[float, ...] = RATIOS

    @property
    def words(self) -> str:
        skill = "" if self.skill == "even" else f", {self.skill}"
        errors = "" if self.errors == "anywhere" else f", errors {self.errors}"
        bursts = f" in mixed bursts of {self.burst}" if self.burst > 1 else ""
        return f"long tail of {self.n_classes}, {self.n} photos{bursts}{skill}{errors}"

    def draw(self, random: Random) -> Draw:
        share_c = zipf(self.n_classes)
        to_c = share_c if self.errors == "to the head" else np.ones(self.n_classes)
        target = random.choice(self.n_classes, self.n, p=share_c)
        ratio_m = np.array(self.ratios)
        skill_mc = ratio_m[:, None] * self._skills()
        if self.burst == 1:
            right_mn = shared_luck(random, len(ratio_m), self.n) < skill_mc[:, target]
        else:
            size_u = np.full(self.n // self.burst, self.burst)
            skill_u = np.full(len(size_u), 0.7)
            right_mn = right_in_units(random, skill_u, size_u, self.icc, ratio_m)
        truth = class_truth(target, skill_mc, to_c)
        if self.skill == "even":
            truth["accuracy"] = 0.7 * ratio_m
        unit = None if self.burst == 1 else np.arange(self.n) // self.burst
        return Draw(target, answer(random, target, right_mn, to_c), truth, unit)

    def _skills(self) -> np.ndarray:
        place_c = np.arange(self.n_classes) / (self.n_classes - 1)
        if self.skill == "hard tail":
            return 0.95 - 0.65 * place_c
        if self.skill == "perfect head":
            return np.where(place_c < 0.1, 1.0, 0.6)
        return np.full(self.n_classes, 0.7)


@dataclass(frozen=True)
class Ceiling:
    """Ten classes of 50 photos that are always right, and thin ones of one or two that are not.
    Truth: the mean of the classes' probabilities."""

    n_thin: int
    skill: float
    size: int = 1

    @property
    def words(self) -> str:
        return f"10 perfect classes of 50, {self.n_thin} of {self.size} at {self.skill:.2f}"

    def draw(self, random: Random) -> Draw:
        size_c = np.r_[np.full(10, 50), np.full(self.n_thin, self.size)]
        thin_m = self.skill * RATIO_M
        skill_mc = np.concatenate([np.ones((3, 10)), np.tile(thin_m[:, None], self.n_thin)], axis=1)
        target = np.repeat(np.arange(len(size_c)), size_c)
        right_mn = shared_luck(random, 3, len(target)) < skill_mc[:, target]
        to_c = np.ones(len(size_c))
        truth = class_truth(target, skill_mc, to_c)
        return Draw(target, answer(random, target, right_mn, to_c), truth)


@dataclass(frozen=True)
class Balanced:
    """As many photos of every class, classes of unlike difficulty. Truth: the mean of the classes'
    probabilities."""

    n_classes: int
    size: int

    @property
    def words(self) -> str:
        return f"{self.n_classes} unlike classes of {self.size} photos each"

    def draw(self, random: Random) -> Draw:
        skill_mc = RATIO_M[:, None] * np.linspace(0.2, 1.0, self.n_classes)
        target = np.repeat(np.arange(self.n_classes), self.size)
        right_mn = shared_luck(random, 3, len(target)) < skill_mc[:, target]
        to_c = np.ones(self.n_classes)
        truth = class_truth(target, skill_mc, to_c)
        truth["accuracy"] = truth["macro_accuracy"]
        return Draw(target, answer(random, target, right_mn, to_c), truth)


@dataclass(frozen=True)
class Parts:
    """NeWT: many questions of few photos. Truth: the mean of the questions' probabilities, or that
    over photos."""

    n_parts: int
    mean: int
    is_even: bool = False
    score: Literal["pooled", "mean"] = "mean"

    @property
    def words(self) -> str:
        sizes = "" if self.is_even else "about "
        return f"{self.score} over {self.n_parts} questions of {sizes}{self.mean} photos"

    def draw(self, random: Random) -> Draw:
        if self.is_even:
            size_p = np.full(self.n_parts, self.mean)
        else:
            size_p = np.maximum(2, random.poisson(self.mean, self.n_parts))
        skill_p = np.linspace(0.6, 0.95, self.n_parts)
        part = np.repeat(np.arange(self.n_parts), size_p)
        chance_mn = RATIO_M[:, None] * skill_p[part]
        right_mn = (shared_luck(random, 3, len(part)) < chance_mn).astype(int)
        value = skill_p.mean() if self.score == "mean" else skill_p[part].mean()
        truth = {"accuracy": value * RATIO_M}
        return Draw(np.ones(len(part), int), right_mn, truth, None, part, self.score)


# --- photos that belong together ---


@dataclass(frozen=True)
class Clusters:
    """Photos of few units, right and wrong alike within a unit. Truth: the probability."""

    n_units: int
    skill: float
    icc: float
    is_even: bool
    mean: int = 10
    taken_alone: bool = False
    """the mistake: photos taken for independent"""
    ratios: tuple[float, ...] = RATIOS

    @property
    def words(self) -> str:
        sizes = "equal" if self.is_even else "uneven"
        alone = ", *taken one by one*" if self.taken_alone else ""
        return f"{self.skill:.2f}, {self.n_units} {sizes} units, icc {self.icc}{alone}"

    def draw(self, random: Random) -> Draw:
        size_u = unit_sizes(random, self.n_units, self.mean, self.is_even)
        skill_u, ratio_m = np.full(self.n_units, self.skill), np.array(self.ratios)
        right_mn = right_in_units(random, skill_u, size_u, self.icc, ratio_m).astype(int)
        unit = None if self.taken_alone else np.repeat(np.arange(self.n_units), size_u)
        truth = {"accuracy": self.skill * ratio_m}
        return Draw(np.ones(int(size_u.sum()), int), right_mn, truth, unit)


@dataclass(frozen=True)
class Bursts:
    """Bursts of one species each, species of unlike difficulty. Truth: the mean of the species'
    probabilities (macro accuracy), `f1_truth` of them."""

    n_units: int
    n_classes: int
    icc: float
    is_even: bool
    mean: int = 10
    ratios: tuple[float, ...] = RATIOS
    has_tail: bool = False
    """species of Zipf's frequency, the rare ones hard"""

    @property
    def words(self) -> str:
        sizes, tail = "equal" if self.is_even else "uneven", ", hard tail" * self.has_tail
        return f"{self.n_units} {sizes} bursts of {self.n_classes} species{tail}, icc {self.icc}"

    def draw(self, random: Random) -> Draw:
        size_u = unit_sizes(random, self.n_units, self.mean, self.is_even)
        class_u = random.integers(0, self.n_classes, self.n_units)
        skill_c = np.linspace(0.5, 0.9, self.n_classes)
        if self.has_tail:
            class_u = random.choice(self.n_classes, self.n_units, p=zipf(self.n_classes))
            skill_c = np.linspace(0.95, 0.3, self.n_classes)
        ratio_m = np.array(self.ratios)
        right_mn = right_in_units(random, skill_c[class_u], size_u, self.icc, ratio_m)
        target, to_c = np.repeat(class_u, size_u), np.ones(self.n_classes)
        truth = class_truth(target, ratio_m[:, None] * skill_c, to_c)
        unit = np.repeat(np.arange(self.n_units), size_u)
        return Draw(target, answer(random, target, right_mn, to_c), truth, unit)


@dataclass(frozen=True)
class Individuals:
    """Re-identification: a unit is an individual, and a class. Truth: the probability over the
    individuals that might have been met."""

    n_units: int
    icc: float
    is_even: bool = False
    mean: int = 8

    @property
    def words(self) -> str:
        sizes = "equal" if self.is_even else "uneven"
        return f"re-identification, {self.n_units} {sizes} individuals, icc {self.icc}"

    def draw(self, random: Random) -> Draw:
        size_u = unit_sizes(random, self.n_units, self.mean, self.is_even)
        skill_u = np.full(self.n_units, 0.7)
        right_mn = right_in_units(random, skill_u, size_u, self.icc, RATIO_M)
        target = np.repeat(np.arange(self.n_units), size_u)
        answers_mn = answer(random, target, right_mn, np.ones(self.n_units))
        truth = {"accuracy": 0.7 * RATIO_M, "macro_accuracy": 0.7 * RATIO_M}
        return Draw(target, answers_mn, truth, target)


@dataclass(frozen=True)
class Cameras:
    """Cameras never seen before, each with its own mix of 20 species and its own difficulty. Truth:
    over cameras; a species' probability is its own share of the cameras' mean of .8."""

    icc: float
    n_units: int = 48
    mean: int = 30

    @property
    def words(self) -> str:
        return f"{self.n_units} new cameras, about {self.mean} photos of each, icc {self.icc}"

    def draw(self, random: Random) -> Draw:
        n_classes, total = 20, 1 / self.icc - 1
        size_u = unit_sizes(random, self.n_units, self.mean, False)
        unit = np.repeat(np.arange(self.n_units), size_u)
        mix_uc = np.cumsum(random.dirichlet(20 * zipf(n_classes), self.n_units), axis=1)
        target = (random.random(len(unit))[:, None] > mix_uc[unit]).sum(axis=1)
        target = np.minimum(target, n_classes - 1)
        skill_c = np.linspace(1.0, 0.7, n_classes)
        beta = 0.8 * total, 0.2 * total
        easy_mu = np.where(
            random.random(self.n_units) < 0.5,
            random.beta(*beta, self.n_units),
            random.beta(*beta, (3, self.n_units)),
        )
        chance_mn = RATIO_M[:, None] * easy_mu[:, unit] * skill_c[target]
        right_mn = random.random(chance_mn.shape) < chance_mn
        skill_mc, to_c = 0.8 * RATIO_M[:, None] * skill_c, zipf(n_classes)
        truth = class_truth(target, skill_mc, to_c) | {"accuracy": skill_mc @ to_c}
        return Draw(target, answer(random, target, right_mn, to_c), truth, unit)


@dataclass(frozen=True)
class Traits:
    """Several traits asked of the same fish; a share of a model's luck with a fish is one draw for
    all traits. Truth: the mean of the traits' probabilities, or of their `f1_truth`."""

    n_traits: int
    n_units: int
    rho: float
    """correlation of right and wrong between two traits of equal difficulty"""

    @property
    def words(self) -> str:
        return f"{self.n_traits} traits of {self.n_units} fish, correlation {self.rho}"

    def draw(self, random: Random) -> Draw:
        shape = 3, self.n_traits, self.n_units
        is_same = random.random(shape) < np.sqrt(self.rho)
        fish_mu = random.random((3, self.n_units))
        own_mtu = shared_luck(random, 3, self.n_traits * self.n_units).reshape(shape)
        luck_mtu = np.where(is_same, fish_mu[:, None], own_mtu)
        skill_mt = RATIO_M[:, None] * np.linspace(0.7, 0.8, self.n_traits)
        right_mn = (luck_mtu < skill_mt[..., None]).reshape(3, -1)
        share_c, to_c = np.array([0.5, 0.3, 0.2]), np.ones(3)
        target_tu = random.choice(3, shape[1:], p=share_c)
        f1_tm = [
            f1_truth(np.bincount(target_u, minlength=3), np.repeat(skill_m[:, None], 3, 1), to_c)
            for target_u, skill_m in zip(target_tu, skill_mt.T, strict=True)
        ]
        mean_m = skill_mt.mean(axis=1)
        truth = {"accuracy": mean_m, "macro_accuracy": mean_m, "macro_f1": np.mean(f1_tm, axis=0)}
        target, unit = target_tu.ravel(), np.tile(np.arange(self.n_units), self.n_traits)
        part = np.repeat(np.arange(self.n_traits), self.n_units)
        answers_mn = answer(random, target, right_mn, to_c)
        return Draw(target, answers_mn, truth, unit, part, "mean")


@dataclass(frozen=True)
class FewSplits:
    """Models `a` and `b` that answer alike but for few photos, on which either may be right: no
    difference. `c` is as good, and differs as seldom."""

    n_units: int
    rate: float
    mean: int = 7

    @property
    def words(self) -> str:
        return f"{self.n_units} units, models differ on {100 * self.rate:g} % of photos"

    def draw(self, random: Random) -> Draw:
        n = self.n_units * self.mean
        same_n = random.random(n) < 0.8
        is_apart_mn = random.random((3, n)) < np.array([0, self.rate, self.rate])[:, None]
        first_n = random.random(n) < 0.5
        right_mn = np.stack([same_n, same_n, same_n])
        apart_n = is_apart_mn.any(axis=0)
        right_mn[:, apart_n] = first_n[apart_n] ^ is_apart_mn[:, apart_n]
        apart = 1 - (1 - self.rate) ** 2
        truth = {"accuracy": np.full(3, 0.8 - 0.3 * apart)}
        unit = np.repeat(np.arange(self.n_units), self.mean)
        return Draw(np.ones(n, int), right_mn.astype(int), truth, unit)


# --- training draws ---


@dataclass(frozen=True)
class FewShots:
    """Nearest class mean on Gaussian features, trained anew in every repeat and tested on the same
    photos. Truth: the mean over trainings and photos (`_few_shot_truth`); of a single training
    (`of_this_training`) that training's own mean over 6,000 other photos."""

    n_classes: int
    shots: int
    repeats: int
    n: int
    of_this_training: bool = False
    others_once: bool = False
    """only the first model was trained so often, the others once"""

    @property
    def words(self) -> str:
        trainings = "1 training" if self.repeats == 1 else f"{self.repeats} trainings"
        trainings += " against 1" if self.others_once else ""
        this = ", of this training" if self.of_this_training else ""
        return f"{self.n_classes} classes, {self.shots} shots, {trainings}, {self.n} photos{this}"

    def draw(self, random: Random) -> Draw:
        target = random.integers(0, self.n_classes, self.n)
        x_mnd = _features(random, self.n_classes, target)
        mean_rmcd = [_class_means(random, self.n_classes, self.shots) for _ in range(self.repeats)]
        answers_mn = np.concatenate([_nearest(x_mnd, mean_mcd) for mean_mcd in mean_rmcd], axis=1)
        truth_m = _few_shot_truth(self.n_classes, self.shots)
        if self.others_once:
            answers_mn[1:] = np.tile(answers_mn[1:, : self.n], self.repeats)
        if self.of_this_training:
            other = random.integers(0, self.n_classes, 6_000)
            x_mnd = _features(random, self.n_classes, other)
            truth_m = (_nearest(x_mnd, mean_rmcd[0]) == other).mean(axis=1)
        unit = np.tile(np.arange(self.n), self.repeats)
        repeat = np.repeat(np.arange(self.repeats), self.n)
        truth = {"accuracy": truth_m}
        once_m = np.array([False, True, True]) if self.others_once else None
        target = np.tile(target, self.repeats)
        return Draw(target, answers_mn, truth, unit, repeat=repeat, once_m=once_m)


@dataclass(frozen=True)
class RestOfPool:
    """As `FewShots`, with training images drawn from one pool, whose rest is tested: a photo trains
    in one draw and is tested in others. Truth: as `FewShots`, of classes of equal size."""

    n_classes: int
    shots: int
    pool: int
    """photos of each class"""
    repeats: int = 5

    @property
    def words(self) -> str:
        drawn = f"{self.shots} shots, {self.repeats} trainings"
        return f"{self.n_classes} classes, {drawn}, the rest of {self.pool} a class tested"

    def draw(self, random: Random) -> Draw:
        target = np.repeat(np.arange(self.n_classes), self.pool)
        x_mnd = _features(random, self.n_classes, target)
        answers, tested = [], []
        for _ in range(self.repeats):
            order_cp = random.random((self.n_classes, self.pool)).argsort(axis=1)
            order_cp += self.pool * np.arange(self.n_classes)[:, None]
            mean_mcd = x_mnd[:, order_cp[:, : self.shots]].mean(axis=2)
            rest = order_cp[:, self.shots :].ravel()
            answers.append(_nearest(x_mnd[:, rest], mean_mcd))
            tested.append(rest)
        unit = np.concatenate(tested)
        truth = {"accuracy": _few_shot_truth(self.n_classes, self.shots)}
        repeat = np.repeat(np.arange(self.repeats), len(tested[0]))
        return Draw(target[unit], np.concatenate(answers, axis=1), truth, unit, repeat=repeat)


DIM = 12


@cache
def _centres(n_classes: int) -> np.ndarray:
    """Where the classes lie (models × classes × features); the third model sees them closer."""
    centre_cd = np.random.default_rng(n_classes).normal(0.0, 0.7, (n_classes, DIM))
    return np.stack([centre_cd, centre_cd, centre_cd * 0.85]).astype(np.float32)


def _features(random: Random, n_classes: int, target: np.ndarray) -> np.ndarray:
    """Half of what blurs a photo blurs it for all models."""
    shape = len(target), DIM
    noise_mnd = random.standard_normal((3, *shape), np.float32)
    noise_mnd += random.standard_normal(shape, np.float32)
    noise_mnd *= np.float32(np.sqrt(0.5))
    noise_mnd += _centres(n_classes)[:, target]
    return noise_mnd


def _class_means(random: Random, n_classes: int, shots: int) -> np.ndarray:
    target = np.repeat(np.arange(n_classes), shots)
    return _features(random, n_classes, target).reshape(3, n_classes, shots, DIM).mean(axis=2)


def _nearest(x_mnd: np.ndarray, mean_mcd: np.ndarray) -> np.ndarray:
    half_mc = (mean_mcd**2).sum(axis=2) / 2
    return (x_mnd @ mean_mcd.transpose(0, 2, 1) - half_mc[:, None]).argmax(axis=2)


@cache
def _few_shot_truth(n_classes: int, shots: int) -> np.ndarray:
    """The mean over 6,000 trainings and 400 photos each; `a` and `b` are one value."""
    random, right_m = np.random.default_rng(1), np.zeros(3)
    n_trainings = 6000
    for _ in range(n_trainings):
        target = random.integers(0, n_classes, 400)
        mean_mcd = _class_means(random, n_classes, shots)
        right_m += (_nearest(_features(random, n_classes, target), mean_mcd) == target).mean(axis=1)
    right_m[:2] = right_m[:2].mean()
    return right_m / n_trainings


# --- other metrics ---


@dataclass(frozen=True)
class Certainties:
    """Yes or no by a certainty, normal with mean `gap` where yes is right. Truth: the integral of
    precision over recall."""

    n: int
    share: float
    gap: float

    @property
    def words(self) -> str:
        return f"{self.n} photos, {100 * self.share:.0f} % yes, gap {self.gap}"

    def draw(self, random: Random) -> Draw:
        is_yes = random.random(self.n) < self.share
        noise_mn = random.normal(size=(3, self.n)) + random.normal(size=self.n)
        gap_m = self.gap * RATIO_M
        score_mn = noise_mn * np.sqrt(0.5) + gap_m[:, None] * is_yes
        truth_m = np.array([_area(self.share, gap) for gap in gap_m])
        return Draw(is_yes.astype(int), score_mn, {"average_precision": truth_m})


@dataclass(frozen=True)
class TraitSpecies:
    """A trait that whole species have or lack: positives come as a few species, whose photos are
    alike (correlation `icc`). Truth as `Certainties`: the integral over photos."""

    n_species: int
    mean: int
    share: float
    icc: float
    gap: float = 2.0

    @property
    def words(self) -> str:
        yes = f"{self.share * self.n_species:.0f} with the trait"
        return f"{self.n_species} species of about {self.mean} photos, {yes}, icc {self.icc}"

    def draw(self, random: Random) -> Draw:
        size_u = 1 + random.poisson(random.gamma(2.0, (self.mean - 1) / 2, self.n_species))
        n_yes = round(self.share * self.n_species)
        unit = np.repeat(np.arange(self.n_species), size_u)
        is_yes = unit < n_yes
        unit_mu = random.normal(size=(3, self.n_species)) + random.normal(size=self.n_species)
        own_mn = random.normal(size=(3, len(unit))) + random.normal(size=len(unit))
        noise_mn = np.sqrt(self.icc) * unit_mu[:, unit] + np.sqrt(1 - self.icc) * own_mn
        gap_m = self.gap * RATIO_M
        score_mn = noise_mn * np.sqrt(0.5) + gap_m[:, None] * is_yes
        truth_m = np.array([_area(self.share, gap) for gap in gap_m])
        return Draw(is_yes.astype(int), score_mn, {"average_precision": truth_m}, unit)


@cache
def _area(share: float, gap: float) -> float:
    from scipy.special import ndtr, ndtri

    recall = (np.arange(20_000) + 0.5) / 20_000
    false_rate = ndtr(-(gap - ndtri(recall)))
    return float((share * recall / (share * recall + (1 - share) * false_rate)).mean())


@dataclass(frozen=True)
class Mushrooms:
    """Open-set user loss: 40 known species, four of them poisonous, and new ones. Truth: the
    expected cost over the expected worst cost, by the metric itself on all pairs of classes
    weighted with their probabilities."""

    n: int
    missed: float
    """share of poisonous ones that are taken for harmless"""

    @property
    def words(self) -> str:
        return f"{self.n} photos, {100 * self.missed:g} % of poisonous missed"

    def draw(self, random: Random) -> Draw:
        share_c, chance_mcc = _mushrooms(self.missed)
        target = random.choice(len(share_c), self.n, p=share_c)
        luck_mn = shared_luck(random, 3, self.n)
        cumulative = np.cumsum(chance_mcc, axis=2)
        answers_mn = (luck_mn[..., None] > cumulative[:, target]).sum(axis=2)
        answers_mn = np.minimum(answers_mn, len(share_c) - 1)
        return Draw(target, answers_mn, {"user_loss": _mushroom_truth(self.missed)})


KINDS = np.array(["poisonous"] * 4 + ["edible"] * 36 + ["unknown"], dtype=object)


@cache
def _mushrooms(missed: float) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the classes, and how each is answered (models × classes × answers)."""
    n = len(KINDS)
    share_c = np.r_[np.full(4, 0.02), np.full(36, 0.82 / 36), 0.1]
    chance_mcc = np.zeros((3, n, n))
    for model, factor in enumerate((1.0, 1.0, 1.3)):
        miss = missed * factor
        chance_mcc[model, :4, 4:40] = miss / 36
        chance_mcc[model, range(4), range(4)] = 1 - miss
        chance_mcc[model, 4:40, 4:40] = 0.2 * factor / 35
        chance_mcc[model, 4:40, :4] = 0.02 * factor / 4
        chance_mcc[model, 4:40, 40] = 0.05 * factor
        chance_mcc[model, range(4, 40), range(4, 40)] = 1 - 0.27 * factor
        chance_mcc[model, 40, 4:40] = 0.4 * factor / 36
        chance_mcc[model, 40, 40] = 1 - 0.4 * factor
    return share_c, chance_mcc


@cache
def _mushroom_truth(missed: float) -> np.ndarray:
    from fieldmark.metrics import load_metric

    share_c, chance_mcc = _mushrooms(missed)
    target, said = np.indices(chance_mcc.shape[1:]).reshape(2, -1)
    weight_mn = (share_c[:, None] * chance_mcc).reshape(3, -1)
    return np.asarray(load_metric("user_loss")(target, said, weight_mn, kind=KINDS))


# --- many models ---


@dataclass(frozen=True)
class Field:
    """Many models on the same independent photos, right and wrong correlated between models.
    Truth: the probabilities."""

    skill_m: tuple[float, ...]
    n: int
    name: str
    rho: float = 0.6

    @property
    def words(self) -> str:
        return f"{len(self.skill_m)} models, {self.n:,} photos, {self.name}"

    def draw(self, random: Random) -> Draw:
        skill_m = np.array(self.skill_m)
        shape, single = (len(skill_m), self.n), np.float32
        own_mn = random.random(shape, single)
        is_shared = random.random(shape, single) < np.sqrt(self.rho)
        luck_mn = np.where(is_shared, random.random(self.n, single), own_mn)
        right_mn = (luck_mn < skill_m[:, None].astype(single)).astype(int)
        return Draw(np.ones(self.n, int), right_mn, {"accuracy": skill_m})
