"""torchvision: the classification networks of `torchvision.models`, their classifier removed.

    torchvision/ARCHITECTURE        the default weights: torchvision/resnet50
    torchvision/ARCHITECTURE/TAG    others of its weights: torchvision/resnet50/IMAGENET1K_V1

Features are what the last layer would have seen. Licences: torchvision's own weights are published
under its BSD licence where timm's mirror of them says so; for the others the weights' page says
nothing certain. https://pytorch.org/vision/stable/models.html
"""

from __future__ import annotations

from typing import Any

from fieldmark.errors import UnknownName
from fieldmark.models._backbone import Backbone, Recipe, checkpoint_table
from fieldmark.models._name import ModelRequest, need_package
from fieldmark.models._user import library_version

VERSION = 1
LIBRARY = "torchvision"

OPTIONS = {
    "pretrained": "false: random weights, always the same for a name",
    "weights": "a file with a state_dict for exactly this architecture (safetensors or torch)",
    "size": "input pixels, where the network takes another size",
}

CHECKPOINTS = checkpoint_table(
    """
    resnet18 | 11176512 | 224 | bsd-3-clause | | ResNet-18
    resnet34 | 21284672 | 224 | bsd-3-clause | | ResNet-34
    resnet50 | 23508032 | 224 | bsd-3-clause | | ResNet-50
    resnet101 | 42500160 | 224 | bsd-3-clause | | ResNet-101
    wide_resnet50_2 | 66834240 | 224 | bsd-3-clause | | Wide ResNet-50-2
    vgg16 | 134260544 | 224 | bsd-3-clause | | VGG-16
    densenet121 | 6953856 | 224 | | | DenseNet-121
    mobilenet_v3_large | 4202032 | 224 | | | MobileNet V3 L
    efficientnet_b0 | 4007548 | 224 | | | EfficientNet B0
    efficientnet_v2_s | 20177488 | 384 | | | EfficientNet V2-S
    convnext_tiny | 27820128 | 224 | | | ConvNeXt-T
    convnext_base | 87566464 | 224 | | | ConvNeXt-B
    swin_t | 27519354 | 224 | | | Swin-T
    swin_b | 86743224 | 224 | | | Swin-B
    swin_v2_b | 86905848 | 256 | | | Swin V2-B
    vit_b_16 | 85798656 | 224 | | | ViT-B/16
    vit_b_32 | 87455232 | 224 | | | ViT-B/32
    vit_l_16 | 303301632 | 224 | | | ViT-L/16
    """,
    "https://pytorch.org/vision/stable/models.html",
)


def load(request: ModelRequest) -> Backbone:
    models = need_package(request, "torchvision").models
    from fieldmark.models._torch.backbone import TorchBackbone

    architecture, _, tag = request.checkpoint.partition("/")
    architectures = models.list_models(module=models)
    if architecture not in architectures:
        names = [f"torchvision/{name}" for name in architectures]
        raise UnknownName("model", request.name.base, names, "fieldmark models torchvision")
    weights = _weights(models, request, architecture, tag)
    model = _build(models, request, architecture, weights)
    return TorchBackbone(
        model,
        _recipe(weights.transforms(), request.pixels()),
        device=request.device,
        precision=request.precision,
        options={"family": "torchvision", "code": VERSION, "library": library_version(LIBRARY)},
    )


def _weights(models: Any, request: ModelRequest, architecture: str, tag: str) -> Any:
    """The member of torchvision's weights enumeration that a name means; it also knows the
    transform.
    """
    kinds = models.get_model_weights(architecture)
    if not tag:
        return kinds.DEFAULT
    if tag not in kinds.__members__:
        names = [f"torchvision/{architecture}/{name}" for name in kinds.__members__]
        raise UnknownName("model", request.name.base, names, "fieldmark models torchvision")
    return kinds[tag]


def _build(models: Any, request: ModelRequest, architecture: str, weights: Any) -> Any:
    from fieldmark.models._torch.weights import fit_weights, read_weights, seeded, url_file

    path, size = request.path("weights"), request.pixels()
    is_fetched = request.flag("pretrained", True) and path is None
    if is_fetched:
        url_file(request, weights.url)  # torchvision then finds it in torch's cache and asks nobody
    arguments = {"image_size": size} if size and architecture.startswith("vit_") else {}
    try:
        with seeded("torchvision", architecture):
            model = models.get_model(
                architecture, weights=weights if is_fetched else None, **arguments
            )
    except (ValueError, TypeError) as error:
        raise request.says("torchvision", error) from error
    if path is not None:
        fit_weights(model, read_weights(path), path)
    _remove_head(model, len(weights.meta["categories"]))
    return model


def _remove_head(model: Any, n_classes: int) -> None:
    """Replaces the last layer that has an output per class; its name differs from network to
    network.
    """
    from torch import nn

    def n_outputs(layer: Any) -> int:
        if isinstance(layer, nn.Linear):
            return int(layer.out_features)
        return int(layer.out_channels) if isinstance(layer, nn.Conv2d) else 0

    heads = [name for name, layer in model.named_modules() if n_outputs(layer) == n_classes]
    parent, _, attribute = heads[-1].rpartition(".")
    setattr(model.get_submodule(parent), attribute, nn.Identity())


def _recipe(preset: Any, size: int | None) -> Recipe:
    crop, resize = preset.crop_size[0], preset.resize_size[0]
    if size:
        crop, resize = size, round(size * resize / crop)
    return Recipe(
        size=(crop, crop),
        resize=(resize, resize),
        interpolation=preset.interpolation.value,
        mean=tuple(preset.mean),
        std=tuple(preset.std),
    )
