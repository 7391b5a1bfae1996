"""How right is an SVM that learned from 2 to 100 images: the default, a plain one, the published?

Learning curves over made yes-or-no tasks. Features are of nine kinds, most of which suit neither a
plain machine nor a search: a falling spectrum, an offset, ReLU-sparse, heavy-tailed, one massive
coordinate, shared nuisance, a sparse signal, wild scales, two modes a class. Each kind comes in
three difficulties; every draw trains all three on the same images, normalised as NeWT's are, and
tests them on the same 400. Plain: `SVC(kernel="linear")`. Published: small-data-metrics' recipe,
the same below 10 images and a random search from 10 on.

The bar: at no size is the default more than a point below the better of the two. Beside it, for
tasks where one of them is clearly better: how far the default is from that one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from _features import timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np

from _quick import Flags, finish
from fieldmark.probes._normalise import Normaliser
from fieldmark.probes.svm import SupportVectors

SIZES = (2, 4, 6, 8, 10, 16, 30, 100)
WIDTH = 512
N_TEST = 200
"""images a class"""
KINDS = {
    "spectrum": (0.1, 0.2, 0.35),
    "offset": (0.1, 0.2, 0.35),
    "relu": (0.1, 0.2, 0.35),
    "heavy": (0.15, 0.3, 0.6),
    "massive": (0.1, 0.2, 0.35),
    "nuisance": (0.1, 0.2, 0.35),
    "sparse": (0.1, 0.2, 0.35),
    "scales": (0.1, 0.2, 0.35),
    "modes": (0.1, 0.2, 0.35),
}
"""kind of features → how far apart the classes are"""
BAR = 0.01
CLEARLY = 0.02
"""a lead of plain or published that makes a task one's or the other's"""


@dataclass(frozen=True, slots=True)
class Task:
    """Where the images of one question come from; `number` decides its directions and scales."""

    kind: str
    apart: float
    number: int

    def draw(self, n_each: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        world = np.random.default_rng([self.number, 1])
        way_d, other_d, mean_d = world.normal(size=(3, WIDTH))
        is_signal_d = world.random(WIDTH) < 0.05
        turn_dd = np.linalg.qr(world.normal(size=(WIDTH, WIDTH)))[0]
        fall_d = np.arange(1, WIDTH + 1) ** -0.5
        y = np.repeat([0, 1], n_each)
        side_n1 = (2 * y - 1)[:, None]
        noise_nd = random.normal(size=(len(y), WIDTH))
        usual_nd = (self.apart * side_n1 * way_d + noise_nd) * fall_d
        few_nd = 3 * self.apart * side_n1 * way_d * is_signal_d + noise_nd
        if self.kind == "spectrum":
            return usual_nd @ turn_dd, y
        if self.kind == "offset":
            return (usual_nd + 2 * mean_d * fall_d) @ turn_dd, y
        if self.kind == "relu":
            return np.maximum(usual_nd @ turn_dd - 0.1 * np.abs(mean_d), 0), y
        if self.kind == "heavy":
            tail_nd = random.standard_t(2.5, size=(len(y), WIDTH))
            return (self.apart * side_n1 * way_d + tail_nd) * fall_d, y
        if self.kind == "massive":
            usual_nd[:, 5] = 100 * (1 + 0.05 * noise_nd[:, 5])
            return usual_nd, y
        if self.kind == "nuisance":
            shared_nd = random.normal(size=(len(y), 6)) @ world.normal(size=(6, WIDTH))
            return usual_nd + 3 * shared_nd * fall_d, y
        if self.kind == "sparse":
            return few_nd, y
        if self.kind == "scales":
            return few_nd * world.permutation(np.logspace(-2, 2, WIDTH)), y
        mode_n1 = random.integers(0, 2, (len(y), 1)) * 2 - 1
        centre_nd = mode_n1 * other_d + side_n1 * (0.5 * way_d + mode_n1 * mean_d)
        return 3 * self.apart * centre_nd * is_signal_d + noise_nd, y


def machines() -> dict[str, SupportVectors]:
    return {
        "default": SupportVectors(),
        "plain": SupportVectors(search=0),
        "published": SupportVectors(choose="best"),
    }


def curves(task: Task, sizes: Sequence[int], n_draws: int) -> np.ndarray:
    """Accuracy on the test images: draws × sizes × (default, plain, published)."""
    test_nd, truth_n = task.draw(N_TEST, np.random.default_rng([task.number, 2]))
    right_dsm = np.empty((n_draws, len(sizes), 3))
    for number in range(n_draws):
        random = np.random.default_rng([task.number, 3, number])
        x_nd, y = task.draw(max(sizes) // 2, random)
        for at, n in enumerate(sizes):
            row_n = random.permutation(np.r_[0 : n // 2, len(y) // 2 : (len(y) + n) // 2])
            steps = Normaliser(["l2", "centre", "l2"]).fit(x_nd[row_n])
            train_nd, query_nd = steps.transform(x_nd[row_n]), steps.transform(test_nd)
            for column, machine in enumerate(machines().values()):
                answer_n = machine.fit(train_nd, y[row_n]).predict(query_nd)
                right_dsm[number, at, column] = (answer_n == truth_n).mean()
    return right_dsm


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--draws", type=int, default=30, help="training samples a task and size")
    flags.add_argument("--tasks", type=int, default=27, help="the first so many of 27")
    asked = flags.parse(draws=1, tasks=2)
    sizes = (2, 10) if asked.quick else SIZES
    kinds = [
        (kind, apart) for rank in range(3) for kind, all_ in KINDS.items() for apart in [all_[rank]]
    ]
    tasks = [Task(*each, number) for number, each in enumerate(kinds[: asked.tasks])]
    spent_s, all_tdsm = timed(lambda: np.stack([curves(t, sizes, asked.draws) for t in tasks]))
    mean_tsm = all_tdsm.mean(axis=1)
    print(f"{len(tasks)} tasks × {asked.draws} draws; 95 % intervals over tasks of the gap")
    heads = "images  default  plain  published   default − better"
    print(heads, "  where plain leads   where published leads")
    gaps = []
    for at, n in enumerate(sizes):
        default_t, plain_t, published_t = mean_tsm[:, at].T
        rival_t = plain_t if plain_t.mean() >= published_t.mean() else published_t
        gap_t = default_t - rival_t
        gaps.append(gap_t.mean())
        half = 1.96 * gap_t.std(ddof=1) / np.sqrt(len(gap_t))
        sides = [
            f"{100 * (default_t - a_t)[is_t].mean():+5.1f} ({is_t.sum()} tasks)"
            if is_t.any()
            else "–"
            for a_t, b_t in ((plain_t, published_t), (published_t, plain_t))
            for is_t in [a_t - b_t > CLEARLY]
        ]
        print(
            f"{n:6}  {100 * default_t.mean():7.1f}  {100 * plain_t.mean():5.1f}"
            f"  {100 * published_t.mean():9.1f}   {100 * gap_t.mean():+5.1f} ± {100 * half:3.1f}"
            f"       {sides[0]:>18}  {sides[1]:>20}"
        )
    figure = (
        f"few_shot_svm: the default is at worst {100 * min(gaps):+.1f} points from the better of "
        f"plain and published, of {len(sizes)} sizes ({spent_s:.0f} s CPU)"
    )
    return finish(figure, {"never more than 1 point below": min(gaps) >= -BAR}, asked.quick)


if __name__ == "__main__":
    sys.exit(main())
