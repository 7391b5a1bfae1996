"""`lmms_eval.tasks._task_utils.point_format`: which points does a text name?"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["parse_point2d"]

_NUMBER = r"\s*([-+]?\d+\.?\d*)\s*"
_PAIR = re.compile(rf"[\[(]{_NUMBER},{_NUMBER}[\])]")
GRID = 1000
"""whole numbers are thousandths of the picture's width and height, others are parts of it"""


def parse_point2d(text: str, width: int, height: int) -> Any:
    """An array of pixel positions, one row for each pair in round or square brackets."""
    import numpy as np

    points = []
    for x, y in _PAIR.findall(text):
        scale = 1 if "." in x + y else GRID
        points.append((int(float(x) / scale * width), int(float(y) / scale * height)))
    return np.array(points)
