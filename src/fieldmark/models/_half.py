"""Half precision (bf16, fp16) with weights of that kind: a faster twin of a network on a GPU.

Autocast converts weights and keeps norms and residuals in float32; a network whose weights are of
half precision themselves runs 1.2 to 1.6 times as fast (ViT-B/16 on an H200: 10,800 images/s
against 6,600). Its features must be those of float32 up to rounding, or it is not used: networks
that mix precisions, or overflow in them, stay with autocast. Compiling it wins 7 % (ViT-B/16) to
50 % (ResNet-50) more, and takes a quarter of a minute: done where that pays. Last digits of
features follow the kernels, as they follow the device.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from typing import Any

import torch

from fieldmark import devices

ALIKE = 0.9995
"""least cosine between features of the twin and of the float32 network, for each test picture"""
WORTH_S = 200.0
"""a forward time from which compiling pays: it takes about 15 s and wins at least 7 %"""

LOG = logging.getLogger(__name__)


class HalfNetwork:
    """A network with weights of half precision."""

    def __init__(self, module: Any, encode: Callable[..., tuple[Any, Any]], dtype: Any) -> None:
        self._module, self._encode, self._dtype = module, encode, dtype
        self.mark = "weights of half precision"
        self._compiled: Callable[[Any], Any] | None = None

    @property
    def is_compiled(self) -> bool:
        return self._compiled is not None

    def encode(self, images: Any, patches: bool) -> tuple[Any, Any]:
        images = images.to(self._dtype)
        if self._compiled is not None and not patches:
            return self._compiled(images), None
        return self._encode(self._module, images, patches)

    def is_worth_compiling(self, few: Any, n_images: int) -> bool:
        """Whether `n_images` yet to come take so long, going by the time for a few."""
        return n_images * self._seconds_each(few) >= WORTH_S

    def compile(self, images: Any) -> None:
        """From now on for batches of the shape of `images`; what cannot be compiled stays as it
        is.
        """
        compiled = torch.compile(lambda batch: self._encode(self._module, batch, False)[0])
        try:
            with devices.arithmetic(images.device):
                exact = self.encode(images, False)[0]
                fast = compiled(images.to(self._dtype))
        except Exception as error:  # noqa: BLE001 - compilers fail in many ways; nothing is lost
            LOG.info("the network cannot be compiled: %s", error)
            return
        if _least_cosine(exact, fast) >= ALIKE:
            self._compiled = compiled

    def _seconds_each(self, images: Any) -> float:
        with devices.arithmetic(images.device):
            self.encode(images, False)
            torch.cuda.synchronize(images.device)
            began = time.perf_counter()
            self.encode(images, False)
            torch.cuda.synchronize(images.device)
        return (time.perf_counter() - began) / len(images)


def half_network(
    module: Any, encode: Callable[..., tuple[Any, Any]], dtype: Any, images: Any
) -> HalfNetwork | None:
    """The twin of a float32 network; None where it cannot be had, or does not see the same in the
    test pictures.
    """
    try:
        twin = HalfNetwork(copy.deepcopy(module).to(dtype), encode, dtype)
        with devices.arithmetic(images.device):
            exact, fast = encode(module, images, False)[0], twin.encode(images, False)[0]
    except Exception as error:  # noqa: BLE001 - networks fail in many ways; autocast serves them
        LOG.info("the network does not run with weights of half precision: %s", error)
        return None
    return twin if _least_cosine(exact, fast) >= ALIKE else None


def _least_cosine(exact: Any, fast: Any) -> float:
    cosine = torch.nn.functional.cosine_similarity(exact.float(), fast.float(), dim=1)
    return float(cosine.nan_to_num(nan=-1.0).min())
