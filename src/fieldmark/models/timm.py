"""timm: any image network of pytorch-image-models, convolutional or transformer.

    timm/ARCHITECTURE.TAG           weights from the hub: timm/resnet50.a1_in1k
    timm/hf-hub:ORG/NAME            published elsewhere: timm/hf-hub:BVRA/MegaDescriptor-L-384
    timm/local-dir:PATH             the same as a folder on disk

Features are what the classifier would have seen (`forward_head(pre_logits=True)`). Networks
without a fixed input size are used at the test size of their weights.
https://github.com/huggingface/pytorch-image-models
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from fieldmark.errors import ModelError, UnknownName
from fieldmark.models._backbone import Backbone, Recipe, checkpoint_table
from fieldmark.models._name import ModelRequest, need_package
from fieldmark.models._user import library_version

VERSION = 1
LIBRARY = "timm"

OPTIONS = {
    "pretrained": "false: random weights, always the same for a name",
    "weights": "a file with a state_dict for exactly this architecture (safetensors or torch)",
    "size": "input pixels, where the network takes another size",
    "pool": "cls, mean or max over tokens or the feature map; else the network's own pooling",
}

_PAGE = "https://huggingface.co/timm/{name}"

CHECKPOINTS = (
    *checkpoint_table(
        """
        resnet18.a1_in1k | 11176512 | 288 | | | ResNet-18 a1
        resnet18d.ra2_in1k | 11195744 | 288 | | | ResNet-18d
        resnet50.a1_in1k | 23508032 | 288 | | | ResNet-50 a1
        resnet50d.a1_in1k | 23527264 | 288 | | | ResNet-50d a1
        convnext_tiny.in12k | 27820128 | 224 | | | ConvNeXt-T IN12K
        convnext_tiny.in12k_ft_in1k | 27820128 | 288 | | | ConvNeXt-T IN12K, IN1K
        convnext_base.fb_in22k | 87566464 | 224 | | | ConvNeXt-B IN22K
        convnext_large.fb_in22k | 196230336 | 224 | | | ConvNeXt-L IN22K
        efficientnet_b0.ra_in1k | 4007548 | 224 | | | EfficientNet B0
        efficientnet_b3.ra2_in1k | 10696232 | 320 | | | EfficientNet B3
        mobilenetv2_100.ra_in1k | 2223872 | 224 | | | MobileNet V2
        mobilenetv3_large_100.ra_in1k | 4202032 | 224 | | | MobileNet V3 L
        vit_base_patch16_224.augreg2_in21k_ft_in1k | 85798656 | 224 | | | ViT-B/16 IN21K, IN1K
        vit_base_patch16_224.augreg_in21k | 85798656 | 224 | | | ViT-B/16 IN21K
        vit_large_patch16_224.augreg_in21k | 303301632 | 224 | | | ViT-L/16 IN21K
        vit_base_patch16_224.dino | 85798656 | 224 | | | DINO ViT-B/16
        vit_small_patch14_dinov2.lvd142m | 22056192 | 518 | | | DINOv2 ViT-S/14
        vit_base_patch14_dinov2.lvd142m | 86579712 | 518 | | | DINOv2 ViT-B/14
        vit_large_patch14_dinov2.lvd142m | 304367616 | 518 | | | DINOv2 ViT-L/14
        vit_giant_patch14_dinov2.lvd142m | 1136479232 | 518 | | | DINOv2 ViT-g/14
        """,
        _PAGE,
        licence="apache-2.0",
    ),
    *checkpoint_table(
        """
        convnextv2_base.fcmae_ft_in22k_in1k | 87692800 | 288 | | | ConvNeXt V2-B IN22K, IN1K
        vit_base_patch16_224.mae | 85798656 | 224 | | | MAE ViT-B/16
        vit_large_patch16_224.mae | 303301632 | 224 | | | MAE ViT-L/16
        vit_huge_patch14_gap_224.in1k_ijepa | 630762240 | 224 | | | I-JEPA ViT-H/14
        """,
        _PAGE,
        licence="cc-by-nc-4.0",
    ),
    *checkpoint_table(
        """
        swin_tiny_patch4_window7_224.ms_in1k | 27519354 | 224 | | | Swin-T IN1K
        swin_base_patch4_window7_224.ms_in22k | 86743224 | 224 | | | Swin-B IN22K
        swin_large_patch4_window12_384.ms_in22k | 195198516 | 384 | | | Swin-L IN22K
        swinv2_base_window12_192.ms_in22k | 86893816 | 192 | | | Swin V2-B IN22K
        eva02_large_patch14_224.mim_m38m | 303268800 | 224 | | | EVA-02 ViT-L/14
        """,
        _PAGE,
        licence="mit",
    ),
    *checkpoint_table(
        """
        vit_small_patch14_reg4_dinov2.lvd142m | 22057344 | 518 | | | DINOv2-reg ViT-S/14
        vit_base_patch14_reg4_dinov2.lvd142m | 86582016 | 518 | | | DINOv2-reg ViT-B/14
        vit_large_patch14_reg4_dinov2.lvd142m | 304370688 | 518 | | | DINOv2-reg ViT-L/14
        vit_giant_patch14_reg4_dinov2.lvd142m | 1136483840 | 518 | | | DINOv2-reg ViT-g/14
        """,
        _PAGE,
        licence="apache-2.0",
        released="2024-04",
    ),
    *checkpoint_table(
        """
        vit_small_patch16_dinov3.lvd1689m | 21586944 | 256 | | | DINOv3 ViT-S/16
        vit_base_patch16_dinov3.lvd1689m | 85641216 | 256 | | | DINOv3 ViT-B/16
        vit_large_patch16_dinov3.lvd1689m | 303079424 | 256 | | | DINOv3 ViT-L/16
        vit_huge_plus_patch16_dinov3.lvd1689m | 840509440 | 256 | | | DINOv3 ViT-H+/16
        convnext_tiny.dinov3_lvd1689m | 27820128 | 224 | | | DINOv3 ConvNeXt-T
        convnext_base.dinov3_lvd1689m | 87566464 | 224 | | | DINOv3 ConvNeXt-B
        """,
        _PAGE,
        licence="dinov3-license",
        released="2025-08",
    ),
    *checkpoint_table(
        """
        vit_pe_spatial_tiny_patch16_512.fb | 5683200 | 512 | | | PE Spatial ViT-T/16
        vit_pe_spatial_small_patch16_512.fb | 21983232 | 512 | | | PE Spatial ViT-S/16
        vit_pe_spatial_base_patch16_512.fb | 86433792 | 512 | | | PE Spatial ViT-B/16
        vit_pe_spatial_large_patch14_448.fb | 303964160 | 448 | | | PE Spatial ViT-L/14
        vit_pe_spatial_gigantic_patch14_448.fb | 1851887104 | 448 | | | PE Spatial ViT-G/14
        """,
        _PAGE,
        licence="apache-2.0",
        released="2025-04",
    ),
    *checkpoint_table(
        """
        aimv2_large_patch14_224.apple_pt | 309197824 | 224 | | | AIMv2 ViT-L/14
        aimv2_large_patch14_336.apple_pt | 309525504 | 336 | | | AIMv2 ViT-L/14
        aimv2_large_patch14_448.apple_pt | 309984256 | 448 | | | AIMv2 ViT-L/14
        aimv2_huge_patch14_224.apple_pt | 680851968 | 224 | | | AIMv2 ViT-H/14
        aimv2_huge_patch14_336.apple_pt | 681343488 | 336 | | | AIMv2 ViT-H/14
        aimv2_huge_patch14_448.apple_pt | 682031616 | 448 | | | AIMv2 ViT-H/14
        aimv2_1b_patch14_224.apple_pt | 1234958336 | 224 | | | AIMv2 ViT-1B/14
        aimv2_1b_patch14_336.apple_pt | 1235613696 | 336 | | | AIMv2 ViT-1B/14
        aimv2_1b_patch14_448.apple_pt | 1236531200 | 448 | | | AIMv2 ViT-1B/14
        aimv2_3b_patch14_224.apple_pt | 2720658432 | 224 | | | AIMv2 ViT-3B/14
        aimv2_3b_patch14_336.apple_pt | 2721641472 | 336 | | | AIMv2 ViT-3B/14
        aimv2_3b_patch14_448.apple_pt | 2723017728 | 448 | | | AIMv2 ViT-3B/14
        """,
        _PAGE,
        licence="apple-ascl",
        released="2024-11",
    ),
    *checkpoint_table(
        """
        sam2_hiera_tiny.fb_r896_2pt1 | 26851008 | 896 | | | SAM 2.1 Hiera-T
        sam2_hiera_small.fb_r896_2pt1 | 33948864 | 896 | | | SAM 2.1 Hiera-S
        sam2_hiera_base_plus.fb_r896_2pt1 | 68677504 | 896 | | | SAM 2.1 Hiera-B+
        sam2_hiera_large.fb_r1024_2pt1 | 212151600 | 1024 | | | SAM 2.1 Hiera-L
        """,
        _PAGE,
        licence="apache-2.0",
        released="2024-10",
    ),
    *checkpoint_table(
        """
        hf-hub:BVRA/MegaDescriptor-T-224 | 27519354 | 224 | | | MegaDescriptor Swin-T
        hf-hub:BVRA/MegaDescriptor-B-224 | 86743224 | 224 | | | MegaDescriptor Swin-B
        hf-hub:BVRA/MegaDescriptor-L-224 | 194995476 | 224 | | | MegaDescriptor Swin-L
        hf-hub:BVRA/MegaDescriptor-L-384 | 195198516 | 384 | | | MegaDescriptor Swin-L
        """,
        "https://huggingface.co/{repo}",
        licence="cc-by-nc-4.0",
        released="2023-12",
    ),
)

POOLS = {"cls": "token", "mean": "avg", "max": "max"}


def architectures() -> list[str]:
    """The names of all networks, from timm's source: importing it takes seconds."""
    spec = importlib.util.find_spec("timm")
    folders = (spec and spec.submodule_search_locations) or ()
    files = [path for folder in folders for path in sorted(Path(folder, "models").glob("*.py"))]
    lists = (re.findall(r"@register_model\ndef (\w+)\(", path.read_text("utf-8")) for path in files)
    return [name for names in lists for name in names]


def local_files(checkpoint: str) -> list[Path]:
    """The folder that `local-dir:` names: its bytes belong to the model's identity."""
    kind, _, source = checkpoint.partition(":")
    path = Path(source).expanduser()
    return [path] if kind == "local-dir" and path.is_dir() else []


def load(request: ModelRequest) -> Backbone:
    timm = need_package(request, "timm")
    from fieldmark.models._torch.backbone import TorchBackbone

    size, pool = request.pixels(), request.choice("pool", tuple(POOLS))
    model = _build(timm, request, size, pool)
    return TorchBackbone(
        model,
        _recipe(timm, model, size),
        device=request.device,
        precision=request.precision,
        options={
            "family": "timm",
            "code": VERSION,
            "library": library_version(LIBRARY),
            "pool": pool,
        },
        encode=encode,
    )


def encode(model: Any, images: Any, patches: bool) -> tuple[Any, Any]:
    features = model.forward_features(images)
    pooled = model.forward_head(features, pre_logits=True)
    return pooled.flatten(1), _patches(model, features) if patches else None


def _patches(model: Any, features: Any) -> Any:
    """Tokens without the class and register tokens, or the cells of a feature map; None for other
    shapes.
    """
    if getattr(features, "ndim", 0) == 3:
        return features[:, getattr(model, "num_prefix_tokens", 0) :]
    if getattr(features, "ndim", 0) != 4:
        return None
    is_channels_last = features.shape[-1] == model.num_features != features.shape[1]
    return features.flatten(1, 2) if is_channels_last else features.flatten(2).transpose(1, 2)


def _build(timm: Any, request: ModelRequest, size: int | None, pool: str | None) -> Any:
    from fieldmark.models._torch.weights import fit_weights, read_weights, seeded

    weights = request.path("weights")
    is_fetched = request.flag("pretrained", True) and weights is None
    name, overlay = _source(timm, request, is_fetched)
    arguments: dict[str, Any] = {
        "num_classes": 0,
        "pretrained": is_fetched,
        "pretrained_cfg_overlay": overlay,
    }
    if pool:
        arguments["global_pool"] = POOLS[pool]
    with seeded("timm", request.checkpoint):
        model = _create(timm, request, {"model_name": name, **arguments}, size)
    if weights is not None:
        head = model.pretrained_cfg.get("classifier") or ()
        heads = (head,) if isinstance(head, str) else tuple(head)
        fit_weights(model, read_weights(weights), weights, tuple(f"{name}." for name in heads))
    return model


def _create(timm: Any, request: ModelRequest, arguments: dict[str, Any], size: int | None) -> Any:
    """Convolutional networks take any size and refuse `img_size`; the others must be told."""
    attempts = [{**arguments, "img_size": size}, arguments] if size else [arguments]
    for attempt in attempts:
        try:
            return timm.create_model(**attempt)
        except (TypeError, RuntimeError, ValueError, KeyError, AssertionError, OSError) as error:
            is_size = isinstance(error, TypeError) and "img_size" in str(error)
            if is_size and attempt is not attempts[-1]:
                continue
            raise request.says("timm", error) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def _source(
    timm: Any, request: ModelRequest, is_fetched: bool
) -> tuple[str, dict[str, Any] | None]:
    """The name timm is given and, for weights from the hub, the local file that holds them."""
    from fieldmark.models._torch.weights import WEIGHTS, hub_folder

    kind, _, source = request.checkpoint.partition(":")
    if kind == "hf-hub":
        folder = hub_folder(request, source, [("config.json",), WEIGHTS][: 2 if is_fetched else 1])
        return f"local-dir:{folder}", None
    if kind == "local-dir":
        path = request.own_folder(Path(source).expanduser(), "config.json")
        return f"local-dir:{path}", None
    architecture, _, tag = request.checkpoint.partition(".")
    has_tag = not tag or request.checkpoint in timm.list_pretrained(f"{architecture}.*")
    if not timm.is_model(architecture) or not has_tag:
        names = [f"timm/{name}" for name in (*timm.list_models(), *timm.list_pretrained())]
        raise UnknownName("model", request.name.base, names, "timm.list_models()")
    overlay = {"file": str(_weights_file(timm, request))} if is_fetched else None
    return request.checkpoint, overlay


def _weights_file(timm: Any, request: ModelRequest) -> Path:
    from fieldmark.models._torch.weights import WEIGHTS, hub_folder, url_file

    about = timm.get_pretrained_cfg(request.checkpoint)
    if about is not None and about.hf_hub_id:
        names = (about.hf_hub_filename,) if about.hf_hub_filename else WEIGHTS
        folder = hub_folder(request, about.hf_hub_id, [names])
        return next(folder / name for name in names if (folder / name).is_file())
    if about is not None and about.url:
        return url_file(request, about.url)
    raise ModelError(
        f"model {request.name.text!r}: timm knows no weights for it: give some with ?weights=PATH, "
        "or random ones with ?pretrained=false."
    )


def _recipe(timm: Any, model: Any, size: int | None) -> Recipe:
    is_fixed = bool(model.pretrained_cfg.get("fixed_input_size"))
    about = timm.data.resolve_model_data_config(model, use_test_size=not is_fixed and size is None)
    height, width = (size, size) if size else about["input_size"][-2:]
    share = about["crop_pct"]
    fits = {"squash": "squash", "border": "longest"}
    return Recipe(
        size=(height, width),
        resize=(int(height / share), int(width / share)),
        fit=fits.get(about["crop_mode"], "shortest"),
        interpolation=about["interpolation"] if about["interpolation"] != "random" else "bilinear",
        mean=tuple(about["mean"]),
        std=tuple(about["std"]),
        fill=tuple(round(255 * channel) for channel in about["mean"]),
    )
