"""How many folds can a search have, and which rows are held out?"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.model_selection import StratifiedKFold


def usable_folds(wanted: int, code_n: np.ndarray) -> int:
    """At most as many folds as the second-largest class has rows; below 2 nothing can be searched.

    For two classes that is the smaller one: every fold then trains and tests on both. In a
    long-tailed set a class with a single image must not cost all the others their search.
    """
    sizes = np.sort(np.bincount(code_n))
    return int(min(wanted, sizes[-2])) if len(sizes) > 1 else 1


def stratified(folds: int, code_n: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The splits scikit-learn makes for `cv=folds`, without its warning on rare classes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return list(StratifiedKFold(folds).split(np.zeros((len(code_n), 1)), code_n))


def describe_folds(wanted: int, used: int) -> str:
    """What a person should know about the search, or nothing."""
    if used == wanted:
        return ""
    if used < 2:
        return "too few images to hold any out: no search, the default setting"
    return f"{used} folds instead of {wanted}: too few images"
