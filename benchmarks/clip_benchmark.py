"""Does CLIP_benchmark give the same zero-shot accuracy and recall, for the same model and images?

    python benchmarks/clip_benchmark.py [--size 1500] [--quick]

A tiny open_clip model with random weights, photos of the synthetic world whose captions differ, its
species as classes with three templates. CLIP_benchmark (its package alone, installed in a
throw-away folder beside the same torch and open_clip) prepares the images and runs the model by
itself. Both compute in float32, each in its own order: an item whose best two scores agree to six
digits may fall either way, so figures may differ by two items. Without the package it says so;
`--quick` does not install it, and shows our figures alone.

2026-11-16, CLIP_benchmark 1.6.2, 41 photos: 8 figures, 0 items apart.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import open_clip
import polars as pl
import torch

from _quick import Flags, finish, skip
from fieldmark import evaluate
from fieldmark.data import load_dataset
from fieldmark.settings import Settings
from fieldmark.world import World

RIVAL = Path(__file__).with_name("_clip_rival.py")
PACKAGES = ("clip-benchmark==1.6.2", "numpy<2.4")
"""it takes arrays of one number for numbers, which later numpy refuses"""
TEMPLATES = ["a photo of {}.", "a blurry photo of {}.", "a drawing of {} in the wild."]
DEPTHS = [1, 5, 10]
SLACK = 2
"""items that rounding may move"""
MODEL = {
    "model_cfg": {
        "embed_dim": 64,
        "vision_cfg": {
            "image_size": 64, "layers": 3, "width": 96, "head_width": 32, "patch_size": 8,
        },
        "text_cfg": {
            "context_length": 77, "vocab_size": 49408, "width": 96, "heads": 3, "layers": 2,
        },
    },
    "preprocess_cfg": {"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28]},
}  # fmt: skip


def make_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "open_clip_config.json").write_text(json.dumps(MODEL))
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}")
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return folder


def make_photos(root: Path, size: int) -> pl.DataFrame:
    """Photos of the world's test split with captions that no other photo has."""
    dataset = load_dataset("world")
    dataset.make(root, World(), size)
    table = dataset.table(root).filter(
        pl.col("question") == "species", pl.col("split") == "test", pl.col("caption") != ""
    )
    return table.unique("caption", keep="first", maintain_order=True).sort("id")


def task_file(path: Path, ids: list[str]) -> str:
    """One task for both protocols, about these photos only."""
    task = {
        "task": "same-photos",
        "title": "The same photos",
        "dataset": "world",
        "where": {"question": "species", "id": ids},
        "label": "scientific_name",
        "metric": "accuracy",
        "also": ["top5_accuracy"],
        "zero_shot": {"text": "asis", "templates": TEMPLATES},
    }
    captioned = {key: task[key] for key in ("task", "title", "dataset", "where")} | {
        "metric": "recall_at_5",
        "also": ["recall_at_1", "recall_at_10"],
        "retrieve": {"caption": "caption"},
    }
    path.write_text(json.dumps(task if path.stem == "zero-shot" else captioned))
    return str(path)


def ours(folder: Path, model: Path, ids: list[str]) -> dict[str, float]:
    settings = Settings(
        results=folder / "results", cache=folder / "cache", data={"world": folder / "world"},
        device="cpu", precision="float32", offline=True,
    )  # fmt: skip
    figures = {}
    for name, protocol in (("zero-shot", "zero_shot"), ("captions", "retrieve")):
        task = task_file(folder / f"{name}.yaml", ids)
        done = evaluate(f"open-clip/local-dir:{model}", task, protocol=protocol, settings=settings)
        figures |= {f"{score.part} {score.metric}".strip(): score.value for score in done.scores}
    return figures


def theirs(folder: Path, job: dict[str, Any]) -> dict[str, Any] | None:
    """What CLIP_benchmark prints; None where it cannot be had."""
    uv = shutil.which("uv")
    beside = folder / "beside"
    try:
        if uv is None:
            return None
        command = [uv, "pip", "install", "--quiet", "--no-config", "--no-deps"]
        command += ["--python", sys.executable, "--target", str(beside), *PACKAGES]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    except (subprocess.SubprocessError, OSError):
        return None
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run(  # -P: this file, too, is called clip_benchmark
        [sys.executable, "-P", RIVAL, folder / "job.json"],
        env={**os.environ, "PYTHONPATH": str(beside)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--size", type=int, default=1500, help="photos of the made world, about")
    given = flags.parse(size=150)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_model(folder / "model")
        photos = make_photos(folder / "world", given.size)
        classes = sorted(photos["scientific_name"].unique())
        job = {
            "model": f"local-dir:{model}",
            "images": [str(folder / "world" / path) for path in photos["image"]],
            "labels": [classes.index(label) for label in photos["scientific_name"]],
            "captions": photos["caption"].to_list(),
            "classes": classes,
            "templates": [template.replace("{}", "{c}") for template in TEMPLATES],
            "depths": DEPTHS,
        }
        rival = None if given.quick else theirs(folder, job)
        if rival is None and not given.quick:
            return skip(f"{PACKAGES[0]} cannot be installed here")
        own = ours(folder, model, photos["id"].to_list())
    return compare(own, rival, len(photos))


def compare(own: dict[str, float], rival: dict[str, Any] | None, n_photos: int) -> int:
    """Figure by figure; without the rival, ours alone."""
    names = {"accuracy": "acc1", "top5_accuracy": "acc5"}
    for k in DEPTHS:
        names[f"text_to_image recall_at_{k}"] = f"image_retrieval_recall@{k}"
        names[f"image_to_text recall_at_{k}"] = f"text_retrieval_recall@{k}"
    figure = f"clip_benchmark: {len(names)} figures of {n_photos} photos"
    if rival is None:
        for name in names:
            print(f"{name:30} {own[name]:.4f}")
        return finish(f"{figure}, not compared", {}, is_quick=True)
    for name, theirs_name in names.items():
        print(f"{name:30} {own[name]:.4f}   CLIP_benchmark {rival[theirs_name]:.4f}")
    worst = max(abs(own[name] - rival[other]) * n_photos for name, other in names.items())
    figure += f", at most {worst:.0f} items apart from CLIP_benchmark {rival['version']}"
    return finish(figure, {f"≤ {SLACK} items": worst <= SLACK}, is_quick=False)


if __name__ == "__main__":
    sys.exit(main())
