"""Model FLOPs utilisation (MFU): which share of what the GPUs could do goes into the network?

Operations are counted from their shapes, on a copy of the network without any weights; activations
that are computed again do not count. PaLM, appendix B: https://arxiv.org/abs/2204.02311
"""

from __future__ import annotations

import copy
import re
from typing import Any

import torch

from fieldmark.build.train.network import ClipTrainingModel

PEAKS = {"A100": 312e12, "H100": 989e12, "H200": 989e12, "GH200": 989e12}
"""dense bf16 FLOP/s by a word of the card's name, from NVIDIA's data sheets"""
_SLOWER = {"PCIe", "NVL"}
"""of an H100 or H200: other peaks, which are not known here"""


class PairFlops:
    """FLOPs of an update, per pair: the forward pass, and twice as much for the gradient of a tower
    that learns.
    """

    def __init__(self, clip_model: ClipTrainingModel) -> None:
        """Before the network is compiled, sharded or made to compute activations again."""
        self._twin = copy.deepcopy(clip_model).to("meta").eval()
        self._size = clip_model.image_size
        visual = {id(weight) for weight in clip_model.network.visual.parameters()}
        learning = {id(w) in visual for w in clip_model.network.parameters() if w.requires_grad}
        self._factors = tuple(3 if is_image in learning else 1 for is_image in (True, False))
        self._by_width: dict[int, int] = {}

    def of(self, n_tokens: int) -> int:
        """With texts of that length."""
        if n_tokens not in self._by_width:
            image, text = self.forward(n_tokens)
            self._by_width[n_tokens] = self._factors[0] * image + self._factors[1] * text
        return self._by_width[n_tokens]

    def forward(self, n_tokens: int) -> tuple[int, int]:
        """Of the image tower, and of all the rest."""
        from torch.utils.flop_counter import FlopCounterMode

        is_fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # one operation, which is not counted
        shape = (1, 3, self._size, self._size)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            self._twin(
                torch.empty(shape, dtype=torch.uint8, device="meta"),
                torch.empty((1, n_tokens), dtype=torch.int64, device="meta"),
                torch.empty(1, dtype=torch.int64, device="meta"),
            )
        torch.backends.mha.set_fastpath_enabled(is_fast)
        towers = counter.get_flop_counts()
        image = sum(towers.get(f"{type(self._twin).__name__}.network.visual", {}).values())
        return image, counter.get_total_flops() - image


def card_peak(device: Any) -> float | None:
    """FLOP/s that a card could do in bf16; None where that is not known."""
    return named_peak(torch.cuda.get_device_name(device)) if device.type == "cuda" else None


def named_peak(card: str) -> float | None:
    """
    >>> named_peak("NVIDIA H100 80GB HBM3"), named_peak("NVIDIA RTX A1000")
    (989000000000000.0, None)
    """
    words = re.split(r"[ -]+", card)
    is_slower = bool(_SLOWER & set(words)) and "A100" not in words
    if is_slower or "MIG" in words:
        return None
    return next((PEAKS[word] for word in words if word in PEAKS), None)
