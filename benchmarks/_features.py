"""What do features of a frozen backbone look like, for a benchmark?

Gaussian classes whose directions carry less and less (a power law), turned so that no feature is
special, float32. CPU time of one thread is what all probe benchmarks compare.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

# Before numpy is loaded: two pools on busy cores measure each other.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

WIDTH = 768


def features(
    n: int, n_classes: int, *, apart: float = 0.25, decay: float = 0.7, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (float32) and labels; the same classes whatever the seed."""
    world, random = np.random.default_rng(12345), np.random.default_rng(seed)
    turn = np.linalg.qr(world.standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)
    centres = apart * world.standard_normal((n_classes, WIDTH), dtype=np.float32)
    turn *= (np.arange(1, WIDTH + 1, dtype=np.float32) ** -np.float32(decay))[:, None]
    y = random.integers(0, n_classes, n)
    x = np.empty((n, WIDTH), np.float32)
    for start in range(0, n, 8192):
        rows = y[start : start + 8192]
        noise = random.standard_normal((len(rows), WIDTH), dtype=np.float32)
        x[start : start + 8192] = (centres[rows] + noise) @ turn + np.float32(0.05)
    return x, y


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds and what came out."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result
