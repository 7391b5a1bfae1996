"""How fast does a CPU core turn JPEGs into what a network sees, and how exactly?

    python benchmarks/embed_cpu.py [--photos FOLDER] [--scaling] [--reduced] [--quick]

Three ways from the bytes of a file to the input of a ViT at 224 px, images per CPU second, one
thread, best of several rounds that take turns:

1. the usual way: Pillow, then torchvision's Resize (bicubic), CenterCrop, ToTensor and Normalize;
2. `reference`: Pillow, then fieldmark's `Recipe`, which resizes only what is kept;
3. `cpu`: `fieldmark.embed.cpu.decode`.

The second and third give 8-bit pixels, which the model scales on its own device; "scaled" is the
third with that scaling done by the same core. Bars: 2.5 times the usual way at 500 × 375 and at
2000 × 1500; pixels within one grey level of `reference`, but for one value in a million that may
be two away (rounded twice, with weights of 16 bits); cosine of features (random weights) at least
0.9995. JPEGs of quality 90 are made of clouds of all sizes with sensor noise, or of the
photos of a folder, enlarged.

On one of two cores that other work shared (load 7), 2026-11-16: 2.6 times the usual way at
500 × 375 (637 images per CPU second), 2.5 times at 2000 × 1500 (69) and at 6000 × 4000 (6.8); with
scaling 2.1, 2.4 and 2.5 times.

Last, whole embedding (`fieldmark.embed.embed`, an EfficientNet-B0 with random weights) with and
without `kept_memory`, each in a process of its own, and whether the features are the same bit for
bit. 100 photos of 500 × 375, load 6, 2026-11-17: 33 → 61 images per CPU second, 34 → 59 on the
clock, 948,000 → 87,000 page faults.

`--scaling` measures two threads and two processes. `--reduced` measures what decoding at a half,
quarter or eighth of the size (libjpeg's scaled inverse DCT) would change. That is never used, for
it stays within one grey level only in smooth pictures: largest differences, 2026-11-16,

    content, JPEG quality 90      2000 × 1500   4000 × 3000   6000 × 4000   (reduced to 224 px)
    decoded at                      1/2   1/4     1/2   1/4     1/2   1/4
    photos, enlarged                  2     7       1     2       1     1
    the same, with sensor noise       3     5       2     2       2     2
    mosaic of photos of 320 px        7    24       3     5       2     3
    the same, high contrast          17    31      11    14       9    12
    dark branches on white           12    30       4    12       3     7

Where pixels are clipped at black or white, full decoding clips before it averages, reduced decoding
after: no size is large enough.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded

import numpy as np
import torch
from PIL import Image
from torchvision import transforms

from _quick import Flags, finish
from fieldmark.data import ImageRef, open_image
from fieldmark.draws import generator
from fieldmark.embed import EmbedOptions, embed
from fieldmark.embed.cpu import threads
from fieldmark.embed.cpu.decode import decode
from fieldmark.models import Recipe, load_model

MODEL = "timm/vit_tiny_patch16_224?pretrained=false"
WHOLE_MODEL = "timm/efficientnet_b0?pretrained=false"
BAR_RATIO, BAR_BEYOND, BAR_COSINE = 2.5, 1e-6, 0.9995
SIZES = {(500, 375): 24, (2000, 1500): 8, (6000, 4000): 2}
"""width and height, and how many images"""
TOYS = {(500, 375): 2, (640, 480): 1}
BARRED = ((500, 375), (2000, 1500))


# --- photos ---


def clouds(width: int, height: int, number: int) -> np.ndarray:
    """Noise of all sizes, the larger the stronger, as photos have it; coloured."""
    rng = generator("embed_cpu", f"{width}x{height}", str(number))
    pixels = np.full((height, width, 3), 128.0, np.float32)
    cells = 3
    while cells < height:
        coarse = rng.normal(0, 1, (cells, cells * width // height + 1, 3)) * (1, 0.8, 0.9)
        shared = coarse.mean(axis=2, keepdims=True) + 0.4 * coarse
        layer = Image.fromarray(np.clip(128 + 40 * shared, 0, 255).astype(np.uint8))
        smooth = np.asarray(layer.resize((width, height), Image.Resampling.BICUBIC), np.float32)
        pixels += (smooth - 128) * (1.5 * (3 / cells) ** 0.5)
        cells *= 2
    return pixels


def enlarged(files: list[Path], width: int, height: int, number: int) -> np.ndarray:
    photo = open_image(files[number % len(files)].read_bytes())
    return np.asarray(photo.resize((width, height), Image.Resampling.LANCZOS), np.float32)


def make_jpegs(n: int, width: int, height: int, files: list[Path]) -> Iterator[bytes]:
    for number in range(n):
        draw = partial(enlarged, files) if files else clouds
        pixels = draw(width, height, number)
        grain = generator("grain", str(number)).normal(0, 4, pixels.shape)
        target = io.BytesIO()
        photo = Image.fromarray(np.clip(pixels + grain, 0, 255).astype(np.uint8))
        photo.save(target, "JPEG", quality=90)
        yield target.getvalue()


# --- the ways ---


def usual_way(recipe: Recipe) -> Callable[[bytes], torch.Tensor]:
    steps = transforms.Compose(
        [
            transforms.Resize(
                (recipe.resize or recipe.size)[0], transforms.InterpolationMode.BICUBIC
            ),
            transforms.CenterCrop(recipe.size),
            transforms.ToTensor(),
            transforms.Normalize(recipe.mean, recipe.std),
        ]
    )

    def see(data: bytes) -> torch.Tensor:
        tensor: torch.Tensor = steps(Image.open(io.BytesIO(data)).convert("RGB"))
        return tensor

    return see


def reference(recipe: Recipe, data: bytes) -> np.ndarray:
    return recipe(open_image(data))


def fast(recipe: Recipe, data: bytes) -> np.ndarray:
    seen = decode(data, recipe, [None])
    assert seen is not None
    return seen[0]


def scaled(recipe: Recipe, data: bytes) -> torch.Tensor:
    pixels = torch.from_numpy(fast(recipe, data)).permute(2, 0, 1).float().div_(255)
    mean, std = (torch.tensor(channel)[:, None, None] for channel in (recipe.mean, recipe.std))
    return pixels.sub_(mean).div_(std)


def best_ms(ways: dict[str, Callable[[bytes], object]], jpegs: list[bytes], n_rounds: int) -> dict:
    """CPU ms per image of each way; rounds of all ways take turns, the best round counts."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(n_rounds):
        for name, see in ways.items():
            began = time.process_time()
            for data in jpegs:
                see(data)
            best[name] = min(best[name], 1000 * (time.process_time() - began) / len(jpegs))
    return best


# --- what is shown ---


def compare(size: tuple[int, int], jpegs: list[bytes], n_rounds: int) -> tuple[str, float]:
    """The line of one size, and how many times as fast as the usual way ours is."""
    model = load_model(MODEL, device="cpu", precision="float32")
    recipe = model.preprocess
    ways = {
        "usual": usual_way(recipe),
        "reference": partial(reference, recipe),
        "cpu": partial(fast, recipe),
        "scaled": partial(scaled, recipe),
    }
    ms = best_ms(ways, jpegs, n_rounds)
    rates = ", ".join(f"{name} {1000 / taken:.1f}" for name, taken in ms.items())
    kb = sum(map(len, jpegs)) / len(jpegs) / 1000
    print(
        f"{size[0]} × {size[1]}, {len(jpegs)} JPEGs of {kb:.0f} kB, images per CPU second: {rates}"
    )
    exact = np.stack([reference(recipe, data) for data in jpegs])
    ours = np.stack([fast(recipe, data) for data in jpegs])
    off = np.abs(exact.astype(int) - ours)
    one, two = (model.embed_images(pixels).pooled for pixels in (exact, ours))
    cosine = (one * two).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)
    ratio = ms["usual"] / ms["cpu"]
    n_beyond, most = int((off > 1).sum()), max(1, int(BAR_BEYOND * off.size))
    line = (
        f"{size[0]} × {size[1]}: {ratio:.2f}× the usual way, "
        f"{ms['usual'] / ms['scaled']:.2f}× with scaling, {ms['reference'] / ms['cpu']:.2f}× "
        f"reference; pixels off by {off.mean():.4f} on average, by at most {off.max()}, by more "
        f"than one in {n_beyond} of {off.size:,}; cosine of features at least {cosine.min():.6f}"
    )
    if off.max() > 2 or n_beyond > most or cosine.min() < BAR_COSINE:
        raise SystemExit(f"{line}: DIFFERS")
    return line, ratio


def scaling(jpegs: list[bytes], n_images: int) -> None:
    """Images per second on the clock: one thread, two threads, two processes."""
    recipe = Recipe((224, 224), (248, 248))
    work = (jpegs * (n_images // len(jpegs) + 1))[:n_images]
    pools: dict[str, Callable[[], Executor]] = {
        "1 thread": partial(ThreadPoolExecutor, 1),
        "2 threads": partial(ThreadPoolExecutor, 2),
        "2 processes": partial(ProcessPoolExecutor, 2, mp_context=get_context("spawn")),
    }
    for name, make_pool in pools.items():
        with make_pool() as pool:
            list(pool.map(partial(fast, recipe), jpegs[:4]))
            rates = []
            for _ in range(3):
                began = time.perf_counter()
                list(pool.map(partial(fast, recipe), work))
                rates.append(n_images / (time.perf_counter() - began))
        print(f"  {name}: {max(rates):.0f} images/s on the clock")


def reduced(jpegs: list[bytes]) -> None:
    """Largest difference and share beyond one grey level when libjpeg decodes at a reduced size."""
    recipe = Recipe((224, 224))
    for share in (2, 4, 8):
        off = []
        for data in jpegs:
            image = Image.open(io.BytesIO(data))
            box, (height, width) = recipe.placed(image.height, image.width)
            if min(image.size) // share < height:
                continue
            image.draft("RGB", (image.width // share, image.height // share))
            smaller = (box[0] / share, box[1] / share, box[2] / share, box[3] / share)
            seen = image.resize((width, height), Image.Resampling.BICUBIC, box=smaller)
            off.append(np.abs(np.asarray(seen, int) - reference(recipe, data)))
        if off:
            beyond = np.mean([(one > 1).mean() for one in off])
            print(f"  1/{share}: at most {max(one.max() for one in off)}, beyond one: {beyond:.5f}")


# --- memory that is kept ---


def embed_whole(folder: Path, n_rounds: int) -> dict[str, float | str]:
    """The best of several rounds of embedding a folder, every one with a cache of its own."""
    import resource

    refs = [ImageRef(path.name, None) for path in sorted(folder.glob("*.jpg"))]
    model = load_model(WHOLE_MODEL, device="cpu", precision="float32")
    rounds = []
    for _ in range(n_rounds):
        with tempfile.TemporaryDirectory() as cache:
            before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            features = embed(model, folder, refs, EmbedOptions(Path(cache))).features
            seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        faults = after.ru_minflt - before.ru_minflt
        rounds.append((len(refs) / cpu_s, len(refs) / seconds, faults))
    per_cpu_s, per_s, faults = max(rounds)
    seen = hashlib.sha256(features.tobytes()).hexdigest()
    return {"per_cpu_s": per_cpu_s, "per_s": per_s, "faults": faults, "features": seen}


def compare_memory(n_photos: int, n_rounds: int, files: list[Path]) -> str:
    """The line of embedding with and without `kept_memory`."""
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(make_jpegs(n_photos, 500, 375, files)):
            Path(folder, f"{number:04d}.jpg").write_bytes(data)
        told = {}
        for way in ("usual", "kept"):
            command = [sys.executable, __file__, "--whole", way, folder, str(n_rounds)]
            told[way] = json.loads(subprocess.check_output(command).splitlines()[-1])
    if told["usual"]["features"] != told["kept"]["features"]:
        raise SystemExit("kept_memory: features DIFFER")
    rates = (
        f"{told[way]['per_cpu_s']:.0f} images per CPU second ({told[way]['per_s']:.0f} on the "
        f"clock, {told[way]['faults']:,} page faults)"
        for way in ("usual", "kept")
    )
    return (
        f"whole embedding of {n_photos} photos of 500 × 375: "
        f"{' → '.join(rates)} with kept_memory; features bit-identical"
    )


def main() -> int:
    if sys.argv[1:2] == ["--whole"]:  # a process that compare_memory started
        way, folder, n_rounds = sys.argv[2:]
        if way == "usual":
            threads.kept_memory = nullcontext  # type: ignore[assignment]
        print(json.dumps(embed_whole(Path(folder), int(n_rounds))))
        return 0
    flags = Flags(__doc__)
    flags.add_argument("--photos", type=Path, help="a folder of photos instead of made ones")
    flags.add_argument("--scaling", action="store_true", help="threads and processes too")
    flags.add_argument("--reduced", action="store_true", help="decoding at reduced sizes too")
    given = flags.parse(reduced=True)
    torch.set_num_threads(1)
    files = sorted(given.photos.rglob("*.jpg")) if given.photos else []
    lines, ratios = [], {}
    for size, n in (TOYS if given.quick else SIZES).items():
        jpegs = list(make_jpegs(n, *size, files))
        line, ratios[size] = compare(size, jpegs, 1 if given.quick else 7)
        lines.append(line)
        if given.scaling:
            scaling(jpegs, 60_000_000 // (size[0] * size[1]))
        if given.reduced:
            reduced(jpegs)
    lines.append(compare_memory(*((4, 1) if given.quick else (100, 5)), files))
    print(*lines, sep="\n")
    figure = ", ".join(f"{ratio:.2f}× at {w} × {h}" for (w, h), ratio in ratios.items())
    bars = {
        f"≥ {BAR_RATIO}× at {w} × {h}": ratio >= BAR_RATIO
        for (w, h), ratio in ratios.items()
        if (w, h) in BARRED
    }
    return finish(f"embed_cpu: {figure} as fast as the usual way", bars, given.quick)


if __name__ == "__main__":
    sys.exit(main())
