"""Are shards read, indexed and copied faster than by webdataset, in memory that stays flat?

    python benchmarks/shards.py [--mb 2000] [--quick]

Two shards with the members of TreeOfLife-10M (a photo of 20 kB and ten texts a sample), one of
100 MB and one of `--mb`. For each piece of work: the largest resident set of a process that does it
on either, and its CPU seconds on the larger one beside those of webdataset 1.0 for the same:
reading every byte; counting and hashing; writing every sample anew with a caption. Bar: memory
grows by less than 50 MB, nothing takes longer than webdataset does, the copy holds the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from _quick import Flags, finish
from fieldmark.build.shards import (
    MemberReader,
    check_shards,
    join_captions,
    read_samples,
    shard_index,
    taxon_texts,
)
from fieldmark.build.shards.tar import END_MARK, tar_member
from fieldmark.taxa import Taxon

BAR_MB = 50.0
RANKS = ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus", "corax")
TEXTS = taxon_texts(Taxon(RANKS, "Common raven"))
PHOTO = 20_000


def write_shard(path: Path, n_mb: int) -> None:
    """With a caption for each sample beside it."""
    keys = []
    texts = {name: text.encode() for name, text in TEXTS.items()}
    with path.open("wb") as file:
        while file.tell() < n_mb * 1_000_000:
            key = f"{len(keys):032x}"
            keys.append(key)
            file.write(tar_member(f"{key}.jpg", os.urandom(PHOTO)))
            file.writelines(tar_member(f"{key}.{name}", text) for name, text in texts.items())
        file.write(END_MARK)
    captions = {"key": keys, "caption": [f"Raven {key} on a branch." for key in keys]}
    pl.DataFrame(captions).write_parquet(path.with_suffix(".parquet"))


# --- ours ---


def check(shard: Path) -> int:
    return check_shards([shard]).n_samples


def read(shard: Path) -> int:
    with MemberReader(shard) as reader:
        return sum(
            1 for sample in read_samples(shard) if [reader.read(one) for one in sample.members]
        )


def index(shard: Path) -> int:
    return shard_index(shard).n_samples


def copy(shard: Path) -> int:
    return join_captions(shard, shard.with_suffix(".parquet"), shard.with_name("ours-copy.tar"))


# --- webdataset's ---


def rival_read(shard: Path) -> int:
    import webdataset

    return sum(1 for _ in webdataset.WebDataset(str(shard), shardshuffle=False))


def rival_index(shard: Path) -> int:
    with shard.open("rb") as file:
        hashlib.file_digest(file, "md5")
        file.seek(0)
        hashlib.file_digest(file, "sha256")
    return rival_read(shard)


def rival_copy(shard: Path) -> int:
    import webdataset

    captions = dict(pl.read_parquet(shard.with_suffix(".parquet")).iter_rows())
    n = 0
    with webdataset.TarWriter(str(shard.with_name("rival-copy.tar"))) as sink:
        for sample in webdataset.WebDataset(str(shard), shardshuffle=False):
            kept = {name: data for name, data in sample.items() if name != "__url__"}
            sink.write(kept | {"caption.txt": captions[sample["__key__"]]})
            n += 1
    return n


WORK: dict[str, Callable[[Path], int]] = {
    "check": check, "read": read, "index": index, "copy": copy,
    "rival_read": rival_read, "rival_index": rival_index, "rival_copy": rival_copy,
}  # fmt: skip
RIVALS = {"check": "rival_read", "read": "rival_read", "index": "rival_index", "copy": "rival_copy"}


def measure(what: str, shard: Path) -> dict[str, float]:
    """Samples, CPU seconds and peak memory of a process of its own."""
    words = [sys.executable, __file__, "--work", what, "--shard", str(shard)]
    result: dict[str, float] = json.loads(subprocess.check_output(words))
    return result


def work(what: str, shard: Path) -> None:
    if what.startswith("rival"):
        import webdataset  # noqa: F401 - it loads torch, which is not what is timed
    began = time.process_time()
    n = WORK[what](shard)
    seconds = time.process_time() - began
    status = Path("/proc/self/status").read_text().split()
    peak_mb = int(status[status.index("VmHWM:") + 1]) / 1024
    print(json.dumps({"n": n, "cpu_s": seconds, "peak_mb": peak_mb}))


def digests(shard: Path) -> str:
    """A hash of every sample's members, by name."""
    hasher = hashlib.sha256()
    with MemberReader(shard) as reader:
        for sample in read_samples(shard):
            for member in sorted(sample.members, key=lambda one: one.extension):
                hasher.update(member.extension.encode() + reader.read(member))
    return hasher.hexdigest()


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--mb", type=int, default=2_000)
    flags.add_argument("--work", default="")
    flags.add_argument("--shard", type=Path)
    args = flags.parse(mb=2)
    if args.work:
        work(args.work, args.shard)
        return 0
    n_small, ratios, most_mb = min(100, args.mb // 2), {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.tar", Path(folder) / "large.tar"
        write_shard(small, n_small)
        write_shard(large, args.mb)
        heads = f"{f'{n_small} MB':>12}{f'{args.mb:,} MB':>12}"
        print(f"{'':8}{heads}{'CPU':>10}{'webdataset':>12}{'ratio':>8}")
        for what, rival in RIVALS.items():
            few, many = measure(what, small), measure(what, large)
            other = measure(rival, large)
            ratios[what] = ratio = other["cpu_s"] / many["cpu_s"]
            most_mb = max(most_mb, many["peak_mb"] - few["peak_mb"])
            assert many["n"] == other["n"], (what, many["n"], other["n"])
            print(
                f"{what:8}{few['peak_mb']:>9.0f} MB{many['peak_mb']:>9.0f} MB"
                f"{many['cpu_s']:>8.1f} s{other['cpu_s']:>10.1f} s{ratio:>7.1f}x"
            )
        copies = {digests(large.with_name(f"{whose}-copy.tar")) for whose in ("ours", "rival")}
    assert len(copies) == 1, "the copies differ"
    figure = (
        f"shards: {min(ratios.values()):.1f} to {max(ratios.values()):.1f} times as fast as "
        f"webdataset, the same bytes; at most {most_mb:.0f} MB more for the larger shard"
    )
    bars = {f"< {BAR_MB:.0f} MB": most_mb < BAR_MB}
    bars |= {f"{what} no slower": ratio >= 1 for what, ratio in ratios.items()}
    return finish(figure, bars, args.quick)


if __name__ == "__main__":
    sys.exit(main())
