"""How long until `fieldmark try` answers, and how much memory does it take?

    python benchmarks/tryout.py [--photos 1000] [--small 20000] [--quick]

Three measurements on drawn photos with hand-made features (`--models classical`, no torch), each
command in a process of its own, as it is typed:

1. 1,000 photos of 2000 × 1500 px: seconds to the first answer and to the end, with all products;
2. the same command again: seconds, and how many photos are embedded again (none);
3. small photos (96 px), a quarter of 20,000 and all of them: seconds and the largest resident set.

Bars, on two cores: first answer ≤ 10 s, end ≤ 60 s, nothing embedded twice, memory for 20,000
photos ≤ 1.3 times that for 5,000.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from _quick import Flags, finish
from fieldmark.draws import generator
from fieldmark.embed.rows import KEY_DTYPE
from fieldmark.world import Scene, World

N_LABELS = 10
LARGE, SMALL = (2000, 1500), (96, 96)
FIRST_S, END_S, GROWTH = 10.0, 60.0, 1.3


@dataclass(frozen=True, slots=True)
class Tried:
    """One `fieldmark try`."""

    seconds: float
    first_s: float
    """to the first answer; that of the end where there is no earlier one"""
    peak_mb: float
    n_embedded: int
    """rows in the cache, of the look and of all models"""
    cpu_s: float


def draw(root: Path, size: tuple[int, int], numbers: Sequence[int]) -> None:
    """Photos of distinct scenes, with sensor noise, in a folder per species."""
    world = World(n_species=N_LABELS, difficulty=0.4)
    noise = generator("tryout").normal(0, 3, (size[1], size[0], 3)).astype(np.float32)
    for number in numbers:
        species = number % N_LABELS
        scene = Scene(species=species, burst=number, individual=number)
        photo = world.photo(scene).image.resize(size, Image.Resampling.BICUBIC)
        grain = np.roll(noise, 97 * number, axis=1)
        pixels = np.clip(np.asarray(photo, np.float32) + grain, 0, 255).astype(np.uint8)
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, "JPEG", quality=90)
        # Names of cameras that number at random: neighbours are no series.
        path = root / f"species {species}" / f"{generator('name', number).integers(1 << 40)}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(target.getvalue())


def make_photos(root: Path, size: tuple[int, int], numbers: range) -> None:
    n_processes = os.cpu_count() or 1
    parts = [numbers[start::n_processes] for start in range(n_processes)]
    with ProcessPoolExecutor(n_processes) as pool:
        list(pool.map(partial(draw, root, size), parts))


def try_once(photos: Path, place: Path) -> Tried:
    """The command as it is typed."""
    words = ["try", photos, "--models", "classical", "--out", place / "try"]
    words += ["--cache", place / "cache"]
    command = [sys.executable, "-m", "fieldmark", *map(str, words)]
    began, first_s = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.lstrip().startswith("A first answer") and not first_s:
            first_s = time.perf_counter() - began
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or not (place / "try" / "index.html").exists():
        raise SystemExit(f"{' '.join(command)} failed:\n{''.join(lines)}")
    keys = (place / "cache" / "features").rglob("*.keys")
    n_embedded = sum(path.stat().st_size // KEY_DTYPE.itemsize for path in keys)
    cpu_s = used.ru_utime + used.ru_stime
    return Tried(seconds, first_s or seconds, used.ru_maxrss / 1024, n_embedded, cpu_s)


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--photos", type=int, default=1000)
    flags.add_argument("--small", type=int, default=20_000)
    given = flags.parse(photos=60, small=240)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_photos(place / "large", SMALL if given.quick else LARGE, range(given.photos))
        whole = try_once(place / "large", place / "a")
        print(f"{given.photos:,} photos: {whole}", flush=True)
        again = try_once(place / "large", place / "a")
        print(f"the same command again: {again}", flush=True)
        make_photos(place / "small", SMALL, range(given.small // 4))
        quarter = try_once(place / "small", place / "b")
        print(f"{given.small // 4:,} small photos: {quarter}", flush=True)
        make_photos(place / "small", SMALL, range(given.small // 4, given.small))
        every = try_once(place / "small", place / "b")
        print(f"{given.small:,} small photos: {every}", flush=True)
    growth = every.peak_mb / quarter.peak_mb
    n_twice = again.n_embedded - whole.n_embedded
    if n_twice:
        raise SystemExit(f"{n_twice} features were computed twice")
    bars = {
        f"first answer ≤ {FIRST_S:.0f} s": whole.first_s <= FIRST_S,
        f"end ≤ {END_S:.0f} s": whole.seconds <= END_S,
        f"memory ≤ {GROWTH}×": growth <= GROWTH,
    }
    figure = (
        f"tryout: first answer after {whole.first_s:.1f} s, end after {whole.seconds:.1f} s, again "
        f"{again.seconds:.1f} s; {given.small:,} small photos in {every.seconds:.0f} s, "
        f"{quarter.peak_mb:.0f} → {every.peak_mb:.0f} MB ({growth:.2f}×)"
    )
    return finish(figure, bars, given.quick)


if __name__ == "__main__":
    sys.exit(main())
