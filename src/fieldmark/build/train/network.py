"""CLIP dual encoder for training: which weights does it start from, and what does it compute?

An open_clip network with its image projector and logit scale taken out: instead there is one of
each for every kind of text (named projectors on one pooled feature, as in BioCAP and BioCLIP 2),
started from those of the network. Nothing here knows of losses, optimisers or processes.
https://arxiv.org/abs/2510.20095  https://arxiv.org/abs/2505.23883
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from fieldmark.build.train.layers import pool_in_last_block, simplify_attention, simplify_patches
from fieldmark.build.train.losses import LOSSES
from fieldmark.build.train.recipe import ModelRecipe
from fieldmark.errors import MissingExtra, ModelError, first_line
from fieldmark.models._name import ModelRequest, need_package, parse_name
from fieldmark.models._torch.weights import INSTEAD
from fieldmark.models.open_clip import PROJECTORS, read_network, read_tokeniser

ARCHITECTURES = Path(__file__).parent / "architectures"
RANDOM = "random"
LARGEST_SCALE = math.log(100)
"""CLIP's bound of the logit scale"""


def network_request(model: ModelRecipe, is_loaded: bool = False) -> ModelRequest:
    """The network by a model name as `fieldmark run --model NAME` takes it. `is_loaded`: without
    its weights, but with the activation and the colours that belong to them.

    >>> network_request(ModelRecipe(architecture="ViT-B-16", init="openai")).name.text
    'open-clip/ViT-B-16/openai'
    """
    architecture = model.architecture
    if architecture.endswith(".json"):
        architecture = Path(architecture).stem
    options = ["pretrained=false"] if is_loaded or model.init == RANDOM else []
    options += [f"size={model.image_size}"] if model.image_size else []
    if model.init.startswith(("local-dir:", "hf-hub:")):
        checkpoint_name = model.init
    elif model.init == RANDOM or (is_loaded and not _is_tag(architecture, model.init)):
        checkpoint_name = architecture
    else:
        checkpoint_name = f"{architecture}/{model.init}"
    text = f"open-clip/{checkpoint_name}" + ("?" + "&".join(options) if options else "")
    return ModelRequest(parse_name(text), device="cpu", precision="float32")


def _is_tag(architecture: str, init: str) -> bool:
    """Weights that open_clip knows by this name; otherwise it is a file, which may be gone."""
    library = need_package(ModelRequest(parse_name("open-clip/any")), "open_clip")
    return bool(library.get_pretrained_cfg(architecture, init))


def add_architectures(architecture: str = "") -> None:
    """Makes open_clip know those that are shipped here, and one in a JSON file."""
    library = need_package(ModelRequest(parse_name("open-clip/any")), "open_clip")
    listed = library.list_models()
    if any(file.stem not in listed for file in ARCHITECTURES.glob("*.json")):
        library.add_model_config(ARCHITECTURES)
    if architecture.endswith(".json"):
        library.add_model_config(_checked(Path(architecture)))


def _checked(path: Path) -> Path:
    try:
        keys = set(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{path}  cannot be read as JSON: {first_line(error)}.") from error
    if lacking := {"embed_dim", "vision_cfg", "text_cfg"} - keys:
        raise ModelError(
            f"{path}  lacks {min(lacking)}: expected a configuration as in open_clip's "
            "model_configs, with embed_dim, vision_cfg and text_cfg."
        )
    return path


@dataclass
class TextTokeniser:
    """Texts → token numbers. Its files are read at the first call."""

    model: ModelRecipe
    can_trim: bool
    """rows that are cut behind their end give the same features"""
    end: int | None = None
    """token at which the text tower pools; None: the one with the highest number"""
    _built: Any = field(default=None, repr=False, compare=False)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """n texts → int64 (n, context); cut where too long."""
        (tokens,) = self._tokeniser().encode(list(texts)).values()
        return torch.as_tensor(tokens, dtype=torch.int64)

    def save(self, folder: Path) -> None:
        """Writes its files where it has any: those of the Hugging Face hub, unlike CLIP's own."""
        if (write := self._tokeniser().save) is not None:
            write(folder)

    def _tokeniser(self) -> Any:
        if self._built is None:
            add_architectures(self.model.architecture)
            self._built = read_tokeniser(network_request(self.model, is_loaded=True))
        return self._built


class ClipTrainingModel(nn.Module):  # type: ignore[misc]
    """Both towers, and a projector with a logit scale for every kind of text."""

    projections: nn.Parameter | None
    """projectors × width × dim; None: the network keeps its own (timm, ResNet)"""
    biases: nn.Parameter | None

    def __init__(
        self, network: Any, projector_names: Sequence[str], config: dict[str, Any], tokenise: Any
    ) -> None:
        """Takes the projector, scale and bias out of `network`."""
        super().__init__()
        self.projector_names, self.config, self.tokenise = tuple(projector_names), config, tokenise
        n, visual = len(self.projector_names), network.visual
        projector = getattr(visual, "proj", None)
        self.projections = None
        if isinstance(projector, nn.Parameter):
            self.projections = nn.Parameter(projector.detach().float().expand(n, -1, -1).clone())
            visual.proj = None
        self.scales = nn.Parameter(network.logit_scale.detach().float().reshape(1).repeat(n))
        bias = network.logit_bias
        self.biases = nn.Parameter(bias.detach().reshape(1).repeat(n)) if bias is not None else None
        self.logit_shape = tuple(network.logit_scale.shape)
        network.logit_scale = network.logit_bias = None
        self.network = network
        mean, std = (torch.tensor(config["preprocess_cfg"][key]) for key in ("mean", "std"))
        self.register_buffer("pixel_gain", (1 / (255 * std)).view(3, 1, 1), persistent=False)
        self.register_buffer("pixel_shift", (-mean / std).view(3, 1, 1), persistent=False)
        self.largest_scale: Tensor
        self.register_buffer("largest_scale", torch.tensor(LARGEST_SCALE))

    @property
    def image_size(self) -> int:
        """Pixels of a side."""
        size = self.config["preprocess_cfg"]["size"]
        return int(size if isinstance(size, int) else size[0])

    def forward(self, images: Tensor, tokens: Tensor, projectors: Tensor) -> tuple[Tensor, Tensor]:
        """Features of images (uint8, n × 3 × size × size) and texts, both n × dim, of length 1, in
        float32; an image goes through the projector (its number) of its text.

        All projections are computed, so that every parameter takes part in every batch.
        """
        pixels = images.float() * self.pixel_gain + self.pixel_shift
        pooled = self.network.visual(pixels)
        if self.projections is not None:
            pooled = torch.einsum("nw,pwd->npd", pooled, self.projections)
            pooled = pooled[torch.arange(len(pooled), device=pooled.device), projectors]
        texts = self._read(tokens)
        return functional.normalize(pooled.float(), dim=-1), functional.normalize(
            texts.float(), dim=-1
        )

    def _read(self, tokens: Tensor) -> Tensor:
        """As open_clip's text tower, which demands the full length."""
        if not self.tokenise.can_trim:
            return self.network.encode_text(tokens)
        tower, n = getattr(self.network, "text", self.network), tokens.shape[1]
        x = tower.token_embedding(tokens) + tower.positional_embedding[:n]
        x = tower.ln_final(tower.transformer(x, attn_mask=tower.attn_mask[:n, :n]))
        end = self.tokenise.end
        position = (tokens if end is None else (tokens == end).int()).argmax(dim=-1)
        x = x[torch.arange(len(x), device=x.device), position]
        project = tower.text_projection
        if project is None:
            return x
        return project(x) if isinstance(project, nn.Linear) else x @ project

    def clamp_scales(self) -> None:
        """After every update: a scale stays between 1 and 100, or what it started from."""
        scales: Any = self.scales
        with torch.no_grad():
            local = scales.to_local() if hasattr(scales, "to_local") else scales  # FSDP: its shard
            local.clamp_(torch.zeros_like(self.largest_scale), self.largest_scale)


def make_clip_model(
    model: ModelRecipe, loss_kind: str, seed: int, is_loaded: bool = False
) -> ClipTrainingModel:
    """The network of a recipe with its first weights, on the CPU.

    `is_loaded`: a checkpoint follows, so `model.init` is not read: its file may be gone, the hub
    out of reach.
    """
    add_architectures(model.architecture)
    request = network_request(model, is_loaded)
    try:
        network, second, config = read_network(request, str(seed))
    except MissingExtra:
        raise
    except ModelError as error:
        instead = 'give a file or "local-dir:FOLDER" in model.init, or "random"'
        raise ModelError(str(error).replace(INSTEAD, instead)) from error
    if hasattr(network, "text_decoder"):
        raise ModelError(
            f"model {request.name.text!r}: CoCa models also write text and cannot be trained "
            f"here: set model.architecture to a CLIP network, such as ViT-L-14."
        )
    tokenise = TextTokeniser(model, *_pooling(network))
    start = LOSSES.get(loss_kind).LOSS.start
    has_scales = model.init != RANDOM and (network.logit_bias is not None or start is None)
    clip_model = ClipTrainingModel(network, model.projectors, config, tokenise)
    if clip_model.projections is None and len(model.projectors) > 1:
        raise ModelError(
            f"model {request.name.text!r}: this image tower has no projector of its own, so it "
            f"cannot have {len(model.projectors)}: model.projectors takes one name."
        )
    if second is not None and PROJECTORS[1] in model.projectors:
        _start_from(clip_model, model.projectors.index(PROJECTORS[1]), second)
    _start_scales(clip_model, start, has_scales)
    _lock(clip_model, model)
    image, text = towers(clip_model)
    simplify_attention([*image, *(text if tokenise.can_trim else ())])
    simplify_patches(getattr(network.visual, "conv1", None))
    pool_in_last_block(network.visual)
    clip_model.float()
    return clip_model


def _pooling(network: Any) -> tuple[bool, int | None]:
    """Can texts be cut behind their last token, and at which token does the tower pool?

    A causal tower that pools at the end of the text never looks at what follows.
    """
    tower = getattr(network, "text", network)
    kind = getattr(tower, "pool_type", getattr(tower, "text_pool_type", ""))
    is_plain = hasattr(tower, "token_embedding") and getattr(tower, "cls_emb", None) is None
    is_causal = getattr(tower, "attn_mask", None) is not None
    can_trim = is_plain and is_causal and kind in ("argmax", "eos")
    end = getattr(tower, "eos_id", getattr(tower, "text_eos_id", None)) if kind == "eos" else None
    return can_trim, end


def _start_from(clip_model: ClipTrainingModel, number: int, second: Any) -> None:
    """A projector that the weights already have beside the network's own (`Projection`)."""
    assert clip_model.projections is not None
    clip_model.projections.data[number] = second.matrix
    clip_model.scales.data[number] = math.log(second.logit_scale)
    if clip_model.biases is not None and second.logit_bias is not None:
        clip_model.biases.data[number] = second.logit_bias


def _start_scales(
    clip_model: ClipTrainingModel, start: tuple[float, float] | None, is_kept: bool
) -> None:
    """`start`: the loss's scale and bias; `is_kept`: the weights were trained with this loss or one
    like it, and have theirs.
    """
    if start is None and clip_model.biases is not None:
        clip_model.biases.requires_grad_(False)  # a softmax is blind to it
    elif start is not None and not is_kept:
        clip_model.scales.data.fill_(start[0])
        clip_model.biases = nn.Parameter(torch.full_like(clip_model.scales, start[1]))
    clip_model.largest_scale.clamp_(min=float(clip_model.scales.detach().max()))


def _lock(clip_model: ClipTrainingModel, model: ModelRecipe) -> None:
    """Locked-image (or locked-text) tuning: https://arxiv.org/abs/2111.07991. Image projectors
    learn on, where they are parts of their own: without them there would be nothing of its own in a
    kind of text.
    """
    if model.lock_image and model.lock_text and clip_model.projections is None:
        raise ModelError(
            "model.lock_image and model.lock_text are both true, but this image tower has no "
            "projector of its own, so that nothing would learn: lock one of them."
        )
    network = clip_model.network
    if model.lock_image:
        network.lock_image_tower(freeze_bn_stats=True)
    if model.lock_text:
        for name, weight in network.named_parameters():
            if not name.startswith("visual."):
                weight.requires_grad_(False)


def towers(clip_model: ClipTrainingModel) -> list[list[nn.Module]]:
    """The residual blocks of both towers, image first; empty for a tower without such blocks."""
    visual, text = (
        clip_model.network.visual,
        getattr(clip_model.network, "text", clip_model.network),
    )
    image = getattr(visual, "trunk", None)
    lists = (
        getattr(image, "blocks", None) if image is not None else _resblocks(visual),
        _resblocks(text),
    )
    return [
        list(blocks) if isinstance(blocks, nn.ModuleList | nn.Sequential) else []
        for blocks in lists
    ]


def _resblocks(tower: Any) -> Any:
    return getattr(getattr(tower, "transformer", None), "resblocks", None)


def random_modules(clip_model: ClipTrainingModel) -> list[str]:
    """Names of modules that give something else when the same rows are computed again, or in other
    batches: dropout of any kind and batch normalisation. A gradient cache is wrong with them.
    """
    return [name for name, module in clip_model.named_modules() if _is_random(module)]


def _is_random(module: Any) -> bool:
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return True
    # torch's dropout and attention; DropPath of timm; PatchDropout of open_clip and timm
    keys = ["p"] if isinstance(module, nn.modules.dropout._DropoutNd) else []
    shares = (getattr(module, key, 0) for key in [*keys, "dropout", "drop_prob", "prob"])
    return any(isinstance(share, int | float) and share > 0 for share in shares)


def recompute_blocks(clip_model: ClipTrainingModel, share: float) -> None:
    """Activation checkpointing: a share of the blocks of each tower, the first ones, keeps no
    activations and computes them again for the gradient.

    The names of weights stay as they are. Before compilation and before the blocks are sharded.
    """
    for blocks in towers(clip_model):
        for block in blocks[: math.ceil(share * len(blocks))]:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)


class WeightAverage:
    """Exponential moving average of the weights that learn, in float32, beside them.

    Made after the weights are on their device and, with FSDP, sharded: then it is sharded too.
    """

    def __init__(self, clip_model: ClipTrainingModel, decay: float) -> None:
        self.decay, self._clip_model = decay, clip_model
        self.weights = {name: weight.detach().float().clone() for name, weight in self._learning()}

    def _learning(self) -> Iterator[tuple[str, Tensor]]:
        return ((n, w) for n, w in self._clip_model.named_parameters() if w.requires_grad)

    def update(self, step: int | None = None) -> None:
        """Once per step (from 0), after the update and the clamping.

        Early steps decay faster, so that the first weights are forgotten soon: as TensorFlow's
        ExponentialMovingAverage with num_updates. None: no such warm-up.
        """
        decay = self.decay if step is None else min(self.decay, (1 + step) / (10 + step))
        now = [weight.detach().float() for _, weight in self._learning()]
        torch._foreach_lerp_(list(self.weights.values()), now, 1 - decay)


# --- Model FLOPs utilisation (MFU): which share of what the GPUs could do goes into the network?
# Operations are counted from their shapes, on a copy of the network without any weights;
# activations that are computed again do not count. PaLM, appendix B:
# https://arxiv.org/abs/2204.02311

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
