"""Small dual encoders: random ones of both families, one whose every feature a test can work out,
and tasks about a table of a user's own."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import yaml
from PIL import Image

from fieldmark import draws
from fieldmark.models import Features
from fieldmark.settings import Settings
from kit.pictures import write_image

VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 32,
    "patch_size": 16,
}


def save_open_clip(folder: Path, seed: int = 0) -> str:
    """A tiny random CLIP as open_clip publishes them; its name."""
    import open_clip
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    vision = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
    config = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}
    preprocess = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    about = {"model_cfg": config, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(about))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = open_clip.create_model(f"local-dir:{folder}")
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return f"open-clip/local-dir:{folder}"


def save_siglip(folder: Path) -> str:
    """A tiny random SigLIP, scale and bias included, as `save_pretrained` writes it; its name."""
    import tokenizers
    import torch
    import transformers

    characters = [chr(code) for code in range(32, 127)]
    vocabulary = {
        token: number for number, token in enumerate(["[pad]", "[u]", "[e]", *characters])
    }
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[u]"))
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    fast.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A [e]", special_tokens=[("[e]", 2)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="[pad]", eos_token="[e]", unk_token="[u]"
    ).save_pretrained(folder)
    text = {**VISION, "vocab_size": len(vocabulary), "max_position_embeddings": 64}
    text = {key: text[key] for key in text if key not in ("image_size", "patch_size")}
    text |= {"pad_token_id": 0, "eos_token_id": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        config = transformers.SiglipConfig(text_config=text, vision_config=VISION)
        model = transformers.AutoModel.from_config(config)
        torch.nn.init.constant_(model.logit_scale, 2.3)
        torch.nn.init.constant_(model.logit_bias, -4.0)
    model.save_pretrained(folder)
    transformers.SiglipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return f"hf/{folder}"


@dataclass
class HashDual:
    """Every text has a random direction of its own, every picture one that follows its colours."""

    name: str = "hash-dual"
    dim: int = 12
    logit_scale: float = 20.0
    logit_bias: float | None = None
    sign: float = 1.0
    """of the texts' features"""
    tag: str = field(default_factory=lambda: uuid4().hex)
    """tells it apart from others of a test's; what it was asked is its own then"""
    said: list[str] = field(default_factory=list)
    """every text it was asked to embed"""
    looked: list[int] = field(default_factory=list)
    """the size of every batch of pictures"""

    @property
    def fingerprint(self) -> str:
        facts = (self.tag, self.dim, self.logit_scale, self.logit_bias, self.sign)
        return draws.digest(*facts).hex()

    def transform(self, image: Image.Image) -> np.ndarray:
        return np.asarray(image.convert("RGB").resize((3, 3)), np.float32) / 255

    def embed_images(self, batch: np.ndarray, *, patches: bool = False) -> Features:
        self.looked.append(len(batch))
        matrix = np.random.default_rng(3).standard_normal((27, self.dim))
        centred = batch.reshape(len(batch), 27).astype(np.float64) - 0.4
        return Features((centred @ matrix).astype(np.float32), None)

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.said.extend(texts)
        rows = [draws.generator("direction", text).standard_normal(self.dim) for text in texts]
        return (self.sign * np.array(rows).reshape(len(texts), self.dim)).astype(np.float32)

    # What a test compares with: in float64, of length one.

    def image_rows(self, paths: Sequence[Path]) -> np.ndarray:
        twin = replace(self, looked=[])
        batch = np.stack([self.transform(Image.open(path)) for path in paths])
        return _unit(twin.embed_images(batch).pooled)

    def text_rows(self, texts: Sequence[str]) -> np.ndarray:
        return _unit(replace(self, said=[]).embed_texts(texts))


def _unit(x_nd: np.ndarray) -> np.ndarray:
    x_nd = np.asarray(x_nd, np.float64)
    return np.asarray(x_nd / np.linalg.norm(x_nd, axis=1, keepdims=True))


class Album:
    """Photos of a user's own with a table, and tasks about them."""

    def __init__(self, place: Path) -> None:
        self.place, self.photos = place, place / "photos"
        self.settings = Settings(results=place / "results", cache=place / "cache")
        self.settings = replace(self.settings, data_root=place)

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The table; a picture is drawn where a row names one that is not there."""
        self.photos.mkdir(parents=True, exist_ok=True)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        with (self.photos / "rows.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
        for row in rows:
            path = self.photos / row["image"]
            if not path.exists():
                write_image(path, draws.number("picture", row["image"]) % 100_000)

    def rows(self) -> list[dict[str, str]]:
        with (self.photos / "rows.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def task(self, name: str = "album", **keys: Any) -> str:
        """The path of a task file about the table."""
        about = {"task": name, "title": "Album", "dataset": "csv", "data": "photos", **keys}
        path = self.place / f"{name}.yaml"
        path.write_text(yaml.safe_dump(about, sort_keys=False, allow_unicode=True))
        return str(path)

    def paths(self, rows: Sequence[Mapping[str, Any]]) -> list[Path]:
        return [self.photos / row["image"] for row in rows]
