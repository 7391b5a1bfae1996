"""Grouped cross-validation folds: which photos may not be on both sides of a test?

Photos of one unit (camera, site, individual, burst) are alike for reasons that have nothing to do
with their label. A model is tested on units that it was not trained on; what a random split would
have shown is computed beside it, to be told, never to be believed.
"""

from __future__ import annotations

import numpy as np

from fieldmark import draws

FOLDS = 5
MORE_FOLDS = 10
"""for few photos: each fold's training set is then nearer to all of them"""
FEW_PHOTOS = 3000
EVERY_UNIT = 9
"""up to so many units, each is its own fold"""
LEAST_PHOTOS = 4
"""of a label: fewer cannot be tested"""


def can_be_tested(code_n: np.ndarray, unit_n: np.ndarray, n_labels: int) -> np.ndarray:
    """Of each label whether it can be tested on units never seen: photos of two units at least."""
    pairs = np.unique(np.stack([code_n, unit_n], axis=1), axis=0)
    n_units = np.bincount(pairs[:, 0], minlength=n_labels)
    n_photos = np.bincount(code_n, minlength=n_labels)
    return np.asarray((n_units >= 2) & (n_photos >= LEAST_PHOTOS))


def make_folds(code_n: np.ndarray, unit_n: np.ndarray, seed: str = "") -> np.ndarray:
    """The fold of each photo: units whole, dealt out at random, whatever their labels.

    Not stratified, on purpose. A new unit does not care which labels were common among those
    trained; in stratified folds the labels that happen to have more units are both learnt better
    and tested more, and heads that favour common labels look better than they are (decision 26).
    Only a label whose units would all be in one fold gives one away: it could not be learnt there.
    """
    n_units = int(unit_n.max()) + 1
    if n_units <= EVERY_UNIT:
        return np.asarray(unit_n)
    n_folds = MORE_FOLDS if len(code_n) <= FEW_PHOTOS else FOLDS
    fold_u = draws.generator("folds", seed, n_units).permutation(n_units) % n_folds
    pairs = np.unique(np.stack([code_n, unit_n]), axis=1)
    n_c = np.bincount(pairs[0])
    for code in np.argsort(-n_c, kind="stable"):
        units = pairs[1, pairs[0] == code]
        if len(units) > 1 and len(np.unique(fold_u[units])) == 1:
            fold_u[units[0]] = (fold_u[units[0]] + 1) % n_folds
    return np.asarray(fold_u[unit_n])
