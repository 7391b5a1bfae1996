"""How fast is exact retrieval, against sorting everything, and against reading the file?

    python benchmarks/retrieval.py           20k × 20k, 100k × 100k, 5 million rows in a file
    python benchmarks/retrieval.py --quick   toy sizes, no bars

Width 512, wall seconds, two threads, each part in a process of its own whose peak memory (largest
resident set, input included) is told. Image and text rows share a low-rank part, so that some are
hard to tell apart, and one row in ten is a copy of another.

1. Recall at 10 both ways. The rivals: the full matrix of cosines in float32, argsorted both ways,
   and the same by argpartition. Bar: 3 times as fast as argsort. Agreement: with counts of float64
   scores of some queries, and the recall of the rival where copies leave no tie.
2. The same at 100k × 100k without a rival (the matrix has 40 GB). Bar: below 2 GB.
3. The 50 best of 5 million float16 rows (a 5.1 GB `.npy` file) for 250 queries, end to end, against
   one sequential read of the file, both with the file out of the page cache and in it. Agreement:
   with an argsort of float64 scores of a slice.

On 2 cores, 2026-11-16: 8.8 times as fast as argsort and 3.0 as argpartition (6.2 s, 208 MB against
6.3 GB); 100k × 100k in 126 s and 864 MB; 5 million rows in 24 s where reading the file takes 5 to
7 s (cold), 15 to 18 s (warm), in 180 MB. The last is the matrix product: 1.3 × 10^12 operations.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before numpy is loaded.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "2")

import numpy as np  # noqa: E402

from _quick import Flags  # noqa: E402
from _rows import Row, finish_table, note, watched  # noqa: E402
from fieldmark.embed import rank_positives, top_k  # noqa: E402
from fieldmark.metrics import recall_at_k  # noqa: E402

WIDTH, RANK, K, N_BEST, N_CHECKED = 512, 48, 10, 50, 256
MB = 1 << 20


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds and what came out."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


class Maker:
    """Rows of images and texts: a shared low-rank part, noise of their own, length one."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        decay = np.arange(1, RANK + 1, dtype=np.float32)[:, None] ** -0.5
        self.mix = decay * self.random.standard_normal((RANK, WIDTH), dtype=np.float32)

    def content(self, n: int) -> np.ndarray:
        return self.random.standard_normal((n, RANK), dtype=np.float32)

    def rows(self, content: np.ndarray, noise: float = 2.5) -> np.ndarray:
        x = self.random.standard_normal((len(content), WIDTH), dtype=np.float32)
        x *= np.float32(noise)
        x += content @ self.mix
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        return x

    def pair(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Texts and images; one in ten of each is a copy."""
        content = self.content(n)
        sides = self.rows(content), self.rows(content)
        for side in sides:
            side[self.random.integers(0, n, n // 10)] = side[self.random.integers(0, n, n // 10)]
        return sides


def recalls(text: np.ndarray, image: np.ndarray) -> list[np.ndarray]:
    own = np.arange(len(text))
    ranks = rank_positives(text, image, (own, own))
    return [
        recall_at_k(side.better_any_p, side.equal_any_p, K)
        for side in (ranks.to_gallery, ranks.to_query)
    ]


def sorted_recalls(text: np.ndarray, image: np.ndarray, sort: Callable[..., Any]) -> Any:
    cosine = text @ image.T
    own = np.arange(len(text))[:, None]
    return [(sort(-side)[:, :K] == own).any(axis=1) for side in (cosine, cosine.T)]


def argsort(x: np.ndarray) -> np.ndarray:
    return np.argsort(x, axis=1)


def argpartition(x: np.ndarray) -> np.ndarray:
    return np.argpartition(x, K, axis=1)


def measure_pairs(n: int, rival: str) -> dict[str, Any]:
    """Part 1 and 2, in a process of its own."""
    text, image = Maker().pair(n)
    if rival:
        sort = argsort if rival == "argsort" else argpartition
        seconds, value = timed(lambda: sorted_recalls(text, image, sort))
    else:
        seconds, value = timed(lambda: recalls(text, image))
    answer = {"seconds": seconds, "recall": [float(side.mean()) for side in value]}
    if not rival:
        some = np.linspace(0, n - 1, min(n, N_CHECKED)).astype(int)
        answer["equal"] = float(np.mean(value[0][some] == checked(text, image, some)))
    return answer


def checked(text: np.ndarray, image: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Recall of some texts from float64 scores; scores that agree to 12 digits are ties."""
    score = np.stack([np.einsum("nd,d->n", image, text[at], dtype=np.float64) for at in some])
    own = score[np.arange(len(some)), some][:, None]
    better, reached = ((score > own + edge).sum(axis=1) for edge in (1e-12, -1e-12))
    return recall_at_k(better, reached - better - 1, K)


def write_file(path: Path, n: int) -> None:
    maker = Maker()
    gallery = np.lib.format.open_memmap(path, "w+", np.float16, (n, WIDTH))
    for start in range(0, n, 20_000):
        gallery[start : start + 20_000] = maker.rows(maker.content(min(20_000, n - start)))
    gallery.flush()


def read_through(path: Path) -> None:
    space = bytearray(8 * MB)
    with path.open("rb", buffering=0) as file:
        while file.readinto(space):
            pass


def forget(path: Path) -> None:
    """Takes the file out of the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_file(path: Path, n_queries: int, is_cold: bool) -> dict[str, Any]:
    """Part 3, in a process of its own."""
    maker = Maker()
    query = maker.rows(maker.content(n_queries))
    prepare = forget if is_cold else read_through
    prepare(path)
    read_s, _ = timed(lambda: read_through(path))
    prepare(path)
    search_s, (index, _) = timed(lambda: top_k(query, np.load(path, mmap_mode="r"), N_BEST))
    piece = np.load(path, mmap_mode="r")[: 200 * N_BEST]
    exact = query.astype(np.float64) @ piece.astype(np.float64).T
    brute = np.argsort(-exact, axis=1, kind="stable")[:, :N_BEST]
    equal = float((top_k(query, piece, N_BEST)[0] == brute).mean())
    # The file's k best are the k best of a slice, as far as they lie in it.
    in_slice = index < len(piece)
    is_kept = [set(a[b]) <= set(c) for a, b, c in zip(index, in_slice, brute, strict=True)]
    return {"seconds": search_s, "read": read_s, "equal": equal if all(is_kept) else 0.0}


def alone(*arguments: object) -> dict[str, Any]:
    """A part in a fresh process, which tells its own peak memory."""
    note(" ".join(map(str, arguments)))
    command = [sys.executable, __file__, "--part", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def run_part(kind: str, *arguments: str) -> None:
    if kind == "pairs":
        answer = measure_pairs(int(arguments[0]), *arguments[1:])
    else:
        answer = measure_file(Path(arguments[0]), int(arguments[1]), arguments[2] == "cold")
    answer["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(answer))


def pair_rows(n: int, n_large: int) -> Iterator[Row]:
    ours = alone("pairs", n, "")
    for rival, bar in (("argsort", 3.0), ("argpartition", 0.0)):
        theirs = alone("pairs", n, rival)
        apart = max(abs(a - b) for a, b in zip(ours["recall"], theirs["recall"], strict=True))
        yield Row(
            f"R@{K} both ways, {n} × {n}",
            rival=f"{rival} of the full matrix ({theirs['mb']:.0f} MB)",
            rival_s=theirs["seconds"],
            ours_s=ours["seconds"],
            bar=bar,
            agreement=f"{equality(ours)}, {apart:.4f} from the rival's, whose ties go anyhow",
            is_equal=ours["equal"] == 1 and apart < 0.01,
            memory_mb=ours["mb"],
        )
    large = alone("pairs", n_large, "")
    yield Row(
        f"R@{K} both ways, {n_large} × {n_large}, below 2 GB",
        rival="none",
        rival_s=float("nan"),
        ours_s=large["seconds"],
        agreement=equality(large),
        is_equal=large["equal"] == 1 and large["mb"] < 2000,
        memory_mb=large["mb"],
    )


def equality(answer: dict[str, Any]) -> str:
    to_image, to_text = answer["recall"]
    return f"{answer['equal']:.2%} equal to float64; recall {to_image:.4f} and {to_text:.4f}"


def file_rows(n: int, n_queries: int) -> Iterator[Row]:
    n_bytes = n * WIDTH * 2
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 2 * n_bytes:
            raise SystemExit(f"{folder} has less than {2 * n_bytes / 1e9:.0f} GB free: use --rows.")
        path = Path(folder) / "gallery.npy"
        note(f"writing {n_bytes / 1e9:.1f} GB")
        write_file(path, n)
        for state in ("cold", "warm"):
            answer = alone("file", path, n_queries, state)
            yield Row(
                f"{N_BEST} best of {n} × {n_queries} queries, {state} page cache",
                rival=f"sequential read ({n_bytes / 1e9 / answer['read']:.1f} GB/s)",
                rival_s=answer["read"],
                ours_s=answer["seconds"],
                agreement=f"{answer['equal']:.2%} equal to float64 on a slice",
                is_equal=answer["equal"] == 1,
                memory_mb=answer["mb"],
            )


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--rows", type=int, default=5_000_000, help="of the file")
    flags.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    given = flags.parse(rows=12_000)
    if given.part:
        run_part(*given.part)
        return 0
    n, n_large, n_queries = (600, 1000, 10) if given.quick else (20_000, 100_000, 250)
    rows = [*watched(pair_rows(n, n_large), given.quick)]
    rows += [*watched(file_rows(given.rows, n_queries), given.quick)]
    return finish_table("retrieval", rows, given.quick)


if __name__ == "__main__":
    sys.exit(main())
