"""Torch backbone: how does a torch network keep the contract?

`TorchBackbone` is what every torch family returns and what users subclass. It sees to eval mode,
device, precision, the fingerprint, memory, and arrays on both sides; the network only has to map
images to vectors.

    class Mine(TorchBackbone):
        def __init__(self, width: int = 64, device: str = "auto", precision: str = "auto") -> None:
            net = torch.nn.Sequential(
                torch.nn.Conv2d(3, width, 8, 8), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
            )
            super().__init__(net, Recipe((224, 224)), device=device, precision=precision)
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fieldmark import devices, draws
from fieldmark.errors import FieldmarkError, ModelError, OutOfMemory, first_line
from fieldmark.models._backbone import Features, Recipe
from fieldmark.models._name import decode_mark, wished
from fieldmark.models._torch import weights as _weights
from fieldmark.models._user import source_hash, test_pictures

if TYPE_CHECKING:
    from PIL import Image


# --- Half precision (bf16, fp16) with weights of that kind: a faster twin of a network on a GPU.
# Autocast converts weights and keeps norms and residuals in float32; a network whose weights are
# of half precision themselves runs 1.2 to 1.6 times as fast (ViT-B/16 on an H200: 10,800 images/s
# against 6,600). Its features must be those of float32 up to rounding, or it is not used: networks
# that mix precisions, or overflow in them, stay with autocast. Compiling it wins 7 % (ViT-B/16) to
# 50 % (ResNet-50) more, and takes a quarter of a minute: done where that pays. Last digits of
# features follow the kernels, as they follow the device.

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
        with devices.arithmetic(few.device):
            self.encode(few, False)
            torch.cuda.synchronize(few.device)
            began = time.perf_counter()
            self.encode(few, False)
            torch.cuda.synchronize(few.device)
        return n_images * ((time.perf_counter() - began) / len(few)) >= WORTH_S

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


# --- the backbone


_TIMED = 16  # images whose forward pass tells whether compiling pays


Encode = Callable[..., tuple[Any, Any]]
"""(module, images n×3×h×w, are patches wanted) → (pooled n×d, patches n×p×w or None), all torch"""


class TorchBackbone:
    """A torch module behind the contract of `Backbone`.

    `preprocess` maps an RGB PIL image to an array or tensor: a `Recipe` (its 8-bit pixels are
    scaled on the device) or any callable that gives what the module takes. `options` is whatever
    else makes this model differ from another with the same weights; it enters the fingerprint. To
    pool by yourself override `encode`.
    """

    wants_full_batches = True
    """the embedder fills the last batch up: kernels, and so last digits, follow the batch's size"""
    load_again: Callable[..., Any] | None = None
    """gives the same model for another `device`, in another process; None where none could"""

    def __init__(
        self,
        module: Any,
        preprocess: Callable[[Image.Image], Any],
        *,
        device: str = "auto",
        precision: str = "auto",
        decode: str = "auto",
        options: Mapping[str, object] | None = None,
        encode: Encode | None = None,
    ) -> None:
        self.name = type(self).__name__
        self.device = devices.choose_device(wished("device", device))
        self.precision = devices.choose_precision(wished("precision", precision), self.device)
        self.preprocess = preprocess
        self._decode = "reference"
        if self._can_read_fast:
            self._decode = devices.choose_decode(wished("decode", decode), self.device)
        self.options = dict(options or {})
        self._encode = encode
        self._code = [source_hash(entry) for entry in (type(self), encode, preprocess)]
        self.module = module.eval().requires_grad_(False).to(self.device)

    @property
    def decode(self) -> str:
        """How its photos are read: reference, cpu or gpu."""
        return self._decode if self._can_read_fast else "reference"

    @property
    def _can_read_fast(self) -> bool:
        """The fast ways know what a `Recipe` does, and nothing of a transform somebody wrote."""
        own_class, ours = type(self), TorchBackbone
        is_ours = (
            own_class.transform is ours.transform and own_class.embed_images is ours.embed_images
        )
        return type(self.preprocess) is Recipe and is_ours

    def encode(self, images: Any, patches: bool) -> tuple[Any, Any]:
        """Images on the device → pooled features and, where they were asked for, patches."""
        if self._encode is not None:
            return self._encode(self.module, images, patches)
        result = self.module(images)
        pooled, tokens = result if isinstance(result, tuple) else (result, None)
        return pooled, tokens

    def _see(self, images: Any, patches: bool) -> tuple[Any, Any]:
        """As `encode`, by the fastest network that gives the same."""
        half = self._half
        if half is None:
            with devices.arithmetic(self.device, self.precision):
                return self.encode(images, patches)
        with devices.arithmetic(self.device):
            return half.encode(images, patches)

    def transform(self, image: Image.Image) -> np.ndarray:
        pixels = self.preprocess(image)
        return pixels.numpy() if torch.is_tensor(pixels) else np.asarray(pixels)

    def embed_images(self, batch: np.ndarray, *, patches: bool = False) -> Features:
        if len(batch) == 0:
            return Features(np.zeros((0, self.dim), np.float32))
        pooled, tokens = self._guarded(lambda: self._see(self._images(batch), patches), len(batch))
        return Features(to_array(pooled), to_array(tokens) if tokens is not None else None)

    def embed_pixels(self, pixels: Any, *, patches: bool = False) -> Any:
        """Pooled features (or patches) of 8-bit pixels that a `Recipe` gave, n × 3 × height ×
        width, float32; they are on the device, and nobody waits for it.
        """
        seen = self._guarded(lambda: self._see(self._scaled(pixels), patches), len(pixels))
        return None if seen[patches] is None else seen[patches].float()

    def _images(self, batch: np.ndarray) -> Any:
        """Stacked results of `transform`, on the device, as the network takes them."""
        images = torch.from_numpy(np.ascontiguousarray(batch)).to(self.device)
        is_recipe = isinstance(self.preprocess, Recipe)
        return self._scaled(images.permute(0, 3, 1, 2)) if is_recipe else images

    def _scaled(self, pixels: Any) -> Any:
        mean, std = self._scaling
        with torch.inference_mode():
            return pixels.float().div_(255).sub_(mean).div_(std).contiguous()

    @cached_property
    def _scaling(self) -> tuple[Any, Any]:
        """Mean and deviation of the colours, on the device."""
        recipe: Any = self.preprocess
        mean, std = (
            torch.tensor(channels, device=self.device).reshape(1, -1, 1, 1)
            for channels in (recipe.mean, recipe.std)
        )
        return mean, std

    @cached_property
    def _half(self) -> HalfNetwork | None:
        """Not for models of the user's: their code may change the module, or mix precisions."""
        is_ours = type(self).__module__.startswith("fieldmark.models.")
        if self.device.type != "cuda" or self.precision == "float32":
            return None
        if not is_ours or self._encode is None:
            return None
        pictures = np.stack([self.transform(picture) for picture in test_pictures()])
        dtype = devices.DTYPES[self.precision]
        return half_network(self.module, self._encode, dtype, self._images(pictures))

    def compile_network(self, n_images: int | None = None) -> None:
        """Compiles the network; given how many images will come, only where that wins more time
        than it takes. Nothing changes where it cannot be compiled.
        """
        half = self._half
        if half is None or half.is_compiled:
            return
        few, many = (self._blank(min(n, self.batch_size)) for n in (_TIMED, self.batch_size))

        def compile_if_worth_it() -> None:
            if n_images is None or half.is_worth_compiling(self._images(few), n_images):
                half.compile(self._images(many))

        with contextlib.suppress(OutOfMemory):  # the embedding itself can use smaller batches
            self._guarded(compile_if_worth_it, len(many))

    @property
    def is_compiled(self) -> bool:
        return self._half is not None and self._half.is_compiled

    def _guarded(self, compute: Callable[[], Any], n_items: int) -> Any:
        self.module.eval()  # whoever holds the module may have changed it
        try:
            return compute()
        except (RuntimeError, MemoryError) as error:
            if not devices.is_out_of_memory(error):
                raise
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        raise OutOfMemory(
            f"model {self.name!r}: {self.device} has too little memory for {n_items} at once: "
            "use a smaller batch, a smaller model or another device."
        )

    @cached_property
    def dim(self) -> int:
        """Measured with one blank image, so that a network that cannot see fails when it is
        loaded.
        """
        try:
            shape = self.embed_images(self._blank(1)).pooled.shape
        except FieldmarkError:
            raise
        except Exception as error:
            raise ModelError(
                f"model {self.name!r} cannot embed an image of its input size: {first_line(error)}."
            ) from error
        if len(shape) != 2:
            raise ModelError(
                f"model {self.name!r} gives shape {shape} for one image, expected (1, dim)."
            )
        return int(shape[1])

    def _blank(self, n_images: int) -> np.ndarray:
        import PIL.Image

        pixels = self.transform(PIL.Image.new("RGB", (256, 256), (128, 128, 128)))
        return np.stack([pixels] * n_images)

    @cached_property
    def fingerprint(self) -> str:
        """Weights, transform, way of reading, options, precision and code of the user's; not the
        device.
        """
        recipe = self.preprocess
        seen = recipe.describe() if isinstance(recipe, Recipe) else self._behaviour()
        half = (self._half.mark,) if self._half is not None else ()
        parts = (sorted(self.options.items()), self.precision, *half, self._code)
        read = decode_mark(self.decode)
        return draws.digest("torch 1", self._weights_hash(), seen, *parts, *read).hex()

    def _weights_hash(self) -> str:
        return _weights.hash_weights(self.module)

    def _behaviour(self) -> str:
        """What an unknown `preprocess` makes of the test pictures: its code cannot always be
        read, its effect can.
        """
        seen = [self.transform(picture) for picture in test_pictures()]
        contents = (hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest() for array in seen)
        return " ".join(
            f"{array.dtype} {array.shape} {content}"
            for array, content in zip(seen, contents, strict=True)
        )

    @cached_property
    def batch_size(self) -> int:
        """How many images to embed at once here; measured on cuda, 16 elsewhere."""
        return devices.fitting_batch(self.device, lambda n: self.embed_images(self._blank(n)))


def to_array(value: Any) -> np.ndarray:
    return np.ascontiguousarray(value.float().cpu().numpy())
