"""CPU time of a piece of work, on a machine that others use."""

from __future__ import annotations

import time
from collections.abc import Callable


def least_cpu_s(work: Callable[[], object], n_rounds: int = 3) -> float:
    """CPU seconds of the quickest of several rounds: others empty the caches of single ones."""
    rounds = []
    for _ in range(n_rounds):
        began = time.process_time()
        work()
        rounds.append(time.process_time() - began)
    return min(rounds)
