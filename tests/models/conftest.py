"""Small real networks and photos for the model tests. Nothing here reaches beyond this machine."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 99}


def photo(seed: int, width: int = 48, height: int = 40, mode: str = "RGB") -> Image.Image:
    """A smooth made-up picture: colour gradients and a few discs, different for each seed."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:height, 0:width]
    planes = [rows * random.uniform(0, 4) + columns * random.uniform(0, 4) for _ in range(3)]
    pixels = np.stack(planes, axis=-1) % 256
    for _ in range(3):
        y, x, radius = random.uniform(0, height), random.uniform(0, width), height / 5
        pixels[(rows - y) ** 2 + (columns - x) ** 2 < radius**2] = random.uniform(0, 255, 3)
    return Image.fromarray(pixels.astype(np.uint8)).convert(mode).convert("RGB")


@pytest.fixture(scope="session")
def make_photo() -> Callable[..., Image.Image]:
    return photo


@pytest.fixture(scope="session")
def photos() -> list[Image.Image]:
    return [photo(seed) for seed in range(7)]


@pytest.fixture(scope="session")
def hf_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders as `save_pretrained` writes them, one for each kind of pooling."""
    import torch
    import transformers

    root = tmp_path_factory.mktemp("hf")
    convnext = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "image_size": 32}
    vjepa2 = {**VISION, "crop_size": 32, "mlp_ratio": 2.0, "frames_per_clip": 4}
    vjepa2 |= {"pred_hidden_size": 16, "pred_num_attention_heads": 2, "pred_num_hidden_layers": 1}
    configs = {
        "dinov2": transformers.Dinov2WithRegistersConfig(**VISION),
        "dinov3": transformers.DINOv3ViTConfig(**VISION, num_register_tokens=2),
        "siglip": transformers.SiglipConfig(text_config=TEXT, vision_config=VISION),
        "clip": transformers.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=24),
        "vit": transformers.ViTConfig(**VISION),
        "convnext": transformers.ConvNextConfig(**convnext),
        "vjepa2": transformers.VJEPA2Config(**vjepa2),
    }
    folders = {name: root / name for name in configs}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for name, config in configs.items():
            transformers.AutoModel.from_config(config).save_pretrained(folders[name])
    square = {"height": 32, "width": 32}
    transformers.CLIPImageProcessor(size={"shortest_edge": 36}, crop_size=square).save_pretrained(
        folders["clip"]
    )
    transformers.SiglipImageProcessor(size=square).save_pretrained(folders["siglip"])
    transformers.BitImageProcessor(size={"shortest_edge": 40}, crop_size=square).save_pretrained(
        folders["dinov2"]
    )
    return folders


WORDS = ("a", "photo", "of", "lynx", "wren", "eagle", "many", "words", "with", "common", "name")


def save_tokeniser(folder: Path, *, words: Sequence[str] = WORDS, begin: bool = True) -> None:
    """A tokeniser of whole words, lower case; `begin` puts a token before the text as CLIP does."""
    import tokenizers
    import transformers

    vocabulary = {
        word: number for number, word in enumerate(["[pad]", "[b]", "[u]", "[e]", *words])
    }
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[u]"))
    fast.normalizer = tokenizers.normalizers.Lowercase()
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{'[b] ' if begin else ''}$A [e]", special_tokens=[("[b]", 1), ("[e]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="[pad]", bos_token="[b]", eos_token="[e]", unk_token="[u]"
    ).save_pretrained(folder)


@pytest.fixture(scope="session")
def hf_duals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Dual encoders with a tokeniser, as `save_pretrained` writes them."""
    import torch
    import transformers

    root = tmp_path_factory.mktemp("hf_duals")
    text = {**TEXT, "intermediate_size": 48, "pad_token_id": 0, "bos_token_id": 1}
    text |= {"eos_token_id": 3}
    small = {**text, "max_position_embeddings": 20}
    both = {"vision_config": VISION, "projection_dim": 24}
    configs = {
        "clip": transformers.CLIPConfig(text_config=small, **both),
        "siglip": transformers.SiglipConfig(text_config=small, vision_config=VISION),
        "chinese": transformers.ChineseCLIPConfig(text_config=text, **both),
        "metaclip2": transformers.MetaClip2Config(text_config=small, **both),
    }
    folders = {name: root / name for name in configs}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for name, config in configs.items():
            transformers.AutoModel.from_config(config).save_pretrained(folders[name])
            save_tokeniser(folders[name], begin=name != "siglip")
    square = {"height": 32, "width": 32}
    transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=square).save_pretrained(
        folders["clip"]
    )
    return folders


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny CLIP as open_clip publishes them: configuration and weights in one folder."""
    import open_clip
    import torch

    folder = tmp_path_factory.mktemp("clip")
    about = {
        "model_cfg": {
            "embed_dim": 24,
            "vision_cfg": {
                "image_size": 32,
                "layers": 2,
                "width": 32,
                "head_width": 16,
                "patch_size": 8,
            },
            "text_cfg": {
                "context_length": 16,
                "vocab_size": 49408,
                "width": 32,
                "heads": 2,
                "layers": 1,
            },
        },
        "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
    }
    (folder / "open_clip_config.json").write_text(json.dumps(about))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = open_clip.create_model(f"local-dir:{folder}")
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """No names resolve, and the hubs' caches are empty folders; yields their parent."""
    import torch
    from huggingface_hub import constants

    resolve = socket.getaddrinfo

    def refuse(host: str, *rest: object, **others: object) -> object:
        if host == "127.0.0.1":
            return resolve(host, *rest, **others)  # type: ignore[arg-type]
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    before = torch.hub.get_dir()
    torch.hub.set_dir(str(tmp_path / "torch"))
    yield tmp_path
    torch.hub.set_dir(before)


@pytest.fixture
def put_in_hub_cache(no_network: Path) -> Callable[[str, Path], None]:
    """Lays a folder into the (empty) hub cache as a download of `repo` would have left it."""

    def put(repo: str, folder: Path) -> None:
        commit = "0" * 40
        place = no_network / "hf" / f"models--{repo.replace('/', '--')}"
        (place / "refs").mkdir(parents=True)
        (place / "refs" / "main").write_text(commit)
        (place / "snapshots").mkdir()
        (place / "snapshots" / commit).symlink_to(folder)

    return put
