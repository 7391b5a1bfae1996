"""Work of the embedder: what is handed to a pipeline, what it hands back, where its time went.

A pipeline reads each file once: the bytes that are hashed and checked are those that are decoded.
It tells the sink what a file holds and is told which parts of it are still to be embedded; features
go back to the sink as they come, in any order. Two pipelines keep this contract: threads that
prepare images for any model (`cpu/threads.py`), and the one for CUDA devices (`gpu/`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from fieldmark.errors import ModelError

if TYPE_CHECKING:
    from fieldmark.data import Content, ImageRef
    from fieldmark.models import Backbone


@dataclass(frozen=True, slots=True)
class WantedFile:
    """One file, and the parts of it that are wanted."""

    image: str
    refs: tuple[ImageRef, ...]
    expected: bytes | None = None
    """the key of its content where that is known; None: it is not, and is found on the way"""


class HashedFile(NamedTuple):
    """A file that was read and hashed."""

    wanted: WantedFile
    content: Content
    mark: bytes | None
    """its stamp where that may be relied on later (`fieldmark.data.stamp`)"""


class ImagePart(NamedTuple):
    """A part of a file that is to be embedded, and what its feature is kept under."""

    ref: ImageRef
    key: bytes


class Sink(Protocol):
    """Where results go. All of it may be called from any thread."""

    def read(self, files: Sequence[HashedFile]) -> list[list[ImagePart]]:
        """Files were read: what of each must be embedded? Each part is asked for once.

        Raises when a file is not what was expected.
        """
        ...

    def failed(self, part: ImagePart, reason: str) -> None:
        """The part cannot be decoded."""
        ...

    def keep(self, parts: Sequence[ImagePart], features_nd: np.ndarray) -> None:
        """When this returns, a kill no longer loses these rows."""
        ...


def check_finite(model: str, parts: Sequence[ImagePart], features_nd: np.ndarray) -> None:
    """Refuses features that are no numbers."""
    is_bad = ~np.isfinite(features_nd).all(axis=1)
    if is_bad.any():
        raise ModelError(
            f"model {model!r} gave NaN or infinity for {int(is_bad.sum())} of {len(parts)} "
            f"images (first: {parts[int(is_bad.argmax())].ref.image}): check its weights, or try "
            "--precision float32."
        )


def decode_of(model: Backbone) -> str:
    """How photos are read for a model: reference, cpu or gpu; those that do not say have a
    transform of their own.
    """
    decode = getattr(model, "decode", "")
    return decode if decode in ("cpu", "gpu") else "reference"


def noted_decode(model: Backbone) -> str:
    """How the photos were read that its features were made of, here or elsewhere."""
    return str(getattr(model, "kept_decode", "")) or decode_of(model)


def n_parameters_of(model: object) -> int:
    """Weights of its network; 0 where it has none or does not say."""
    count = getattr(model, "n_parameters", None)
    if isinstance(count, int):
        return count
    module = getattr(model, "module", None)
    return sum(weight.numel() for weight in module.parameters()) if module is not None else 0


@dataclass(frozen=True, slots=True)
class Throughput:
    """How fast images were embedded, and where the time went."""

    n_computed: int = 0
    seconds: float = 0.0
    decode: str = "reference"
    """reference, cpu or gpu"""
    n_fallback: int = 0
    """images that the fast decoder does not take, decoded as the reference is"""
    busy_s: Mapping[str, float] = field(default_factory=dict)
    """seconds of work by part (read, decode, forward, write), summed over threads and processes:
    together they may exceed the time on the clock"""
    device_busy: float | None = None
    """share of the time in which the device was computing; None where that is not measured"""
    n_devices: int = 1
    is_compiled: bool = False
    batch_size: int = 0

    @property
    def images_per_s(self) -> float:
        return self.n_computed / self.seconds if self.seconds else 0.0


def add_throughputs(parts: Sequence[Throughput]) -> Throughput:
    """The throughput of all parts together, done one after the other."""
    busy: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.busy_s.items():
            busy[name] = busy.get(name, 0.0) + seconds
    measured = [part for part in parts if part.device_busy is not None]
    clock = sum(part.seconds for part in measured)
    device = sum((part.device_busy or 0.0) * part.seconds for part in measured)
    last = next((part for part in reversed(parts) if part.n_computed), Throughput())
    return replace(
        last,
        n_computed=sum(part.n_computed for part in parts),
        seconds=sum(part.seconds for part in parts),
        n_fallback=sum(part.n_fallback for part in parts),
        busy_s=busy,
        device_busy=device / clock if clock else None,
        n_devices=max((part.n_devices for part in parts), default=1),
    )
