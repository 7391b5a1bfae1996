"""hf: vision models and dual encoders of Hugging Face transformers. DINOv2 and DINOv3, SigLIP 2,
CLIP, V-JEPA 2, ViT, ConvNeXt, …

    hf/ORG/NAME[@REVISION]     hf/facebook/dinov2-with-registers-base
    hf/PATH_TO_FOLDER          what save_pretrained wrote; ?pretrained=false needs its config only

Pooled features, by type: the class token after the last norm (vit, deit, beit, DINOv2), the
model's own pooling (DINOv3, SigLIP, ConvNeXt, Swin, AIMv2), the projected image features of CLIP,
the mean of the patches (I-JEPA, V-JEPA 2, which sees the image as a still clip). `?pool=` chooses
otherwise. CLIP, SigLIP, ALIGN, AltCLIP, Chinese-CLIP and MetaCLIP 2 embed texts too, unless
`?pool=` takes their images out of the common space or a local folder holds no tokeniser. Image size
and colour scaling come from the model's processor file; a local folder without one gets its
config's size and ImageNet's scaling. Code that a repository brings runs only where the user's own
`trust_code` names the model.
https://huggingface.co/docs/transformers
"""

from __future__ import annotations

import contextlib
import inspect
import pickle
import string
from functools import partial
from pathlib import Path
from typing import Any

from fieldmark.errors import ModelError, UsageError
from fieldmark.files import parse_json
from fieldmark.models._backbone import Backbone, Recipe, checkpoint_table
from fieldmark.models._name import ModelName, ModelRequest, need_package
from fieldmark.models._user import library_version
from fieldmark.registry import EMBEDS_IMAGES, EMBEDS_TEXTS
from fieldmark.settings import load_settings, user_config

VERSION = 1
LIBRARY = "transformers"

OPTIONS = {
    "pretrained": "false: random weights, always the same for a name",
    "weights": "a file with a state_dict for exactly this architecture (safetensors or torch)",
    "size": "input pixels, where the network takes another size",
    "pool": "cls, mean or pooler; else what the type calls for",
}

CHECKPOINTS = (
    *checkpoint_table(
        """
        facebook/dinov2-small | 22056576 | 224 | apache-2.0 | | DINOv2 ViT-S/14
        facebook/dinov2-base | 86580480 | 224 | apache-2.0 | | DINOv2 ViT-B/14
        facebook/dinov2-large | 304368640 | 224 | apache-2.0 | | DINOv2 ViT-L/14
        facebook/dinov2-giant | 1136480768 | 224 | apache-2.0 | | DINOv2 ViT-g/14
        google/siglip-base-patch16-224 | 92884224 | 224 | apache-2.0 | 2023-09 | SigLIP ViT-B/16
        google/siglip-large-patch16-256 | 315956224 | 256 | apache-2.0 | 2023-09 | SigLIP ViT-L/16
        google/siglip-so400m-patch14-384 | 428225600 | 384 | apache-2.0 | 2023-09 | SigLIP SO400M/14
        google/vit-base-patch16-224-in21k | 85798656 | 224 | apache-2.0 | | ViT-B/16 IN21K
        facebook/convnext-tiny-224 | 27820128 | 224 | apache-2.0 | | ConvNeXt-T
        facebook/vjepa2-vitl-fpc64-256 | 303885312 | 256 | | 2025-06 | V-JEPA 2 ViT-L/16
        facebook/vjepa2-vith-fpc64-256 | 631648000 | 256 | | 2025-06 | V-JEPA 2 ViT-H/16
        facebook/vjepa2-vitg-fpc64-256 | 1012173952 | 256 | apache-2.0 | 2025-06 | V-JEPA 2 ViT-g/16
        """,
        "https://huggingface.co/{name}",
    ),
    *checkpoint_table(
        """
        facebook/dinov2-with-registers-small | 22058112 | 224 | | | DINOv2-reg ViT-S/14
        facebook/dinov2-with-registers-base | 86583552 | 224 | | | DINOv2-reg ViT-B/14
        facebook/dinov2-with-registers-large | 304372736 | 224 | | | DINOv2-reg ViT-L/14
        facebook/dinov2-with-registers-giant | 1136486912 | 224 | | | DINOv2-reg ViT-g/14
        """,
        "https://huggingface.co/{name}",
        licence="apache-2.0",
        released="2024-04",
    ),
    *checkpoint_table(
        """
        google/siglip2-base-patch16-224 | 92884224 | 224 | | | SigLIP2 ViT-B/16
        google/siglip2-large-patch16-256 | 315956224 | 256 | | | SigLIP2 ViT-L/16
        google/siglip2-so400m-patch16-256 | 427888064 | 256 | | | SigLIP2 SO400M/16
        google/siglip2-giant-opt-patch16-256 | 1163168256 | 256 | | | SigLIP2 ViT-1B/16
        """,
        "https://huggingface.co/{name}",
        licence="apache-2.0",
        released="2025-02",
    ),
    *checkpoint_table(
        """
        facebook/dinov3-vits16-pretrain-lvd1689m | 21596544 | 224 | | | DINOv3 ViT-S/16
        facebook/dinov3-vitb16-pretrain-lvd1689m | 85660416 | 224 | | | DINOv3 ViT-B/16
        facebook/dinov3-vitl16-pretrain-lvd1689m | 303129600 | 224 | | | DINOv3 ViT-L/16
        facebook/dinov3-vith16plus-pretrain-lvd1689m | 840592640 | 224 | | | DINOv3 ViT-H+/16
        """,
        "https://huggingface.co/{name}",
        licence="dinov3-license",
        released="2025-08",
    ),
    *checkpoint_table(
        """
        openai/clip-vit-base-patch32 | 87849216 | 224 | mit | 2021-01 | CLIP ViT-B/32
        openai/clip-vit-base-patch16 | 86192640 | 224 | mit | 2021-01 | CLIP ViT-B/16
        openai/clip-vit-large-patch14 | 303966208 | 224 | mit | 2021-01 | CLIP ViT-L/14
        """,
        "https://github.com/openai/CLIP",
    ),
)

POOLED_BY = {
    "beit": "cls",
    "data2vec-vision": "cls",
    "deit": "cls",
    "dinov2": "cls",
    "dinov2_with_registers": "cls",
    "ijepa": "mean",
    "vit": "cls",
    "vit_msn": "cls",
    "vjepa2": "mean",
}

REFUSED = {
    "vit_mae": "hides patches at random when it embeds; use timm/vit_base_patch16_224.mae",
    "siglip2": "takes images of any shape; use hf/google/siglip2-base-patch16-224",
    "siglip2_vision_model": "takes images of any shape; use hf/google/siglip2-base-patch16-224",
}

PROCESSORS = ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json")
INDEX = "model.safetensors.index.json"
WEIGHTS = ("model.safetensors", INDEX, "pytorch_model.bin")

DUAL = {"align": 64, "altclip": 77, "chinese_clip": 52, "clip": 77, "metaclip_2": 77, "siglip": 64}
"""types with a text tower in the images' space, and the tokens that they were trained to read"""
DUAL_WORDS = ("align", "clip", "siglip")
"""parts of names by which one is known before anything of it is here"""
TEXT_PARTS = ("text_model", "text_projection")
TOKENISER_FILES = ("tokenizer_config.json", "tokenizer.json")


def abilities(name: ModelName) -> tuple[str, ...]:
    """By the configuration in a local folder or the hub's cache, else by the words of the name."""
    local = local_files(name.checkpoint)
    path = local[0] / "config.json" if local else _cached_config(name.checkpoint)
    config: Any = None
    with contextlib.suppress(OSError, ValueError):
        config = parse_json(path.read_text(encoding="utf-8")) if path else None
    if not isinstance(config, dict):
        is_dual = any(word in name.checkpoint.lower() for word in DUAL_WORDS)
    else:
        has_tokeniser = not local or any((local[0] / file).is_file() for file in TOKENISER_FILES)
        is_dual = config.get("model_type") in DUAL and has_tokeniser
    is_dual = is_dual and "pool" not in name.options
    return (EMBEDS_IMAGES, EMBEDS_TEXTS) if is_dual else (EMBEDS_IMAGES,)


def _cached_config(checkpoint: str) -> Path | None:
    """In the hub's cache, without the hub's own library: that takes longer than all the rest."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return None
    repo, _, revision = checkpoint.partition("@")
    folder = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
    mark = folder / "refs" / (revision or "main")
    commit = mark.read_text(encoding="utf-8").strip() if mark.is_file() else revision
    path = folder / "snapshots" / commit / "config.json"
    return path if commit and path.is_file() else None


def local_files(checkpoint: str) -> list[Path]:
    """The user's own folder, if the name is one: its bytes belong to the model's identity."""
    path = Path(checkpoint).expanduser()
    return [path] if path.is_dir() else []


def load(request: ModelRequest) -> Backbone:
    library = need_package(request, "transformers")
    from fieldmark.models._torch.backbone import TorchBackbone
    from fieldmark.models._torch.dual import TorchDual

    pool = request.choice("pool", ("cls", "mean", "pooler"))
    is_loaded = request.flag("pretrained", True) and "weights" not in request.name.options
    folder = _folder(request, is_loaded)
    config = _read(request, library.AutoConfig, folder)
    if config.model_type in REFUSED:
        raise ModelError(f"model {request.name.text!r}: {REFUSED[config.model_type]}.")
    pooled_by = pool or POOLED_BY.get(config.model_type, "auto")
    is_dual = EMBEDS_TEXTS in abilities(request.name)
    model = _build(library, request, (folder, config), (pooled_by, is_dual))
    options = {"family": "hf", "code": VERSION, "library": library_version(LIBRARY)}
    rest: dict[str, Any] = {
        "device": request.device,
        "precision": request.precision,
        "options": {**options, "pool": pooled_by},
        "encode": partial(encode, pooled_by=pooled_by),
    }
    recipe = _recipe(library, request, folder, config)
    if not is_dual or model.text_model is None:
        return TorchBackbone(model, recipe, **rest)
    tower = _tower(library, request, (folder, config), options)
    return TorchDual(model, recipe, tower=tower, **rest)


def encode(model: Any, images: Any, patches: bool, *, pooled_by: str) -> tuple[Any, Any]:
    output = _forward(model, images)
    tokens = _tokens(model, images, output.last_hidden_state)
    pooled = getattr(output, "pooler_output", None)
    if pooled_by == "cls":
        pooled = output.last_hidden_state[:, 0]
    elif pooled_by == "mean" or (pooled_by == "auto" and pooled is None):
        pooled = tokens.mean(dim=1)
    if pooled is None:
        raise ValueError(f"{type(model).__name__} has no pooling of its own: use ?pool=mean")
    return pooled.flatten(1), tokens if patches else None


def _forward(model: Any, images: Any) -> Any:
    if model.config.model_type == "vjepa2":
        clip = images.unsqueeze(1).expand(-1, model.config.tubelet_size, -1, -1, -1)
        return model(pixel_values_videos=clip, skip_predictor=True)
    call = model.get_image_features if hasattr(model, "get_image_features") else model
    accepted = inspect.signature(getattr(call, "forward", call)).parameters
    vision = getattr(model.config, "vision_config", model.config)
    is_resized = images.shape[-1] != getattr(vision, "image_size", images.shape[-1])
    if is_resized and "interpolate_pos_encoding" in accepted:
        return call(pixel_values=images, interpolate_pos_encoding=True)
    return call(pixel_values=images)


def _tokens(model: Any, images: Any, hidden: Any) -> Any:
    """Patches without class and register tokens, which come first; the cells of a feature map."""
    if hidden.ndim == 4:
        return hidden.flatten(2).transpose(1, 2)
    vision = getattr(model.config, "vision_config", model.config)
    patch = getattr(vision, "patch_size", None)
    n_patches = (images.shape[-2] // patch) * (images.shape[-1] // patch) if patch else 0
    return hidden[:, hidden.shape[1] - n_patches :] if 0 < n_patches <= hidden.shape[1] else hidden


def _folder(request: ModelRequest, is_loaded: bool) -> Path:
    from fieldmark.models._torch.weights import fetch_code, hub_folder

    local = local_files(request.checkpoint)
    if local:
        return request.own_folder(local[0], "config.json")
    if request.checkpoint.count("/") > 1:
        raise UsageError(
            f"model {request.name.text!r}: {request.checkpoint} is neither a folder here "
            "nor ORG/NAME on the hub."
        )
    need = [("config.json",), PROCESSORS, WEIGHTS][: 3 if is_loaded else 2]
    folder = hub_folder(request, request.checkpoint, need)
    if _is_trusted(request):
        fetch_code(request, request.checkpoint)
    if is_loaded and not (folder / WEIGHTS[0]).is_file() and (folder / INDEX).is_file():
        index = parse_json((folder / INDEX).read_text(encoding="utf-8"))
        shards = sorted(set(index["weight_map"].values()))
        hub_folder(request, request.checkpoint, [(shard,) for shard in shards])
    return folder


def _read(request: ModelRequest, kind: Any, folder: Path, **rest: Any) -> Any:
    """`from_pretrained` on a local folder, its many kinds of failure as one line.

    The folder's own Python runs only where the user has named the model: transformers would ask on
    the terminal, and take a `yes` from a pipe.
    """
    from fieldmark.models._torch.weights import runs_code

    try:
        return kind.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=_is_trusted(request), **rest
        )
    except pickle.UnpicklingError as error:
        raise runs_code(f"model {request.name.text!r}: its file of weights") from error
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError) as error:
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"model {request.name.text!r} brings Python code of its own, which was not run: "
                f'if you trust it, add trust_code = ["{_trust_name(request)}"] to {user_config()}.'
            ) from error
        raise request.says("transformers", error) from error


def _is_trusted(request: ModelRequest) -> bool:
    return _trust_name(request) in load_settings().trust_code


def _trust_name(request: ModelRequest) -> str:
    """A folder is trusted by its whole path: another that lies here as `org/name` is not what the
    user has named, be it on the hub or in another place.
    """
    local = local_files(request.checkpoint)
    return f"hf/{local[0].resolve()}" if local else request.name.base


def _build(
    library: Any, request: ModelRequest, source: tuple[Path, Any], use: tuple[str, bool]
) -> Any:
    """The network without the parts nobody uses; `use` is how it pools, and whether it embeds
    texts.
    """
    from fieldmark.models._torch.weights import fit_weights, read_weights, seeded

    folder, config = source
    pooled_by, is_dual = use
    weights, missing = request.path("weights"), set()
    with seeded("hf", request.checkpoint):
        if weights is not None or not request.flag("pretrained", True):
            model = library.AutoModel.from_config(config, trust_remote_code=_is_trusted(request))
        else:
            model, about = _read(request, library.AutoModel, folder, output_loading_info=True)
            missing = {str(key) for key in about["missing_keys"]}
    state = read_weights(weights) if weights is not None else {}
    given = state if weights is not None else {*model.state_dict()} - missing
    unused = ["predictor", *(["pooler"] if pooled_by in ("cls", "mean") else [])]
    if not is_dual or not any(key.startswith(TEXT_PARTS) for key in given):
        unused += TEXT_PARTS
    dropped = tuple(f"{name}." for name in unused if getattr(model, name, None) is not None)
    for prefix in dropped:
        setattr(model, prefix[:-1], None)
    lost = sorted(key for key in missing if not key.startswith(dropped))
    if lost:
        raise ModelError(
            f"model {request.name.text!r}: its files have no weights for {lost[0]}"
            f"{f' and {len(lost) - 1} more' if len(lost) > 1 else ''}, which would then be random."
        )
    if weights is not None:
        fit_weights(model, state, weights, dropped)
    return model.float()


def _tower(
    library: Any, request: ModelRequest, source: tuple[Path, Any], options: dict[str, Any]
) -> Any:
    from fieldmark.models._torch.dual import TextTower

    return TextTower(
        partial(_tokeniser, library, request, source),
        lambda module, tokens: module.get_text_features(**tokens).pooler_output,
        lambda weight: weight.startswith(TEXT_PARTS),
        lambda weight: not weight.startswith(TEXT_PARTS),
        options=options,
    )


def _tokeniser(library: Any, request: ModelRequest, source: tuple[Path, Any]) -> Any:
    """The model's own tokeniser; its files are fetched only now, when texts are embedded."""
    from fieldmark.models._torch.dual import Tokeniser
    from fieldmark.models._torch.weights import TOKENISER, hub_folder

    folder, config = source
    if not local_files(request.checkpoint):
        folder = hub_folder(request, request.checkpoint, TOKENISER)
    is_siglip = config.model_type == "siglip"
    kind = library.PreTrainedTokenizerFast if _is_siglip_1(folder) else library.AutoTokenizer
    theirs = _read(request, kind, folder)
    limit = min(
        DUAL[config.model_type], config.text_config.max_position_embeddings, theirs.model_max_length
    )
    clean = partial(_siglip_text, without_marks=_is_siglip_1(folder)) if is_siglip else str
    # SigLIP was trained without a mask: its padding is part of the text.
    names = ("input_ids",) if is_siglip else ("input_ids", "attention_mask")

    def encode_texts(texts: list[str]) -> dict[str, Any]:
        tokens = theirs(
            [clean(text) for text in texts],
            padding="max_length",
            truncation=True,
            max_length=limit,
            return_tensors="pt",
            return_attention_mask=True,
        )
        return {name: tokens[name] for name in names}

    def count(texts: list[str]) -> list[int]:
        rows = theirs([clean(text) for text in texts], verbose=False)["input_ids"]
        return [len(row) for row in rows]

    return Tokeniser(limit, encode_texts, count)


def _is_siglip_1(folder: Path) -> bool:
    """SigLIP's own tokeniser wants a package of its own; the fast one reads the same vocabulary."""
    about = parse_json((folder / TOKENISER_FILES[0]).read_text(encoding="utf-8"))
    is_its_own = about.get("tokenizer_class") in ("SiglipTokenizer", "SiglipTokenizerFast")
    return is_its_own and (folder / TOKENISER_FILES[1]).is_file()


def _siglip_text(text: str, *, without_marks: bool) -> str:
    """As trained: in lower case (SigLIP 2), and without punctuation (SigLIP).

    >>> _siglip_text(" A photo of: Lynx  lynx. ", without_marks=True)
    'a photo of lynx lynx'
    """
    if without_marks:
        text = " ".join(text.translate(str.maketrans("", "", string.punctuation)).split())
    return text.lower()


def _recipe(library: Any, request: ModelRequest, folder: Path, config: Any) -> Any:
    vision = getattr(config, "vision_config", config)
    if not any((folder / name).is_file() for name in PROCESSORS):
        native = getattr(vision, "image_size", getattr(vision, "crop_size", 224))
        size = request.pixels() or (native if isinstance(native, int) else native[0])
        return Recipe((size, size))
    kind = "AutoVideoProcessor" if config.model_type == "vjepa2" else "AutoImageProcessor"
    about = _read(request, getattr(library, kind), folder).to_dict()
    size, resize, fit = _sizes(request, about)
    if px := request.pixels():
        resize = (round(resize[0] * px / size[0]), round(resize[1] * px / size[1]))
        size = (px, px)
    mean, std = _scaling(about)
    return Recipe(size, resize, fit, _interpolation(about), mean, std)


def _sizes(
    request: ModelRequest, about: dict[str, Any]
) -> tuple[tuple[int, int], tuple[int, int], str]:
    """Input size, size before the crop, and how it is fitted, from a processor's settings."""
    size = about.get("size") or {}
    if size.get("height") and size.get("width"):
        resize, fit = (int(size["height"]), int(size["width"])), "squash"
    elif size.get("shortest_edge"):
        resize, fit = (int(size["shortest_edge"]),) * 2, "shortest"
    else:
        raise ModelError(
            f"model {request.name.text!r}: its processor has no fixed image size "
            f"(found {dict(size)!r})."
        )
    share, crop = about.get("crop_pct"), about.get("crop_size") or {}
    if share and fit == "shortest":  # ConvNeXt: cropped when small, squashed from 384 px on
        if resize[0] < 384:
            return resize, (int(resize[0] / share),) * 2, fit
        return resize, resize, "squash"
    if about.get("do_center_crop") and crop:
        return (int(crop["height"]), int(crop["width"])), resize, fit
    return resize, resize, fit


def _scaling(about: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and spread for pixels in 0…1, whatever range the processor works in."""
    factor = about.get("rescale_factor", 1 / 255) if about.get("do_rescale", True) else 1.0
    top = 1.0 if abs(factor * 255 - 1) < 1e-6 else factor * 255
    below = 1.0 if about.get("rescale_offset") else 0.0  # ALIGN's pixels go from -1 to 1
    if not about.get("do_normalize", True):
        return (below / top,) * 3, (1 / top,) * 3
    mean, std = about["image_mean"], about["image_std"]
    return tuple((value + below) / top for value in mean), tuple(value / top for value in std)


def _interpolation(about: dict[str, Any]) -> str:
    from PIL import Image

    return Image.Resampling(int(about.get("resample", Image.Resampling.BICUBIC))).name.lower()
