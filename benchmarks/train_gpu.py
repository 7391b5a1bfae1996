"""Training on a GPU: pairs of photos and texts per second, against open_clip's own trainer.

    pip install --no-deps --target rival webdataset==0.2.86
    python benchmarks/train_gpu.py --rival-path rival [--steps 80] [--batch 1024] [--quick]

Makes webdataset shards on disk (JPEGs, TreeOfLife's text members, captions), then trains ViT-B/16
at 224 in bf16 on them from random weights:

    step alone   `Updater.step` on one batch that lies on the card
    fieldmark    `fieldmark.build.train.train`: shards → log, taxonomy and captions, two projectors
    open_clip    `python -m open_clip_train.main`: the same shards, batch and precision; it does not
                 run with newer versions of webdataset

Rates are of the steps after the first ones (compiling, start of workers). FLOPs: 41.09 GFLOP
forward per pair at 77 tokens (open_clip's table), three times that for a step; texts trimmed to n
tokens count n / 77 of the text tower's 5.96. The image tower's last block is computed for one token
only; what that saves counts as the network's work (MFU), the log's own figure leaves it out.
Activations are computed once by both trainers. Peak: 989 TFLOP/s, dense bf16, H100 and H200.

Bars: 3,000 pairs/s, 37 % of the peak, 2 % waiting for data, 2 times open_clip. `--quick` trains a
tiny network without the rival, on the CPU where there is no GPU.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from _quick import Flags, finish, skip
from embed_gpu import gpu_or_cpu, make_jpeg

IMAGE_FLOPS, TEXT_FLOPS, PEAK = 35.13e9, 5.96e9, 989e12
SAVED_FLOPS = 2 * 196 * (10 * 768**2 + 2 * 197 * 768)
"""of 196 tokens in the last block of the image tower: all but their keys and values"""
N_DISTINCT, N_WARM = 4096, 20
TOY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {
        "context_length": 32, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1,
    },
}  # fmt: skip
"""a network for `--quick`"""
TYPES = ("sci", "com", "taxon", "sci_com", "taxon_com")


def make_photo(size: tuple[int, int], seed: int) -> bytes:
    import PIL.Image

    image = PIL.Image.open(io.BytesIO(make_jpeg(seed))).resize(size)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


def texts_of(number: int) -> dict[str, str]:
    """A species of ten thousand, as TreeOfLife writes it, and a caption of 20 words."""
    rng = np.random.default_rng(number % 10_000)
    genus, species = (
        "".join(rng.choice(list("aeioulnrstm"), length)).capitalize() for length in (7, 9)
    )
    name = f"{genus} {species.lower()}"
    ranks = f"Animalia Chordata Aves {genus}iformes {genus}idae {name}"
    common = f"{rng.choice(['spotted', 'barred', 'great'])} {rng.choice(['finch', 'owl', 'duck'])}"
    own = np.random.default_rng(number)
    colours = own.choice(["black", "white", "rusty brown", "olive green", "slate grey"], 3)
    return {
        "sci.txt": f"a photo of {name}.",
        "com.txt": f"a photo of {common}.",
        "taxon.txt": f"a photo of {ranks}.",
        "sci_com.txt": f"a photo of {name} with common name {common}.",
        "taxon_com.txt": f"a photo of {ranks} with common name {common}.",
        "caption.txt": f"A {common} ({name}) with a {colours[0]} back, {colours[1]} underparts and "
        f"{colours[2]} legs stands on a branch, number {number}.",
        "txt": f"a photo of {ranks} with common name {common}.",
    }


def write_shards(root: Path, n: int, size: tuple[int, int], per_shard: int = 1024) -> list[str]:
    root.mkdir(parents=True)
    with ProcessPoolExecutor() as pool:
        photos = list(pool.map(partial(make_photo, size), range(min(n, N_DISTINCT)), chunksize=32))
    shards = []
    for start in range(0, n, per_shard):
        shards.append(str(root / f"made-{start // per_shard:05d}.tar"))
        with tarfile.open(shards[-1], "w") as tar:
            for number in range(start, min(n, start + per_shard)):
                members = {"jpg": photos[number % len(photos)]}
                members |= {key: text.encode() for key, text in texts_of(number).items()}
                for extension, data in members.items():
                    info = tarfile.TarInfo(f"{number:07d}.{extension}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    mean = np.mean([len(photo) for photo in photos]) / 1000
    print(f"{n:,} pairs in {len(shards)} shards, {size[0]} × {size[1]} px, {mean:.0f} kB each")
    return shards


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained, and where."""

    batch: int
    steps: int
    device: str
    more: tuple[str, ...] = ()
    """as `--set` takes it"""
    image_px: int = 224

    def recipe(self, steps: int) -> Any:
        from fieldmark.build.train.recipe import load_recipe

        return load_recipe(
            "biocap",
            [
                "model.init=random",
                f"train.batch={self.batch}",
                f"train.steps={steps}",
                "state.every_steps=100000",
                "optimiser.warmup_steps=20",
                "train.recompute=0",  # the recipe's 1.0 is for 4,096 pairs a GPU
                *self.more,
            ],
        )


def toy_training(given: argparse.Namespace, device: str, folder: Path) -> Training:
    network = folder / "toy.json"
    network.write_text(json.dumps(TOY))
    more = (f"model.architecture={network}", "train.compile=off", "train.precision=float32")
    return Training(given.batch, given.steps, device, more, TOY["vision_cfg"]["image_size"])


def step_alone(training: Training, length: int) -> float:
    """Pairs/s on a batch that lies on the device; texts of `length` tokens."""
    import torch

    from fieldmark.build.train.feed.loader import TrainBatch
    from fieldmark.build.train.network import make_clip_model
    from fieldmark.build.train.optimiser import Updater
    from fieldmark.build.train.parallel import open_ranks, spread

    recipe, batch, device = training.recipe(1000), training.batch, training.device
    size = (batch, 3, training.image_px, training.image_px)
    with open_ranks(device) as ranks:
        clip_model = make_clip_model(recipe.model, recipe.loss.kind, 0)
        updater = Updater(clip_model, spread(clip_model, ranks, "ddp"), recipe, ranks, 1000, print)
        tokens = torch.randint(1, 49_000, (batch, length), device=device)
        tokens[:, -1] = 49_407
        numbers = torch.arange(batch, device=device)
        made = TrainBatch(
            step=0,
            images=torch.randint(0, 256, size, dtype=torch.uint8, device=device),
            tokens=tokens,
            type_ids=numbers % 6,
            projectors=(numbers % 6 == 5).long(),
            text_ids=numbers,
            wait_s=0.0,
        )
        wait = torch.cuda.synchronize if device == "cuda" else lambda: None
        for _ in range(4):
            updater.step(made)
        wait()
        began = time.perf_counter()
        for _ in range(10):
            updater.step(made)
        wait()
    return 10 * batch / (time.perf_counter() - began)


def fieldmark_run(shards: list[str], out: Path, training: Training) -> dict[str, float]:
    """The whole run; the log's own figures of the later steps, and the clock around them."""
    from fieldmark.build.train.run import TrainPlan, train

    began = time.perf_counter()
    recipe = training.recipe(training.steps)
    train(TrainPlan(recipe, tuple(shards), None, out, device=training.device))
    seconds = time.perf_counter() - began
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    late = rows[N_WARM:]
    rates = np.array([row["pairs_per_s"] for row in late])
    share = (1 / rates) / (1 / rates).sum()  # of the time
    print("  pairs/s of every tenth step:", *(f"{rate:,.0f}" for rate in rates[9::10]))
    return {
        "rate": float(share @ rates),
        "wait": float(share @ [row["data_wait"] for row in late]),
        "computed": float(share @ [row["mfu"] or 0.0 for row in late]),  # none without a GPU
        "whole": training.batch * training.steps / seconds,
    }


def rival_run(shards: list[str], out: Path, batch: int, steps: int, path: str) -> float:
    """open_clip's trainer; seconds a batch as it logs them. Its 15 workers bring a batch each at
    about the same time, so two of three whole rounds count.
    """
    numbers = [re.sub(r".*-(\d+)\.tar", r"\1", shard) for shard in shards]
    pattern = re.sub(r"-\d+\.tar$", f"-{{{numbers[0]}..{numbers[-1]}}}.tar", shards[0])
    flags = {
        "train-data": pattern,
        "train-num-samples": batch * steps,
        "dataset-type": "webdataset",
        "batch-size": batch,
        "precision": "amp_bf16",
        "workers": max(1, (os.cpu_count() or 2) - 1),
        "model": "ViT-B-16",
        "epochs": 1,
        "warmup": 20,
        "log-every-n-steps": 1,
        "logs": out,
    }
    words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    run = subprocess.run(
        [sys.executable, "-m", "open_clip_train.main", *words],
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
    )
    times = [float(s) for s in re.findall(r"Batch \(t\): ([\d.]+)", run.stdout + run.stderr)]
    if run.returncode or len(times) < 45:
        print((run.stdout + run.stderr)[-1500:])
        return float("nan")
    return batch / float(np.mean(times[15:45]))


def utilisation(rate: float, length: float = 77) -> float:
    return rate * 3 * (IMAGE_FLOPS + TEXT_FLOPS * length / 77) / PEAK


def measure(args: argparse.Namespace, folder: Path, training: Training) -> int:
    width, height = (int(side) for side in args.photo.split("x"))
    shards = write_shards(folder / "shards", args.batch * 32, (width, height))
    theirs = float("nan")
    if not args.skip_rival:  # first: it needs the memory that this process will hold
        theirs = rival_run(shards, folder / "rival", args.batch, 45, args.rival_path)
        print(
            f"  open_clip: {theirs:,.0f} pairs/s, {utilisation(theirs):.1%} of the peak", flush=True
        )
    for length in args.lengths:
        rate = step_alone(training, length)
        share = "" if args.quick else f", {utilisation(rate, length):.1%} of the peak"
        print(f"  step alone, {length} tokens: {rate:,.0f} pairs/s{share}", flush=True)
    ours = fieldmark_run(shards, folder / "run", training)
    figure = (
        f"train_gpu: {ours['rate']:,.0f} pairs/s, {ours['wait']:.2%} waiting for data, "
        f"from start to end {ours['whole']:,.0f} pairs/s"
    )
    if args.quick:
        return finish(figure, {}, is_quick=True)
    used = ours["computed"] + ours["rate"] * 3 * SAVED_FLOPS / PEAK
    print(
        f"  fieldmark: {used:.1%} of the peak (texts as trimmed; "
        f"{ours['computed']:.1%} without what the last block saves, "
        f"{utilisation(ours['rate']):.1%} with texts of 77 tokens)",
        flush=True,
    )
    bars = {
        "≥ 3,000 pairs/s": ours["rate"] >= 3000,
        "≥ 37 % of the peak": used >= 0.37,
        "< 2 % waiting": ours["wait"] < 0.02,
    }
    if not args.skip_rival:
        figure += f", {ours['rate'] / theirs:.2f} x open_clip"
        bars["≥ 2 x open_clip"] = ours["rate"] >= 2 * theirs
    return finish(figure, bars, is_quick=False)


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--steps", type=int, default=80)
    flags.add_argument("--batch", type=int, default=1024)
    flags.add_argument("--photo", default="500x375")
    flags.add_argument("--lengths", type=int, nargs="*", default=[32])
    flags.add_argument("--skip-rival", action="store_true")
    flags.add_argument("--rival-path", default="", help="folder with webdataset 0.2 for open_clip")
    toy = {"steps": N_WARM + 4, "batch": 4, "photo": "64x48", "skip_rival": True}
    args = flags.parse(**toy)
    import torch

    device = gpu_or_cpu()
    if device == "cpu" and not args.quick:
        return skip("this benchmark needs a CUDA device and nvJPEG")
    machine = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    print(f"{machine}, {os.cpu_count()} cores, torch {torch.__version__}")
    folder = Path(tempfile.mkdtemp())
    training = (
        toy_training(args, device, folder)
        if args.quick
        else Training(args.batch, args.steps, device)
    )
    try:
        return measure(args, folder, training)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
