"""open_clip: images and texts in one space. CLIP, SigLIP, PE-Core, MetaCLIP, and the biological
BioCLIP family.

    open-clip/ARCHITECTURE/TAG      open-clip/ViT-B-16/openai
    open-clip/hf-hub:ORG/NAME       open-clip/hf-hub:imageomics/bioclip-2
    open-clip/ARCHITECTURE/FILE     weights you trained: open-clip/ViT-B-16/runs/epoch_50.pt
    open-clip/local-dir:PATH        a folder with open_clip_config.json

Features are the image tower's projected output, not normalised, as zero-shot classification uses
it. BioCAP has two projectors on one pooled feature: `taxonomic`, the network's own, for names, and
`caption` for sentences (`?projector=caption`), with a logit scale of its own; a file that holds
only one loads as any other. The activation follows the weights: ViT-B-16/openai gets QuickGELU,
which open_clip itself only warns about. https://github.com/mlfoundations/open_clip
"""

from __future__ import annotations

import contextlib
import logging
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fieldmark.errors import ModelError, UnknownName, UsageError, first_line
from fieldmark.files import parse_json
from fieldmark.models._backbone import Backbone, Recipe, checkpoint_table
from fieldmark.models._name import ModelRequest, need_package
from fieldmark.models._user import library_version
from fieldmark.registry import EMBEDS_IMAGES, EMBEDS_TEXTS

VERSION = 1
LIBRARY = "open_clip"
ABILITIES = (EMBEDS_IMAGES, EMBEDS_TEXTS)

OPTIONS = {
    "pretrained": "false: random weights, always the same for a name",
    "weights": "a file with a state_dict for exactly this architecture (safetensors or torch)",
    "size": "input pixels; position embeddings are resized",
    "projector": "taxonomic or caption, where the weights have two visual projectors (BioCAP)",
}

_PAGE = "https://github.com/mlfoundations/open_clip/blob/main/docs/PRETRAINED.md"

CHECKPOINTS = (
    *checkpoint_table(
        """
        hf-hub:imageomics/bioclip | 86192640 | 224 | mit | 2024-05 | BioCLIP ViT-B/16
        hf-hub:imageomics/bioclip-2 | 303966208 | 224 | mit | 2025-05 | BioCLIP-2 ViT-L/14
        hf-hub:imageomics/bioclip-2.5-vith14 | 632076800 | 224 | | 2026-02 | BioCLIP-2.5 ViT-H/14
        hf-hub:imageomics/biocap | 86192640 | 224 | mit | 2025-10 | BioCAP ViT-B/16
        hf-hub:BGLab/BioTrove-CLIP | 86192640 | 224 | mit | 2025-01 | BioTrove-CLIP ViT-B/16
        """,
        "https://huggingface.co/{repo}",
    ),
    *checkpoint_table(
        """
        hf-hub:UCSC-VLAA/openvision-vit-tiny-patch16-224 | 5561088 | 224 | | | OpenVision T/16
        hf-hub:UCSC-VLAA/openvision-vit-small-patch16-224 | 21812736 | 224 | | | OpenVision S/16
        hf-hub:UCSC-VLAA/openvision-vit-base-patch16-224 | 86191104 | 224 | | | OpenVision B/16
        hf-hub:UCSC-VLAA/openvision-vit-large-patch14-224 | 303964160 | 224 | | | OpenVision L/14
        hf-hub:UCSC-VLAA/openvision-vit-so400m-patch14-224|413770608|224| | |OpenVision SO400M/14
        hf-hub:UCSC-VLAA/openvision-vit-so400m-patch14-384|414315504|384| | |OpenVision SO400M/14
        hf-hub:UCSC-VLAA/openvision-vit-huge-patch14-224 | 632074240 | 224 | | | OpenVision H/14
        """,
        "https://huggingface.co/{repo}",
        licence="apache-2.0",
        released="2025-05",
    ),
    *checkpoint_table(
        """
        ViT-B-32/openai | 87849216 | 224 | mit | 2021-01 | CLIP ViT-B/32
        ViT-B-16/openai | 86192640 | 224 | mit | 2021-01 | CLIP ViT-B/16
        ViT-L-14/openai | 303966208 | 224 | mit | 2021-01 | CLIP ViT-L/14
        ViT-L-14-336/openai | 304293888 | 336 | mit | 2021-01 | CLIP ViT-L/14
        RN50/openai | 38316896 | 224 | mit | 2021-01 | CLIP RN50
        """,
        "https://github.com/openai/CLIP",
    ),
    *checkpoint_table(
        """
        ViT-B-16/laion2b_s34b_b88k | 86192640 | 224 | | | OpenCLIP ViT-B/16 LAION-2B
        ViT-L-14/laion2b_s32b_b82k | 303966208 | 224 | | | OpenCLIP ViT-L/14 LAION-2B
        ViT-H-14/laion2b_s32b_b79k | 632076800 | 224 | | | OpenCLIP ViT-H/14 LAION-2B
        ViT-B-16/dfn2b | 86192640 | 224 | | | CLIP ViT-B/16 DFN-2B
        ViT-L-14-quickgelu/dfn2b | 303966208 | 224 | | | CLIP ViT-L/14 DFN-2B
        ViT-H-14-378-quickgelu/dfn5b | 632682240 | 378 | | | CLIP ViT-H/14 DFN-5B
        ViT-B-16-SigLIP/webli | 92884224 | 224 | apache-2.0 | 2023-09 | SigLIP ViT-B/16
        ViT-B-16-SigLIP-256/webli | 92930304 | 256 | apache-2.0 | 2023-09 | SigLIP ViT-B/16
        ViT-B-16-SigLIP-384/webli | 93176064 | 384 | apache-2.0 | 2023-09 | SigLIP ViT-B/16
        ViT-B-16-SigLIP-512/webli | 93520128 | 512 | apache-2.0 | 2023-09 | SigLIP ViT-B/16
        ViT-L-16-SigLIP-256/webli | 315956224 | 256 | apache-2.0 | 2023-09 | SigLIP ViT-L/16
        ViT-L-16-SigLIP-384/webli | 316283904 | 384 | apache-2.0 | 2023-09 | SigLIP ViT-L/16
        ViT-SO400M-14-SigLIP/webli | 427680704 | 224 | apache-2.0 | 2023-09 | SigLIP SO400M/14
        ViT-SO400M-14-SigLIP-384/webli | 428225600 | 384 | apache-2.0 | 2023-09 | SigLIP SO400M/14
        ViT-B-32-SigLIP2-256/webli | 94552320 | 256 | apache-2.0 | 2025-02 | SigLIP2 ViT-B/32
        ViT-B-16-SigLIP2/webli | 92884224 | 224 | apache-2.0 | 2025-02 | SigLIP2 ViT-B/16
        ViT-B-16-SigLIP2-256/webli | 92930304 | 256 | apache-2.0 | 2025-02 | SigLIP2 ViT-B/16
        ViT-B-16-SigLIP2-384/webli | 93176064 | 384 | apache-2.0 | 2025-02 | SigLIP2 ViT-B/16
        ViT-B-16-SigLIP2-512/webli | 93520128 | 512 | apache-2.0 | 2025-02 | SigLIP2 ViT-B/16
        ViT-L-16-SigLIP2-256/webli | 315956224 | 256 | apache-2.0 | 2025-02 | SigLIP2 ViT-L/16
        ViT-L-16-SigLIP2-384/webli | 316283904 | 384 | apache-2.0 | 2025-02 | SigLIP2 ViT-L/16
        ViT-L-16-SigLIP2-512/webli | 316742656 | 512 | apache-2.0 | 2025-02 | SigLIP2 ViT-L/16
        ViT-SO400M-16-SigLIP2-256/webli | 427888064 | 256 | apache-2.0 | 2025-02 | SigLIP2 SO400M/16
        ViT-SO400M-16-SigLIP2-384/webli | 428256704 | 384 | apache-2.0 | 2025-02 | SigLIP2 SO400M/16
        ViT-SO400M-16-SigLIP2-512/webli | 428772800 | 512 | apache-2.0 | 2025-02 | SigLIP2 SO400M/16
        ViT-gopt-16-SigLIP2-256/webli | 1163168256 | 256 | apache-2.0 | 2025-02 | SigLIP2 ViT-1B/16
        ViT-gopt-16-SigLIP2-384/webli | 1163659776 | 384 | apache-2.0 | 2025-02 | SigLIP2 ViT-1B/16
        PE-Core-T-16-384/meta | 6141056 | 384 | apache-2.0 | 2025-04 | PE-Core ViT-T/16
        PE-Core-S-16-384/meta | 23783168 | 384 | apache-2.0 | 2025-04 | PE-Core ViT-S/16
        PE-Core-B-16/meta | 93673984 | 224 | apache-2.0 | 2025-04 | PE-Core ViT-B/16
        PE-Core-L-14-336/meta | 317152256 | 336 | apache-2.0 | 2025-04 | PE-Core ViT-L/14
        PE-Core-bigG-14-448/meta | 1882033920 | 448 | apache-2.0 | 2025-04 | PE-Core ViT-G/14
        """,
        _PAGE,
    ),
    *checkpoint_table(
        """
        ViT-H-14-worldwide/metaclip2_worldwide | 632076800 | 224 | | | MetaCLIP 2 ViT-H/14
        ViT-H-14-worldwide-378/metaclip2_worldwide | 632682240 | 378 | | | MetaCLIP 2 ViT-H/14
        """,
        _PAGE,
        licence="cc-by-nc-4.0",
        released="2025-08",
    ),
)

CONFIG = "open_clip_config.json"
WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
PROJECTORS = ("taxonomic", "caption")
SECOND = ("visual.caption_proj", "logit_scale_caption", "logit_bias_caption")
"""weights of the second projector, which open_clip's own networks have no place for"""
TWO_PROJECTORS = "dual_projector"
"""key of `vision_cfg` in a configuration that asks for both"""


def local_files(checkpoint: str) -> list[Path]:
    """The file or folder of the user's own that a name rests on: its bytes belong to the model's
    identity.
    """
    kind, _, source = checkpoint.partition(":")
    path = Path(source if kind == "local-dir" else checkpoint.partition("/")[2]).expanduser()
    return [path] if path.is_file() or (kind == "local-dir" and path.is_dir()) else []


def load(request: ModelRequest) -> Backbone:
    library = need_package(request, "open_clip")
    from fieldmark.models._torch.dual import TextTower, TorchDual

    is_loaded = request.flag("pretrained", True) and "weights" not in request.name.options
    arguments = _source(library, request, is_loaded)
    model, second = _network(library, request, arguments, is_loaded)
    options = {"family": "open-clip", "code": VERSION, "library": library_version(LIBRARY)}
    dual = TorchDual(
        model,
        _recipe(model.visual.preprocess_cfg),
        tower=TextTower(
            partial(_tokeniser, library, request, arguments["model_name"]),
            lambda module, tokens: module.encode_text(**tokens),
            lambda weight: not weight.startswith("visual."),
            options=options,
        ),
        encode=encode,
        projections=dict(zip(PROJECTORS, (None, second), strict=True)) if second else None,
        device=request.device,
        precision=request.precision,
        options=options,
    )
    dual.name = request.name.text
    projector = request.name.options.get("projector")
    return dual.projected(projector) if projector else dual


def read_network(request: ModelRequest, seed: str = "") -> tuple[Any, Any, dict[str, Any]]:
    """For training: the network with its weights, its second projector (`Projection`) or None, and
    what open_clip_config.json says of such a network.

    `seed` draws other random weights.
    """
    library = need_package(request, "open_clip")
    is_loaded = request.flag("pretrained", True)
    arguments = _source(library, request, is_loaded)
    model, second = _network(library, request, arguments, is_loaded, seed)
    about = _about(library, arguments["model_name"])
    about["vision_cfg"].pop(TWO_PROJECTORS, None)
    if request.pixels():
        about["vision_cfg"]["image_size"] = request.pixels()
    if arguments.get("force_quick_gelu"):
        about["quick_gelu"] = True
    return model, second, {"model_cfg": about, "preprocess_cfg": dict(model.visual.preprocess_cfg)}


def read_tokeniser(request: ModelRequest) -> Any:
    """The tokeniser (`Tokeniser`) alone: no weights are fetched or read."""
    library = need_package(request, "open_clip")
    return _tokeniser(library, request, _source(library, request, False)["model_name"])


def _about(library: Any, model_name: str) -> dict[str, Any]:
    kind, _, source = model_name.partition(":")
    if kind != "local-dir":
        return dict(library.get_model_config(model_name))
    return dict(parse_json((Path(source) / CONFIG).read_text(encoding="utf-8"))["model_cfg"])


def encode(model: Any, images: Any, patches: bool, projection: Any = None) -> tuple[Any, Any]:
    """`projection` stands in for the image tower's own projector."""
    visual = model.visual
    if projection is not None:
        from torch.func import functional_call

        see = partial(functional_call, visual, {"proj": projection})
    else:
        see = model.encode_image
    if not patches:
        return see(images), None
    if hasattr(visual, "trunk"):  # a timm network inside
        features = visual.trunk.forward_features(images)
        pooled = visual.head(visual.trunk.forward_head(features))
        is_tokens = getattr(features, "ndim", 0) == 3
        start = getattr(visual.trunk, "num_prefix_tokens", 0)
        return pooled, features[:, start:] if is_tokens else None
    if not hasattr(visual, "output_tokens"):
        return see(images), None
    before, visual.output_tokens = visual.output_tokens, True
    try:
        pooled, tokens = visual(images) if projection is None else see(images)
    finally:
        visual.output_tokens = before
    return pooled, tokens


def _network(
    library: Any,
    request: ModelRequest,
    arguments: dict[str, Any],
    is_loaded: bool,
    seed: str = "",
) -> tuple[Any, Any]:
    """The network with its weights, and its second projector or None."""
    from fieldmark.models._torch.weights import fit_weights, read_weights, seeded

    is_two, weights = arguments.pop(TWO_PROJECTORS, False), request.path("weights")
    path = weights or (_own_file(request, arguments["model_name"]) if is_loaded else None)
    state = _with_second(path) if path else {}
    if weights and not state:
        state = read_weights(weights)
    with seeded("open-clip", request.checkpoint, *filter(None, [seed])):
        model = _create(library, request, {**arguments, "load_weights": is_loaded and not state})
        if is_two and not is_loaded and not weights:
            import torch

            shape = model.visual.proj.shape
            state = {SECOND[0]: torch.randn(shape) * shape[0] ** -0.5}
    beside = {name: state.pop(name) for name in SECOND if name in state}
    if path and state:
        if not weights:
            library.model.resize_pos_embed(state, model)  # as open_clip does for `size`
        fit_weights(model, state, path)
    return model, _second(request, model, beside)


def _own_file(request: ModelRequest, model_name: str) -> Path | None:
    """The file of weights that may hold a second projector: none of open_clip's own tags does."""
    kind, _, source = model_name.partition(":")
    if kind == "local-dir":
        files = (Path(source) / name for name in WEIGHTS)
        return next((file for file in files if file.is_file()), None)
    return next(iter(local_files(request.checkpoint)), None)


def _with_second(path: Path) -> dict[str, Any]:
    """The weights in a file that holds any of a second projector; empty for all others, which are
    open_clip's to read.
    """
    from fieldmark.models._torch.weights import read_weights

    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with contextlib.suppress(Exception), safe_open(path, "pt") as file:
            return read_weights(path) if any(name in file.keys() for name in SECOND) else {}  # noqa: SIM118
        return {}
    try:
        state = read_weights(path)
    except ModelError:
        return {}
    return state if any(name in state for name in SECOND) else {}


def _second(request: ModelRequest, model: Any, weights: dict[str, Any]) -> Any:
    from fieldmark.models._torch.dual import Projection

    matrix = weights.get(SECOND[0])
    if matrix is None:
        return None
    proj = getattr(model.visual, "proj", None)
    if proj is None or proj.shape != matrix.shape:
        raise ModelError(
            f"model {request.name.text!r}: its second projector is {tuple(matrix.shape)}, "
            f"expected {'no projector' if proj is None else tuple(proj.shape)} as its first."
        )
    scale = weights.get(SECOND[1], model.logit_scale)
    bias = weights.get(SECOND[2], getattr(model, "logit_bias", None))
    return Projection(
        matrix.float(), float(scale.detach().exp()), None if bias is None else float(bias.detach())
    )


def _source(library: Any, request: ModelRequest, is_loaded: bool) -> dict[str, Any]:
    """What `create_model` is given, with every file already local."""
    from fieldmark.models._torch.weights import hub_folder

    kind, _, source = request.checkpoint.partition(":")
    if kind == "hf-hub":
        folder = hub_folder(request, source, [(CONFIG,), WEIGHTS][: 2 if is_loaded else 1])
        return {"model_name": f"local-dir:{folder}", **_vision(request, folder)}
    if kind == "local-dir":
        path = request.own_folder(Path(source).expanduser(), CONFIG)
        return {"model_name": f"local-dir:{path}", **_vision(request, path)}
    architecture, _, tag = request.checkpoint.partition("/")
    if architecture not in library.list_models():
        names = [f"open-clip/{name}" for name in library.list_models()]
        raise UnknownName("model", request.name.base, names, "fieldmark models open-clip")
    path = Path(tag).expanduser()
    if tag and path.is_file():
        return {"model_name": architecture, "pretrained": str(path.resolve())}
    return {"model_name": architecture, **_tagged(library, request, (architecture, tag), is_loaded)}


def _vision(request: ModelRequest, folder: Path) -> dict[str, Any]:
    """What a configuration that asks for two projectors must leave out for open_clip."""
    try:
        about = parse_json((folder / CONFIG).read_text(encoding="utf-8"))["model_cfg"]
        vision = dict(about["vision_cfg"])
    except (ValueError, KeyError, TypeError):
        return {}  # open_clip says what is wrong with it
    if TWO_PROJECTORS not in vision:
        return {}
    is_two = bool(vision.pop(TWO_PROJECTORS))
    if size := request.pixels():
        vision["image_size"] = size
    return {TWO_PROJECTORS: is_two, "vision_cfg": vision}


def _tagged(
    library: Any, request: ModelRequest, name: tuple[str, str], is_loaded: bool
) -> dict[str, Any]:
    """Arguments for one of open_clip's own sets of weights: file, activation and colour scaling."""
    from fieldmark.models._torch.weights import hub_folder

    architecture, tag = name
    about = library.get_pretrained_cfg(architecture, tag) if tag else {}
    if not about:
        known = library.list_pretrained()
        tags = [f"open-clip/{kind}/{other}" for kind, other in known if kind == architecture]
        if tag:
            raise UnknownName("model", request.name.base, tags, "fieldmark models open-clip")
        if is_loaded:
            example = f", for example {tags[0]}" if tags else ""
            raise UsageError(
                f"model {request.name.text!r} names no weights: add /TAG or /FILE{example}, "
                "or ?pretrained=false for random ones."
            )
        return {}
    keys = ("mean", "std", "interpolation", "resize_mode")
    arguments: dict[str, Any] = {
        "force_quick_gelu": bool(about.get("quick_gelu")),
        "force_preprocess_cfg": {key: about[key] for key in keys if key in about},
    }
    if is_loaded:
        repo, _, filename = about["hf_hub"].rpartition("/")
        names = (filename.rpartition(".")[0] + ".safetensors", filename) if filename else WEIGHTS
        folder = hub_folder(request, repo, [names])
        arguments["pretrained"] = str(
            next(folder / name for name in names if (folder / name).is_file())
        )
    return arguments


def _create(library: Any, request: ModelRequest, arguments: dict[str, Any]) -> Any:
    from fieldmark.models._torch.weights import runs_code

    try:
        with _own_log():
            return library.create_model(
                **arguments,
                device="cpu",
                force_image_size=request.pixels(),
                pretrained_text=False,
                require_pretrained=arguments["load_weights"],
            )
    except pickle.UnpicklingError as error:
        raise runs_code(f"model {request.name.text!r}: its file of weights") from error
    except (RuntimeError, ValueError, KeyError, TypeError, OSError) as error:
        raise _failure(request, error) from error


def _failure(request: ModelRequest, error: Exception) -> ModelError:
    if "trust_remote_code" in str(error):
        text = "brings Python code of its own for its texts, which open_clip's models may not"
    else:
        text = f"cannot be loaded: open_clip says {first_line(error)}"
    return ModelError(f"model {request.name.text!r} {text}.")


@contextlib.contextmanager
def _own_log() -> Iterator[None]:
    """Keeps open_clip, which logs to the root, from giving the whole program a log on stderr."""
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)


def _recipe(about: dict[str, Any]) -> Any:
    size = about["size"] if not isinstance(about["size"], int) else (about["size"],) * 2
    return Recipe(
        size=tuple(size),
        fit=about["resize_mode"],
        interpolation=about["interpolation"] if about["interpolation"] != "random" else "bicubic",
        mean=tuple(about["mean"]),
        std=tuple(about["std"]),
        fill=(about["fill_color"],) * 3,
    )


def _tokeniser(library: Any, request: ModelRequest, model_name: str) -> Any:
    """The tokeniser a configuration asks for; its files are fetched only now, when texts are
    embedded.
    """
    from fieldmark.models._torch.dual import Tokeniser
    from fieldmark.models._torch.weights import TOKENISER, hub_folder

    kind, _, source = model_name.partition(":")
    text = _about(library, model_name).get("text_cfg", {})
    settings = dict(text.get("tokenizer_kwargs", {}))
    length = text.get("context_length", 77)
    repo = text.get("hf_tokenizer_name", "")
    if not repo:
        simple = library.tokenizer.SimpleTokenizer(context_length=length, **settings)
        return Tokeniser(
            length,
            lambda texts: {"text": simple(texts)},
            lambda texts: [len(simple.encode(text)) + 2 for text in texts],
        )
    has_own = kind == "local-dir" and (Path(source) / TOKENISER[0][0]).is_file()
    folder = Path(source) if has_own else hub_folder(request, repo, TOKENISER)
    mode = text.get("tokenizer_mode")
    # Last, so that the configuration of a stranger cannot allow its own code to run.
    settings |= {"trust_remote_code": False, "local_files_only": True}
    try:
        theirs = library.tokenizer.HFTokenizer(
            str(folder), context_length=length, tokenizer_mode=mode, **settings
        )
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, ImportError) as error:
        raise _failure(request, error) from error
    return Tokeniser(
        length,
        lambda texts: {"text": theirs(texts)},
        partial(_count, theirs, mode == "clips"),
        theirs.save_pretrained,
    )


def _count(tokeniser: Any, adds_own: bool, texts: list[str]) -> list[int]:
    """`adds_own`: begin, end and class are put around what the tokeniser gives."""
    clean = [tokeniser.clean_fn(text) for text in texts]
    rows = tokeniser.tokenizer(clean, add_special_tokens=not adds_own, verbose=False).input_ids
    return [len(row) + 3 * adds_own for row in rows]
