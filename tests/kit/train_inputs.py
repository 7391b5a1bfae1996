"""A training of seconds: shards with plain photos, a recipe with a tiny network, the command."""

from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path
from typing import Any

from PIL import Image

SMALL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {
        "context_length": 32,
        "vocab_size": 49408,
        "width": 32,
        "heads": 2,
        "layers": 1,
    },
}
RECIPE = """
[model]
architecture = "small.json"
projectors = ["taxonomic", "caption"]

[texts]
types = {taxon = 1, sci = 1, caption = 1}

[optimiser]
lr = 1e-3
warmup_steps = 5

[train]
batch = 8
epochs = 4
log_steps = 3
ema = 0.9

[state]
every_steps = 4
"""


def write_shards(folder: Path, n_shards: int = 2, n: int = 20) -> Path:
    folder.mkdir(parents=True)
    draw = random.Random(0)
    for number in range(n_shards):
        with tarfile.open(folder / f"s-{number}.tar", "w") as tar:
            for place in range(n):
                colour = tuple(draw.randrange(256) for _ in range(3))
                photo = io.BytesIO()
                Image.new("RGB", (24, 20), colour).save(photo, "JPEG")
                kind = draw.randrange(4)
                members = {
                    "jpg": photo.getvalue(),
                    "taxon.txt": f"a photo of Animalia Aves species{kind}.".encode(),
                    "sci.txt": f"a photo of species{kind}.".encode(),
                    "caption.txt": f"A bird of colour {colour} on a branch.".encode(),
                }
                for ending, data in members.items():
                    facts = tarfile.TarInfo(f"{number}-{place:03d}.{ending}")
                    facts.size = len(data)
                    tar.addfile(facts, io.BytesIO(data))
    return folder


def write_inputs(folder: Path) -> Path:
    """Shards, network and recipe, as `words` names them."""
    write_shards(folder / "shards")
    (folder / "small.json").write_text(json.dumps(SMALL))
    (folder / "small.toml").write_text(RECIPE)
    return folder


def words(inputs: Path, out: Path, *more: str) -> list[str]:
    flags = ["--shards", str(inputs / "shards"), "--out", str(out), "--device", "cpu"]
    return ["train", str(inputs / "small.toml"), *flags, *more]


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def curve(run: Path) -> list[Any]:
    """What a training has logged, without times and speeds."""
    kept = ("step", "loss", "loss_by_type", "scales", "lr", "grad_norm")
    return [[row[key] for key in kept] for row in rows_of(run)]


def last_step(run: Path) -> int:
    """That of the newest checkpoint."""
    return max((int(path.stem[5:]) for path in run.glob("checkpoints/*.pt")), default=0)


def weights(run: Path) -> dict[str, bytes]:
    """Those of the newest checkpoint, to the last bit."""
    import torch

    path = run / "checkpoints" / f"step-{last_step(run):08d}.pt"
    state = torch.load(path, weights_only=True)
    named = state["model"] | {f"average.{name}": w for name, w in state["average"].items()}
    return {name: tensor.numpy().tobytes() for name, tensor in named.items()}
