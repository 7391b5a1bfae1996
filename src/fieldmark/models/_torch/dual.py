"""Dual encoder (CLIP-style, two towers): how does a torch network embed texts beside images?

`TorchDual` is what every torch family with a text tower returns. Texts are padded to the tower's
full length and batches to their full size, so that the same kernels see a text whatever comes with
it. A network may have several visual projectors (BioCAP: Zhang et al. 2025, arXiv 2510.20095): one
matrix and one logit scale for each kind of text, on one pooled feature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmark import devices, draws
from fieldmark.errors import UsageError, meant
from fieldmark.models._torch import weights as _weights
from fieldmark.models._torch.backbone import Encode, TorchBackbone, to_array
from fieldmark.models._user import TEST_TEXTS, source_hash

if TYPE_CHECKING:
    from PIL import Image

TEXT_BATCH = {"cpu": 16}
"""texts embedded at once, by the kind of device"""
OTHER_TEXT_BATCH = 256


@dataclass(frozen=True, slots=True)
class Tokeniser:
    """How texts become what a text tower takes."""

    limit: int
    """tokens the tower reads, special ones included"""
    encode: Callable[[list[str]], Mapping[str, Any]]
    """n texts → tensors (n × limit) by the name that the tower gives them: padded, cut where too
    long
    """
    count: Callable[[list[str]], list[int]]
    """tokens that each text needs uncut, special ones included"""
    save: Callable[[Path], object] | None = None
    """writes its files into a folder; None: it has none of its own"""


@dataclass(frozen=True, slots=True)
class Projection:
    """Another projector of an image tower."""

    matrix: Any
    """torch, width of the pooled feature × dim"""
    logit_scale: float
    """already exponentiated"""
    logit_bias: float | None = None


@dataclass(frozen=True, slots=True)
class TextTower:
    """The part of a network that embeds texts."""

    make_tokeniser: Callable[[], Tokeniser]
    """called on first use: it may need files"""
    encode: Callable[[Any, Mapping[str, Any]], Any]
    """(module, a tokeniser's tensors) → features n × dim"""
    is_weight: Callable[[str], bool]
    """is a weight of that name part of it?"""
    is_image_weight: Callable[[str], bool] = bool
    """which names count for the fingerprint of images"""
    options: Mapping[str, object] = field(default_factory=dict)
    """whatever else makes its features differ from another's with the same weights"""


class TorchDual(TorchBackbone):
    """A `TorchBackbone` that also embeds texts.

    `projections` holds the visual projectors by name where there are several; None stands for the
    network's own. `encode` then takes a matrix as `projection=`. `logits` is scale and bias where
    they are not the network's own.
    """

    def __init__(
        self,
        module: Any,
        preprocess: Callable[[Image.Image], Any],
        *,
        tower: TextTower,
        encode: Encode,
        projections: Mapping[str, Projection | None] | None = None,
        logits: tuple[float, float | None] | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(module, preprocess, encode=encode, **rest)
        self.tower = tower
        self._logits = logits
        self.projectors = tuple(projections or ())
        self._projections = dict(projections or {})
        self._twins: dict[str, TorchDual] = {}
        self._text_code = [source_hash(entry) for entry in (tower.make_tokeniser, tower.encode)]

    @cached_property
    def tokeniser(self) -> Tokeniser:
        return self.tower.make_tokeniser()

    @property
    def logit_scale(self) -> float:
        if self._logits:
            return self._logits[0]
        if hasattr(self.module, "logit_scale"):
            return float(self.module.logit_scale.exp())
        return 1 / float(self.module.temperature)  # ALIGN divides

    @property
    def logit_bias(self) -> float | None:
        if self._logits:
            return self._logits[1]
        bias = getattr(self.module, "logit_bias", None)
        return None if bias is None else float(bias)

    @property
    def text_limit(self) -> int:
        return self.tokeniser.limit

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.tokeniser.count(list(texts)) if texts else []

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        size = TEXT_BATCH.get(self.device.type, OTHER_TEXT_BATCH)
        parts = [np.zeros((0, self.dim), np.float32)]
        for start in range(0, len(texts), size):
            batch = list(texts[start : start + size])
            filled = batch + [""] * (size - len(batch))
            parts.append(self._embed_batch(filled)[: len(batch)])
        return np.concatenate(parts)

    def _embed_batch(self, texts: list[str]) -> np.ndarray:
        tokens = {
            name: tensor.to(self.device) for name, tensor in self.tokeniser.encode(texts).items()
        }
        with devices.arithmetic(self.device, self.precision):
            return to_array(
                self._guarded(lambda: self.tower.encode(self.module, tokens), len(texts))
            )

    @cached_property
    def text_fingerprint(self) -> str:
        """The text tower's weights, what the tokeniser makes of the test texts, options, precision
        and code of the user's.
        """
        tokens = self.tokeniser.encode(list(TEST_TEXTS))
        seen = [
            (name, tuple(tensor.shape), hashlib.blake2b(tensor.numpy().tobytes()).hexdigest())
            for name, tensor in sorted(tokens.items())
        ]
        return draws.digest(
            "text 1",
            _weights.hash_weights(self.module, self.tower.is_weight),
            seen,
            self.count_tokens(TEST_TEXTS),
            self.text_limit,
            sorted(self.tower.options.items()),
            self.precision,
            self._text_code,
        ).hex()

    def _weights_hash(self) -> str:
        return _weights.hash_weights(self.module, self.tower.is_image_weight)

    def projected(self, projector: str) -> TorchDual:
        """The same network with that projector; it is the model itself for its own."""
        if projector not in self._projections:
            has = ", ".join(self.projectors) or "one projector only"
            hint = meant(projector, self.projectors)
            raise UsageError(f"model {self.name!r} has no projector {projector!r}: {has}.{hint}")
        projection = self._projections[projector]
        if projection is None:
            return self
        if projector not in self._twins:
            self._twins[projector] = self._twin(projector, projection)
        return self._twins[projector]

    def _twin(self, projector: str, projection: Projection) -> TorchDual:
        """Network and texts are shared."""
        assert self._encode is not None
        matrix = projection.matrix.to(self.device)
        content = hashlib.blake2b(to_array(matrix).tobytes(), digest_size=16).hexdigest()
        twin = TorchDual(
            self.module,
            self.preprocess,
            tower=replace(self.tower, make_tokeniser=lambda: self.tokeniser),
            encode=partial(self._encode, projection=matrix),
            logits=(projection.logit_scale, projection.logit_bias),
            device=str(self.device),
            precision=self.precision,
            decode=self.decode,
            options={**self.options, "projector": content},
        )
        twin.name = f"{self.name}{'&' if '?' in self.name else '?'}projector={projector}"
        if self.load_again is not None:
            twin.load_again = partial(_load_projected, self.load_again, projector)
        return twin


def _load_projected(load: Callable[..., TorchDual], projector: str, device: str) -> TorchDual:
    return load(device=device).projected(projector)
