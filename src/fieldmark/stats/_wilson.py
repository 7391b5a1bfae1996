"""Which shares would not be surprised by the one that was seen?"""

from __future__ import annotations

import math


def wilson_limits(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score limits; `n` need not be whole. A share of 0 or 1 is its own limit."""
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z * math.sqrt(max(0.0, share * (1 - share)) / n + z * z / (4 * n * n)) / shrink
    low = 0.0 if share <= 0 else min(centre - half, share)
    high = 1.0 if share >= 1 else max(centre + half, share)
    return low, high
