"""Does embedding a million images take more memory than embedding a hundred thousand?

    python benchmarks/embed_memory.py [--images 1000000] [--chunk N] [--quick]

Tiny images, no two alike, in tar shards of 10,000 that are written when they are asked for and
deleted later, go the way of `fieldmark embed … --out`: read, hashed, checked, decoded, embedded
(a matrix product, 64 numbers), kept in the cache, read back and compared with what they must be.
Printed is the largest resident set so far after one tenth, half and all of the images. The bar:
from one tenth to all of a million it grows by less than 100 MB.
"""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image

from _quick import Flags, finish
from fieldmark.data import ImageRef, ImageSource, ListedImage
from fieldmark.embed import EmbedOptions, embed_chunks
from fieldmark.models import Features
from fieldmark.progress import Silent

BAR_MB = 100.0
SHARD = 10_000
KEPT_SHARDS = 64
"""at the largest; older ones are deleted"""


class Product:
    """A model that takes no time: pixels times a fixed matrix."""

    name = "benchmark/product"
    fingerprint = "product-1"
    dim = 64
    batch_size = 256

    def __init__(self) -> None:
        self.matrix = np.random.default_rng(0).normal(size=(8 * 8 * 3, self.dim))
        self.matrix = self.matrix.astype(np.float32)

    def transform(self, image: PIL.Image.Image) -> np.ndarray:
        return np.asarray(image, np.float32)

    def embed_images(self, batch: np.ndarray) -> Features:
        return Features(batch.reshape(len(batch), -1) @ self.matrix)


def pictures(numbers: np.ndarray) -> np.ndarray:
    """n × 8 × 8 × 3 pixels, no two alike: the number stands in the last row."""
    pixels = np.tile(np.arange(8 * 8 * 3, dtype=np.uint8), (len(numbers), 1))
    pixels[:, -8:] = numbers.astype("<u8")[:, None].view(np.uint8)
    return pixels.reshape(-1, 8, 8, 3)


def write_shard(path: Path, numbers: np.ndarray) -> list[str]:
    """A tar file of BMP images: Pillow and tarfile make one, the others are made after it (they
    would take minutes for a million).
    """
    stream, picture = io.BytesIO(), pictures(numbers[:1])[0]
    PIL.Image.fromarray(picture).save(stream, "BMP")
    n_head = len(stream.getvalue()) - picture.nbytes
    member = tarfile.TarInfo("000000000.bmp")
    member.size = len(stream.getvalue())
    one = member.tobuf(tarfile.USTAR_FORMAT) + stream.getvalue().ljust(512, b"\0")
    with path.open("wb") as file:
        for start in range(0, len(numbers), 500):
            some = numbers[start : start + 500]
            members = np.tile(np.frombuffer(one, np.uint8), (len(some), 1))
            digits = some[:, None] // 10 ** np.arange(8, -1, -1) % 10
            members[:, :9] += digits.astype(np.uint8)
            checksums = int(one[148:154], 8) + digits.sum(axis=1)
            members[:, 148:154] = checksums[:, None] // 8 ** np.arange(5, -1, -1) % 8 + ord("0")
            upside_down_bgr = pictures(some)[:, ::-1, :, ::-1]
            members[:, 512 + n_head : 512 + member.size] = upside_down_bgr.reshape(len(some), -1)
            file.write(members.tobytes())
        file.write(bytes(1024))
    return [f"{number:09d}.bmp" for number in numbers.tolist()]


def shards(folder: Path, n_images: int) -> Iterator[ListedImage]:
    """The images, shard by shard; a shard is deleted when a chunk can no longer ask for it."""
    for first in range(0, n_images, SHARD):
        path = folder / f"{first // SHARD:05d}.tar"
        for name in write_shard(path, np.arange(first, min(first + SHARD, n_images))):
            image = f"{path.name}::{name}"
            yield ListedImage(image, ImageRef(image))
        gone = folder / f"{first // SHARD - KEPT_SHARDS:05d}.tar"
        gone.unlink(missing_ok=True)


class PeakAt(Silent):
    """Notes the largest resident set so far whenever so many images are done."""

    def __init__(self, counts: list[int]) -> None:
        self.counts, self.n_done = counts, 0
        self.peaks_mb: list[float] = []

    def advance(self, n: int = 1) -> None:
        self.n_done += n
        self.note()

    def note(self) -> None:
        while len(self.peaks_mb) < len(self.counts) and self.n_done >= self.next_count:
            self.peaks_mb.append(peak_mb())
            show(self.counts[len(self.peaks_mb) - 1], self.peaks_mb[-1])

    @property
    def next_count(self) -> int:
        return self.counts[len(self.peaks_mb)]

    def say(self, text: str) -> None:
        print(text, file=sys.stderr)


def show(n_images: int, mb: float) -> None:
    print(f"after {n_images:,} images: peak {mb:.0f} MB", flush=True)


def peak_mb() -> float:
    """Linux: getrusage would count the program that started this one."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def count_right(model: Product, names: list[str], features_nd: np.ndarray) -> int:
    numbers = np.array([int(name[-13:-4]) for name in names])
    expected_nd = model.embed_images(pictures(numbers).astype(np.float32)).pooled
    return int(np.isclose(features_nd, expected_nd, rtol=1e-3, atol=1e-2).all(axis=1).sum())


def measure(n_images: int, threads: int = 2, n_chunk: int = 0) -> dict[int, float]:
    """Images done → peak in MB so far, for one tenth, half and all of them."""
    model, counts = Product(), [n_images // 10, n_images // 2, n_images]
    watched = PeakAt(counts[:-1])
    sizes = {"n_chunk": n_chunk} if n_chunk else {}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "shards"
        root.mkdir()
        source = ImageSource("shards", root, n_images, lambda: shards(root, n_images))
        options = EmbedOptions(Path(place) / "cache", threads)
        n_right = 0
        for chunk in embed_chunks(model, [source], options, watched, **sizes):
            for images, features in chunk.blocks():
                n_right += count_right(model, [image.id for image in images], features)
    if n_right != n_images or watched.n_done != n_images:
        raise SystemExit(f"embed_memory: {n_right} of {n_images} images came back")
    show(n_images, peak_mb())
    return dict(zip(counts, [*watched.peaks_mb, peak_mb()], strict=True))


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--images", type=int, default=1_000_000)
    flags.add_argument("--chunk", type=int, default=0, help="images at a time [as the command]")
    flags.add_argument("--threads", type=int, default=2)
    args = flags.parse(images=2_000, chunk=500)
    began = time.monotonic()
    print(f"before the first image: peak {peak_mb():.0f} MB", flush=True)
    peaks = measure(args.images, args.threads, args.chunk)
    seconds = time.monotonic() - began
    growth = peaks[args.images] - peaks[args.images // 10]
    figure = (
        f"embed_memory: {growth:.0f} MB more from {args.images // 10:,} to {args.images:,} images; "
        f"{seconds:.0f} s, {args.images / seconds:,.0f} images/s"
    )
    return finish(figure, {f"≤ {BAR_MB:.0f} MB": growth <= BAR_MB}, args.quick)


if __name__ == "__main__":
    sys.exit(main())
