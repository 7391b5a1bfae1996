"""Embedding at line rate: photos on disk to features in the cache, against the network alone.

    python benchmarks/embed_gpu.py [--images 98304] [--before FOLDER] [--skip-loop] [--quick]

Makes JPEGs of four sizes on disk, then measures in one process, for ViT-B/16 and ViT-S/16 at 224
pixels with random weights:

    forward     the network alone, compiled, half precision, on pixels that are on the card
    decode      our pipeline with a network that does nothing: reading, hashing, decoding, resizing
    usual loop  PIL and torchvision in DataLoader workers, autocast, compiled, .cpu() for each batch
    before      version 0.1.0 from a folder with its source (`git archive`), in its own process
    fieldmark   `embed()` on a fresh cache: files to stored rows, hashing and start-up included

and compares features with those of `--decode reference` for photos of all kinds. Files are in the
page cache for all of them alike. Needs a CUDA device with nvJPEG; says so and ends elsewhere.
`--quick` compiles nothing, takes a tiny network, and does all of it on the CPU where there is no
such device.

Bars: end to end at least 70 % of the compiled forward for ViT-B/16, 65 % of the smaller limit for
ViT-S/16, 6 times the usual loop, 9 times version 0.1.0, cosine 0.9995 for each image.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from _quick import Flags, finish, skip

SIZES = ((500, 375), (640, 480), (375, 500), (480, 333))
N_DISTINCT = 4096
VIT_B, VIT_S = "vit_base_patch16_224", "vit_small_patch16_224"
TOY = "vit_tiny_patch16_224"


def make_jpeg(seed: int) -> bytes:
    """A picture with structure at all scales, as photos have; about 95 kB."""
    import PIL.Image

    rng = np.random.default_rng(seed)
    width, height = SIZES[seed % len(SIZES)]
    layers = np.zeros((height, width, 3))
    for step, weight in ((64, 0.5), (16, 0.3), (4, 0.2)):
        small = rng.integers(0, 256, (height // step + 2, width // step + 2, 3), dtype=np.uint8)
        resized = PIL.Image.fromarray(small).resize((width, height), PIL.Image.Resampling.BICUBIC)
        layers += weight * np.asarray(resized)
    layers += rng.normal(0, 9, (height, width, 1))
    file = io.BytesIO()
    image = PIL.Image.fromarray(np.clip(layers, 0, 255).astype(np.uint8))
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


def write_images(root: Path, n: int) -> list[str]:
    """Every file has bytes of its own: copies differ in a comment, which is part of the hash."""
    root.mkdir()
    with ProcessPoolExecutor() as pool:
        distinct = list(pool.map(make_jpeg, range(min(n, N_DISTINCT)), chunksize=32))
    names = []
    for index in range(n):
        data, comment = distinct[index % len(distinct)], index.to_bytes(8, "big")
        names.append(f"{index:06d}.jpg")
        (root / names[-1]).write_bytes(data[:2] + b"\xff\xfe\x00\x0a" + comment + data[2:])
    mean = np.mean([len(data) for data in distinct]) / 1000
    print(f"{n:,} JPEGs, {mean:.0f} kB each, sizes {SIZES}")
    return names


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the networks run, and how much they do there."""

    device: str
    batch: int = 256
    n_batches: int = 80
    is_quick: bool = False

    def wait(self) -> None:
        import torch

        if self.device == "cuda":
            torch.cuda.synchronize()


def load(name: str, device: str, **how: str) -> Any:
    from fieldmark.models import load_model

    return load_model(f"timm/{name}?pretrained=false", device=device, **how)


def forward_rates(name: str, here: Setting) -> dict[str, float]:
    """Images/s of the network alone on bf16 pixels, as it is and compiled."""
    import timm
    import torch

    net = timm.create_model(name, num_classes=0).eval().to(here.device, torch.bfloat16)
    pixels = torch.randn(here.batch, 3, 224, 224, device=here.device, dtype=torch.bfloat16)
    networks = {"forward, as it is": net}
    if not here.is_quick:
        networks["forward, compiled"] = torch.compile(net)
    rates = {}
    for label, network in networks.items():
        with torch.inference_mode():
            for _ in range(min(8, here.n_batches)):
                network(pixels)
            here.wait()
            began = time.perf_counter()
            for _ in range(here.n_batches):
                network(pixels)
            here.wait()
        rates[label] = here.batch * here.n_batches / (time.perf_counter() - began)
    return rates


def usual_loop(name: str, root: Path, names: list[str], here: Setting) -> float:
    """What most evaluation code does; its workers' start counts, compiling does not."""
    import timm
    import torch
    from PIL import Image
    from torchvision import transforms

    see = transforms.Compose(
        [
            transforms.Resize(248, transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize((0.5,) * 3, (0.5,) * 3),
        ]
    )

    class Photos(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(names)

        def __getitem__(self, index: int) -> Any:
            return see(Image.open(root / names[index]).convert("RGB"))

    is_cuda = here.device == "cuda"
    net = timm.create_model(name, num_classes=0).eval().to(here.device)
    net = net if here.is_quick else torch.compile(net)
    loader = torch.utils.data.DataLoader(
        Photos(), here.batch, num_workers=os.cpu_count() or 2, pin_memory=is_cuda, drop_last=True
    )
    n, features = 0, []
    half = torch.float16 if is_cuda else torch.bfloat16
    with torch.inference_mode(), torch.autocast(here.device, half):
        first = torch.zeros(here.batch, 3, 224, 224, device=here.device)
        net(first)  # compiles; the workers have not begun
        began = time.perf_counter()
        for batch in loader:
            features.append(net(batch.to(here.device, non_blocking=True)).float().cpu())
            n += len(batch)
    return n / (time.perf_counter() - began)


def fieldmark_run(model: Any, root: Path, names: list[str], compiled: bool) -> Any:
    """Files to stored features on a fresh cache; all of `embed()`, from the call to the rows."""
    from fieldmark.data import ImageRef
    from fieldmark.embed import EmbedOptions, fill

    if compiled:
        model.compile_network()
    refs = [ImageRef(name) for name in names]
    with tempfile.TemporaryDirectory() as cache:
        options = EmbedOptions(Path(cache), threads=min(16, os.cpu_count() or 2))
        began = time.perf_counter()
        filled = fill(model, root, refs, options)
        seconds = time.perf_counter() - began
    assert not filled.bad
    assert filled.throughput.n_computed == len(names)
    return len(names) / seconds, filled.throughput


def decode_limit(model: Any, root: Path, names: list[str]) -> float:
    """The pipeline with a network that does nothing."""
    import torch

    from fieldmark.models import Features

    zeros = torch.zeros((4096, model.dim), device=model.device)
    model.embed_pixels = lambda pixels: zeros[: len(pixels)]  # on a GPU
    model.embed_images = lambda batch: Features(zeros[: len(batch)].cpu().numpy())
    try:
        return float(fieldmark_run(model, root, names, compiled=False)[0])
    finally:
        del model.embed_pixels, model.embed_images


def fidelity(name: str, root: Path, names: list[str], device: str) -> dict[str, float]:
    """Least cosine between the fast and the reference way of reading, in one precision."""
    from fieldmark.data import ImageRef
    from fieldmark.embed import EmbedOptions, embed

    refs = [ImageRef(image) for image in names]
    found = {}
    for precision in ("bf16", "float32"):
        features = []
        for decode in ("gpu" if device == "cuda" else "cpu", "reference"):
            with tempfile.TemporaryDirectory() as cache:
                options = EmbedOptions(Path(cache), threads=16)
                model = load(name, device, decode=decode, precision=precision)
                features.append(embed(model, root, refs, options).features)
        a, b = features
        cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        found[precision] = float(cosine.min())
    return found


BEFORE = """
import json, os, sys, tempfile, time
from pathlib import Path
from fieldmark.data import ImageRef
from fieldmark.embed import EmbedOptions, embed
from fieldmark.models import load_model
root, names = Path(sys.argv[1]), json.loads(sys.stdin.read())
model = load_model(f"timm/{sys.argv[2]}?pretrained=false", device="cuda")
model.batch_size
with tempfile.TemporaryDirectory() as cache:
    began = time.perf_counter()
    embed(model, root, [ImageRef(name) for name in names], EmbedOptions(Path(cache), threads=8))
    print(len(names) / (time.perf_counter() - began))
"""


def before_rate(source: Path, name: str, root: Path, names: list[str]) -> float:
    run = subprocess.run(
        [sys.executable, "-c", BEFORE, str(root), name],
        input=json.dumps(names),
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout.strip().splitlines()[-1])


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--images", type=int, default=98_304)
    flags.add_argument("--before", type=Path, help="folder `src` of version 0.1.0")
    flags.add_argument("--skip-loop", action="store_true", help="leave the usual loop out")
    flags.add_argument("--net", nargs="*", default=[VIT_B, VIT_S])
    given = flags.parse(images=16, net=[TOY])
    import torch

    device = gpu_or_cpu()
    if device == "cpu" and not given.quick:
        return skip("this benchmark needs a CUDA device and nvJPEG")
    machine = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    print(f"{machine}, {os.cpu_count()} cores, torch {torch.__version__}")
    here = Setting(device, 4, 2, is_quick=True) if given.quick else Setting(device)
    folder = Path(tempfile.mkdtemp())
    try:
        return measure(given, folder / "photos", here)
    finally:
        shutil.rmtree(folder)


def gpu_or_cpu() -> str:
    """`cuda` where photos can be decoded there."""
    import torch

    from fieldmark import devices  # sets how many queues CUDA has, before it starts

    return "cuda" if torch.cuda.is_available() and devices.nvjpeg_library() else "cpu"


def measure(args: argparse.Namespace, root: Path, here: Setting) -> int:
    names = write_images(root, args.images)
    bars, figures = dict[str, bool](), list[str]()
    for net in args.net:
        is_large = net == args.net[0]
        print(net)
        rows = forward_rates(net, here)
        forward = list(rows.values())[-1]
        model = load(net, here.device)
        fieldmark_run(model, root, names[:2048], compiled=False)  # libraries load on first use
        rows["decode limit"] = limit = decode_limit(model, root, names)
        for how in (False, True) if is_large and not here.is_quick else (False,):
            rate, through = fieldmark_run(model, root, names, compiled=how)
            rows[f"fieldmark{', compiled' if how else ''}"] = rate
            busy = ", ".join(f"{part} {s:.1f}" for part, s in through.busy_s.items())
            print(
                f"  {rate:,.0f} images/s, GPU {through.device_busy or 0:.0%}, fallback "
                f"{through.n_fallback}, seconds of work: {busy}, on the clock "
                f"{through.seconds:.1f}",
                flush=True,
            )
        best = max(rate for label, rate in rows.items() if label.startswith("fieldmark"))
        share = best / (forward if is_large else min(forward, limit))
        least = 0.70 if is_large else 0.65
        bars[f"{net} ≥ {least:.0%} of the limit"] = share >= least
        if is_large and not args.skip_loop:
            rows["usual loop"] = usual_loop(net, root, names[:16384], here)
            bars["≥ 6 × the usual loop"] = best >= 6 * rows["usual loop"]
        if is_large and args.before:
            rows["version 0.1.0"] = before_rate(args.before, net, root, names[:4096])
            bars["≥ 9 × version 0.1.0"] = best >= 9 * rows["version 0.1.0"]
        for label, rate in rows.items():
            print(f"  {label:24}{rate:>10,.0f} images/s   fieldmark is {best / rate:.2f} x")
        print(f"  {share:.0%} of the {'forward' if is_large else 'smaller limit'}")
        figures.append(f"{net} {best:,.0f} images/s, {share:.0%} of the limit")
        if is_large:
            for precision, worst in fidelity(net, root, names[:256], here.device).items():
                print(f"  least cosine to the reference way of reading, {precision}: {worst:.6f}")
                bars[f"cosine ≥ 0.9995 in {precision}"] = worst >= 0.9995
    return finish(f"embed_gpu: {'; '.join(figures)}", bars, here.is_quick)


if __name__ == "__main__":
    sys.exit(main())
