"""Which files of a dataset has the hub's own client already put on this machine?"""

from __future__ import annotations

import re
from pathlib import Path

from fieldmark.locate import is_file, is_folder, is_there

_ADDRESS = re.compile(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)")
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(.*)")


def cached_file(address: str) -> Path | None:
    """The file of `hf://datasets/owner/name[@revision]/path`, if it was fetched before."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    folder = snapshot(found[1], found[2])
    path = folder / found[3] if folder else None
    return path if path is not None and is_there(path) else None


def snapshot(name: str, revision: str | None = None) -> Path | None:
    """The folder of the dataset's files as they were fetched; of no revision, the newest."""
    from huggingface_hub.constants import HF_HUB_CACHE

    home = Path(HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}"
    reference = home / "refs" / (revision or "main")
    commit = reference.read_text().strip() if is_file(reference) else revision
    if commit and is_folder(home / "snapshots" / commit):
        return home / "snapshots" / commit
    if revision:
        return None
    every = [each for each in (home / "snapshots").glob("*") if each.is_dir()]
    return max(every, key=lambda each: each.stat().st_mtime, default=None)


def missing_shards(folder: Path) -> list[str]:
    """`train-00001-of-00003.parquet`: parts that were not fetched although others were."""
    seen: dict[tuple[str, int, str], set[int]] = {}
    for path in folder.rglob("*-of-*"):
        found = _SHARD.fullmatch(path.relative_to(folder).as_posix())
        if found:
            seen.setdefault((found[1], int(found[3]), found[4]), set()).add(int(found[2]))
    return [
        f"{start}-{number:05d}-of-{total:05d}{end}"
        for (start, total, end), numbers in seen.items()
        for number in sorted(set(range(total)) - numbers)
    ]
