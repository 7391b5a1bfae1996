"""Does embedding a million images take more memory than embedding a hundred thousand?

    python benchmarks/embed_memory.py [--images 1000000] [--chunk N]

Tiny images, no two alike, in tar shards of 10,000 that are written as they are asked for and deleted
afterwards, go the way of `fieldmark embed … --out`: read, hashed, checked, decoded, embedded by a
matrix product (64 numbers), kept in the cache, read back and compared with what they must be.
Printed is the largest resident set so far after one tenth, half and all of the images. The bar:
from one tenth to all of a million it grows by less than 100 MB.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image

from fieldmark.data import ImageRef, ImageSource, ListedImage
from fieldmark.embed import EmbedOptions, embed_chunks
from fieldmark.models import Features

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


def picture(number: int) -> np.ndarray:
    """8 × 8 pixels that no other number has."""
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8)
    pixels[:8] = np.frombuffer(number.to_bytes(8, "little"), np.uint8)
    return pixels.reshape(8, 8, 3)


def write_shard(path: Path, numbers: range) -> list[str]:
    """A tar file of BMP images. Pillow and tarfile make the first one, the others follow it: a
    million would take them minutes.
    """
    stream = io.BytesIO()
    PIL.Image.fromarray(picture(0)).save(stream, "BMP")
    bmp = stream.getvalue()
    first_pixels = np.ascontiguousarray(picture(0)[0, :, ::-1]).tobytes()
    at = bmp.index(first_pixels)
    member = tarfile.TarInfo(f"{0:09d}.bmp")
    member.size = len(bmp)
    header = member.tobuf(tarfile.USTAR_FORMAT)
    checksum = int(header[148:154], 8) - sum(b"000000000")
    names = []
    with path.open("wb") as file:
        for number in numbers:
            digits = b"%09d" % number
            named = digits + header[9:148] + b"%06o\0 " % (checksum + sum(digits)) + header[156:]
            pixels = np.ascontiguousarray(picture(number)[0, :, ::-1]).tobytes()
            data = bmp[:at] + pixels + bmp[at + len(pixels) :]
            file.write(named + data + bytes(-len(data) % 512))
            names.append(f"{digits.decode()}.bmp")
        file.write(bytes(1024))
    return names


def shards(folder: Path, n_images: int) -> Iterator[ListedImage]:
    """The images, shard by shard; a shard is deleted when a chunk can no longer ask for it."""
    for first in range(0, n_images, SHARD):
        path = folder / f"{first // SHARD:05d}.tar"
        for name in write_shard(path, range(first, min(first + SHARD, n_images))):
            image = f"{path.name}::{name}"
            yield ListedImage(image, ImageRef(image))
        gone = folder / f"{first // SHARD - KEPT_SHARDS:05d}.tar"
        gone.unlink(missing_ok=True)


class PeakAt:
    """Notes the largest resident set so far whenever so many images are done."""

    def __init__(self, counts: list[int]) -> None:
        self.counts, self.n_done = counts, 0
        self.peaks_mb: list[float] = []

    def start(self, label: str, total: int) -> None:
        pass

    def advance(self, n: int = 1) -> None:
        self.n_done += n
        self.note()

    def note(self) -> None:
        while len(self.peaks_mb) < len(self.counts) and self.n_done >= self.next_count:
            self.peaks_mb.append(peak_mb())

    @property
    def next_count(self) -> int:
        return self.counts[len(self.peaks_mb)]

    def say(self, text: str) -> None:
        print(text, file=sys.stderr)


def peak_mb() -> float:
    """Linux: getrusage would count the program that started this one."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def count_right(model: Product, names: list[str], features_nd: np.ndarray) -> int:
    pictures = [picture(int(name.partition("::")[2][:9])) for name in names]
    expected_nd = model.embed_images(np.stack(pictures).astype(np.float32)).pooled
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
    return dict(zip(counts, [*watched.peaks_mb, peak_mb()], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--chunk", type=int, default=0, help="images at a time [as the command]")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    began = time.monotonic()
    print(f"before the first image: peak {peak_mb():.0f} MB")
    peaks = measure(args.images, args.threads, args.chunk)
    seconds = time.monotonic() - began
    for n, mb in peaks.items():
        print(f"after {n:,} images: peak {mb:.0f} MB")
    growth = peaks[args.images] - peaks[args.images // 10]
    print(
        f"embed_memory: {growth:.0f} MB more from {args.images // 10:,} to {args.images:,} images "
        f"({growth / BAR_MB:.2f} × the bar of {BAR_MB:.0f} MB); {seconds:.0f} s, "
        f"{args.images / seconds:,.0f} images/s"
    )


if __name__ == "__main__":
    main()
