"""For tests of shards: tar files of any kind, and what webdataset reads out of them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import webdataset


def tar_bytes(members: list[tuple[str, bytes]], form: int = tarfile.USTAR_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def write_shard(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_bytes(list(members.items())))
    return path


def read_by_webdataset(path: Path) -> dict[str, dict[str, bytes]]:
    """Key → extension → bytes."""
    samples = webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
    return {
        sample["__key__"]: {
            name: data for name, data in sample.items() if not name.startswith("__")
        }
        for sample in samples
    }


def hashes(folder: Path) -> dict[str, str]:
    """File → hash, of all that a user sees of a set of shards."""
    paths = [*folder.glob("*.tar"), *folder.glob("*.json")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}
