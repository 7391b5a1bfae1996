"""Memory: does a shard that is twenty times as large take more of it?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from fieldmark.build.shards.tar import BLOCK, END_MARK, tar_member

WORK = """
import sys
from pathlib import Path
import polars
from fieldmark.build.shards import check_shards, join_captions, read_samples, shard_index

shard, what = Path(sys.argv[1]), sys.argv[2]
if what == "read":
    n = sum(1 for _ in read_samples(shard))
elif what == "check":
    n = check_shards([shard], has_images=True).n_samples
elif what == "index":
    n = shard_index(shard).n_samples
else:
    n = join_captions(shard, shard.with_suffix(".parquet"), shard.with_name("copy.tar"))
assert n == int(sys.argv[3]), n
status = Path("/proc/self/status").read_text().split()
print(int(status[status.index("VmHWM:") + 1]) / 1024)
"""
N_BYTES = 200_000


def sparse_shard(path: Path, n: int) -> Path:
    """Members of zeros, which take no place on the disk."""
    empty = tar_member("a.jpg", bytes(N_BYTES))
    with path.open("wb") as file:
        for number in range(n):
            member = tar_member(f"{number:06}.jpg", bytes(N_BYTES))
            file.write(member[:BLOCK])
            file.seek(len(empty) - BLOCK, 1)
            file.write(tar_member(f"{number:06}.txt", b"a photo"))
        file.write(END_MARK)
    captions = {"key": [f"{number:06}" for number in range(n)], "caption": ["A bird."] * n}
    pl.DataFrame(captions).write_parquet(path.with_suffix(".parquet"))
    return path


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("what", ["read", "check", "index", "join"])
def test_memory_does_not_grow_with_the_shard(tmp_path: Path, what: str) -> None:
    peaks_mb = []
    for n in (50, 1_000):  # 10 MB and 200 MB
        shard = sparse_shard(tmp_path / f"{n}.tar", n)
        words = [sys.executable, "-c", WORK, str(shard), what, str(n)]
        peaks_mb.append(float(subprocess.check_output(words, text=True)))
    assert peaks_mb[1] - peaks_mb[0] < 10, peaks_mb
