"""On which labels is a model worst?"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.report.providers import is_valued
from fieldmark.store import Run, Store

MOST_READ = 3_000_000
"""predictions read for one export; the answers of a few models take a second"""
N_WORST, FEWEST = 5, 5
"""labels named, and images a label must have: one wrong answer of two says nothing"""


@dataclass(frozen=True, slots=True)
class WorstClass:
    label: str
    n: int
    n_right: int
    taken_for: str
    """the most frequent wrong answer; "" where all are right"""


def worst_classes(store: Store, run: Run) -> list[WorstClass]:
    """The labels with the smallest share of right answers, worst first; equal ones by name.

    Labels that were never missed are not among them. Answers that are texts have none.
    """
    import numpy as np

    if is_valued(run):
        return []
    asked = store.answers([run.id])
    asked = asked.taken(asked.prediction_mn[0] != 0)
    given = asked.prediction_mn[0]
    kinds, code = np.unique(np.stack([asked.part, asked.target]), axis=1, return_inverse=True)
    code = code.reshape(-1)
    n_c = np.bincount(code, minlength=kinds.shape[1])
    right_c = np.bincount(code, given == asked.target, kinds.shape[1]).astype(int)
    names = store.texts(np.unique(kinds))
    missed = [
        (right_c[at] / n_c[at], _name(names[int(part)], names[int(target)]), at)
        for at, (part, target) in enumerate(kinds.T)
        if n_c[at] >= FEWEST and right_c[at] < n_c[at]
    ]
    found = []
    for _, name, at in sorted(missed)[:N_WORST]:
        wrong = given[(code == at) & (given != asked.target)]
        answers, counts = np.unique(wrong, return_counts=True)
        most = int(answers[counts.argmax()])
        found.append(WorstClass(name, int(n_c[at]), int(right_c[at]), store.texts([most])[most]))
    return found


def _name(part: str, label: str) -> str:
    return f"{part}: {label}" if part else label
