"""Is an array a torch tensor, and on which device?

torch is never imported here: whoever passes a tensor has done so.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def on_accelerator(x: Any) -> bool:
    """A tensor whose products are better left where it lives."""
    return is_tensor(x) and x.device.type != "cpu"


def as_numpy(x: Any) -> np.ndarray:
    """The same values in main memory."""
    return np.asarray(x.detach().cpu().numpy() if is_tensor(x) else x)
