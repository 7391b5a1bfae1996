"""How many folds can a search have, and which rows are held out?"""

from __future__ import annotations

import numpy as np

from fieldmark.probes._select import rare_notes


def usable_folds(wanted: int, code_n: np.ndarray) -> int:
    """At most as many folds as the second-largest class has rows; below 2 nothing can be searched.

    For two classes that is the smaller one: every fold then trains and tests on both. In a
    long-tailed set a class with a single image must not cost all the others their search.
    """
    sizes = np.sort(np.bincount(code_n))
    return int(min(wanted, sizes[-2])) if len(sizes) > 1 else 1


def stratified(folds: int, code_n: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """(Training, held-out) rows: the splits scikit-learn makes for `cv=folds`.

    Its own search looks through all labels once for each class: seconds for 10,000 classes.
    """
    fold_n = _folds_of(folds, code_n)
    return [
        (np.flatnonzero(fold_n != fold), np.flatnonzero(fold_n == fold)) for fold in range(folds)
    ]


def _folds_of(folds: int, code_n: np.ndarray) -> np.ndarray:
    """The fold in which each row is held out.

    Classes stand in the order in which they first occur, their rows in the order of the data. Going
    round the folds says how many rows of a class each fold gets; the class's first rows then go to
    the first fold, and so on.
    """
    n_rows = len(code_n)
    first_c = np.full(int(code_n.max()) + 1, n_rows)
    first_c[code_n[::-1]] = np.arange(n_rows)[::-1]
    class_n = np.argsort(np.argsort(first_c, kind="stable"))[code_n]
    order = np.argsort(class_n, kind="stable")
    fold_n = np.empty(n_rows, np.intp)
    fold_n[order] = np.sort(class_n[order] * folds + np.arange(n_rows) % folds) % folds
    return fold_n


def fold_notes(wanted: int, used: int, code_n: np.ndarray) -> list[str]:
    """What a person should know about the folds of a search."""
    if used < 2:
        return ["too few images to hold any out: no search, the default setting"]
    fewer = [f"{used} folds instead of {wanted}: too few images"] if used < wanted else []
    return fewer + rare_notes(code_n, used, "not in every fold")
