"""Loader of training: images a second from shards to batches on the device; do steps wait?

    python benchmarks/train_loader.py [--images 32768] [--batch 1024] [--rate 3200] [--quick]

Makes shards of JPEGs of four sizes (about 95 kB, texts of four types), then measures for each way
of decoding that the machine has:

    rate     batches are taken as fast as they come
    wait     each step keeps the device busy for batch / rate seconds: share of the time it waits
    pixels   difference from the exact way, in grey levels

Bars on an H200 with 16 cores: 6,000 images/s with decode gpu, a wait below 2 % at 3,200 images/s.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from _quick import Flags, finish
from embed_gpu import make_jpeg
from fieldmark.build.train.feed.index import TrainData, open_data
from fieldmark.build.train.feed.loader import LoaderOptions, TrainBatch, open_loader
from fieldmark.build.train.recipe import TrainRecipe
from fieldmark.devices import nvjpeg_library

SIZE = 224
PER_SHARD = 1024
N_DISTINCT = 1024
WARM_STEPS = 4


def write_shards(folder: Path, n_images: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        jpegs = list(pool.map(make_jpeg, range(min(N_DISTINCT, n_images)), chunksize=16))
    for start in range(0, n_images, PER_SHARD):
        with tarfile.open(folder / f"{start // PER_SHARD:05}.tar", "w") as archive:
            for number in range(start, min(start + PER_SHARD, n_images)):
                name = f"Genus{number % 300} species{number % 900}"
                members = {
                    "jpg": jpegs[number % len(jpegs)],
                    "sci.txt": f"a photo of {name}.".encode(),
                    "taxon.txt": f"a photo of Animalia Chordata Aves {name}.".encode(),
                    "com.txt": b"a photo of a bird.",
                    "caption.txt": f"{name} number {number} sits on a branch in the sun.".encode(),
                }
                for extension, data in members.items():
                    info = tarfile.TarInfo(f"{number:08}.{extension}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))


def recipe(batch: int) -> TrainRecipe:
    return TrainRecipe.model_validate(
        {
            "model": {"projectors": ["taxonomic", "caption"]},
            "texts": {"types": {"sci": 1.0, "taxon": 1.0, "com": 1.0, "caption": 1.0}},
            "train": {"batch": batch},
        }
    )


def tokeniser() -> Any:
    try:
        import open_clip

        return open_clip.get_tokenizer("ViT-B-16")
    except ImportError:
        return lambda texts: torch.zeros((len(texts), 77), dtype=torch.int64)


@contextmanager
def opened(
    data: TrainData, arguments: argparse.Namespace, device: Any, decode: str, n_steps: int
) -> Iterator[Iterator[TrainBatch]]:
    options = LoaderOptions(n_readers=arguments.readers or None, decode=decode)
    own = recipe(arguments.batch)
    with open_loader(
        data, own, tokeniser(), device, image_size=SIZE, last_step=n_steps, options=options
    ) as batches:
        yield batches


def busy_work(device: Any) -> Any:
    """A function that keeps the device busy for so many seconds, and waits for it."""
    if device.type != "cuda":
        return time.sleep
    matrix = torch.randn((8192, 8192), device=device, dtype=torch.bfloat16)
    out = torch.empty_like(matrix)

    def work(n: int) -> float:
        began = time.perf_counter()
        for _ in range(n):
            torch.mm(matrix, matrix, out=out)
        torch.cuda.synchronize(device)
        return time.perf_counter() - began

    work(20)
    a_product = work(100) / 100
    return lambda seconds: work(max(1, round(seconds / a_product)))


def measure(
    data: TrainData, arguments: argparse.Namespace, device: Any, decode: str
) -> dict[str, float]:
    n_steps = arguments.images // arguments.batch * arguments.epochs
    began = time.perf_counter()
    with opened(data, arguments, device, decode, n_steps) as batches:
        for batch in batches:
            if batch.step == 0:
                first_s = time.perf_counter() - began
            if batch.step == WARM_STEPS - 1:
                began = time.perf_counter()
        seconds = time.perf_counter() - began
    rate = (n_steps - WARM_STEPS) * arguments.batch / seconds
    work, step_s = busy_work(device), arguments.batch / arguments.rate
    waits = list[float]()
    with opened(data, arguments, device, decode, n_steps) as batches:
        for batch in batches:
            if batch.step == WARM_STEPS:
                waits, began = [], time.perf_counter()
            waits.append(batch.wait_s)
            work(step_s)
    whole_s = time.perf_counter() - began
    return {
        "images_per_s": round(rate),
        "first_batch_s": round(first_s, 2),
        "steps_images_per_s": round((n_steps - WARM_STEPS) * arguments.batch / whole_s),
        "wait_share": round(sum(waits) / whole_s, 4),
    }


def difference(
    data: TrainData, arguments: argparse.Namespace, device: Any, decode: str
) -> dict[str, float]:
    made: dict[str, Sequence[TrainBatch]] = {}
    for way in ("reference", decode):
        with opened(data, arguments, device, way, 1) as batches:
            made[way] = list(batches)
    one, other = (made[way][0] for way in ("reference", decode))
    far = (one.images.int() - other.images.int()).abs().float()
    assert torch.equal(one.tokens, other.tokens)
    return {
        "mean_grey_levels": round(float(far.mean()), 4),
        "most_grey_levels": float(far.max()),
        "share_above_1": float((far > 1).float().mean()),
    }


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--images", type=int, default=32_768)
    flags.add_argument("--batch", type=int, default=1024)
    flags.add_argument("--rate", type=float, default=3200.0)
    flags.add_argument("--readers", type=int, default=0)
    flags.add_argument("--epochs", type=int, default=2)
    flags.add_argument("--decode", default="")
    flags.add_argument("--folder", type=Path)
    arguments = flags.parse(images=32, batch=4, readers=1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shown, bars = list[str](), dict[str, bool]()
    ways = ["gpu", "cpu"] if device.type == "cuda" and nvjpeg_library() else ["cpu"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not list(folder.glob("*.tar")):
            write_shards(folder, arguments.images)
        data = open_data([folder], None, folder / "index", recipe(arguments.batch))
        for decode in [arguments.decode] if arguments.decode else ways:
            row = {"decode": decode, "cores": os.cpu_count(), "batch": arguments.batch}
            row |= measure(data, arguments, device, decode)
            row |= difference(data, arguments, device, decode)
            print(json.dumps(row), flush=True)
            shown.append(
                f"{row['images_per_s']:,} images/s, wait {row['wait_share']:.1%} ({decode})"
            )
            if decode == "gpu":
                bars = {
                    "≥ 6,000 images/s": row["images_per_s"] >= 6000,
                    "wait < 2 %": row["wait_share"] < 0.02,
                }
    return finish(f"train_loader: {', '.join(shown)}", bars, arguments.quick)


if __name__ == "__main__":
    sys.exit(main())
