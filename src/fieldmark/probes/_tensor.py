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


def is_cuda(x: Any) -> bool:
    """A tensor on a GPU that has half-precision products and float64."""
    return is_tensor(x) and x.device.type == "cuda"


def together(one: Any, other: Any) -> tuple[Any, Any]:
    """Both on the GPU on which one of them is."""
    device = one.device if is_cuda(one) else other.device
    torch = sys.modules["torch"]
    return torch.as_tensor(one, device=device), torch.as_tensor(other, device=device)
