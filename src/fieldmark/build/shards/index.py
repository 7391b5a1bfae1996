"""Shard index (checksums, counts): what does a shard hold, in one JSON file that wids reads too?

The file has the schema of wids, webdataset's indexed reader (`wids-shard-index-v1`: url, nsamples,
filesize, md5sum), and three fields of our own: `sha256`, `keys_sha256` (of the keys in their order,
each with a line feed behind it) and `extensions` (how many members have which). One pass over the
bytes of a shard gives all of it (two, if it is packed). No times and no absolute paths: the same
shards, the same file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from glob import iglob
from pathlib import Path
from typing import Any

from fieldmark.build.shards.samples import Sample, scan
from fieldmark.build.shards.tar import CHUNK, SHARD_SUFFIXES, Defect, TarBytes
from fieldmark.data import expand_ranges, is_packed
from fieldmark.errors import DataError, UsageError, meant
from fieldmark.files import parse_json, write_file

KIND = "wids-shard-index-v1"


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """What one shard holds."""

    n_samples: int
    n_bytes: int
    """of the file, packed or not"""
    sha256: str
    """"" where only headers were read"""
    md5: str
    keys_sha256: str
    extensions: dict[str, int] = field(hash=False)
    """extension → members, by name"""

    def row(self, url: str) -> dict[str, Any]:
        """A line of the index file."""
        return {
            "url": url,
            "nsamples": self.n_samples,
            "filesize": self.n_bytes,
            "md5sum": self.md5,
            "sha256": self.sha256,
            "keys_sha256": self.keys_sha256,
            "extensions": self.extensions,
        }


def shard_index(path: Path) -> ShardIndex:
    """The index of a whole and sound shard; DataError for another one."""

    def refuse(defect: Defect) -> None:
        if not defect.is_note:
            raise DataError(defect.line(path))

    return survey(path, refuse)


def survey(
    path: Path,
    on_defect: Callable[[Defect], None],
    on_sample: Callable[[Sample], None] | None = None,
    has_hashes: bool = True,
) -> ShardIndex:
    """One pass over a shard. Without hashes only headers are read."""
    sha, md5, keys = hashlib.sha256(), hashlib.md5(usedforsecurity=False), hashlib.sha256()
    extensions, n_samples = Counter[str](), 0

    def add(data: bytes) -> None:
        sha.update(data)
        md5.update(data)

    with TarBytes(path, add if has_hashes and not is_packed(path) else None) as stream:
        for part in scan(stream):
            if isinstance(part, Defect):
                on_defect(part)
                continue
            n_samples += 1
            keys.update(f"{part.key}\n".encode("utf-8", "surrogateescape"))
            extensions.update(member.extension for member in part.members)
            if on_sample is not None:
                on_sample(part)
        if not is_packed(path):
            stream.skip_to(stream.n_bytes)  # what lies behind damage
    if has_hashes and is_packed(path):
        with path.open("rb") as file:
            for data in iter(lambda: file.read(CHUNK), b""):
                add(data)
    digests = (sha.hexdigest(), md5.hexdigest()) if has_hashes else ("", "")
    counts = dict(sorted(extensions.items()))
    return ShardIndex(n_samples, stream.n_bytes, *digests, keys.hexdigest(), counts)


def find_shards(words: Sequence[str]) -> list[Path]:
    """The tar files that words name: files, folders of them, patterns; each once.

    Patterns are `a-{000..099}.tar`, `*` and `?`, for those that a shell has left as they are.
    """
    paths: dict[Path, None] = {}
    for name in (name for word in words for name in expand_ranges(word)):
        path = Path(name).expanduser()
        if set(name) & set("*?") and not path.exists():
            paths.update(dict.fromkeys(_matching(path)))
        elif path.is_dir():
            inside = [child for child in sorted(path.iterdir()) if _is_shard(child)]
            if not inside:
                raise DataError(f"{name}  contains no {', '.join(SHARD_SUFFIXES)} files.")
            paths.update(dict.fromkeys(inside))
        elif not path.is_file():
            beside = path.parent.iterdir() if path.parent.is_dir() else ()
            hint = meant(path.name, (child.name for child in beside))
            how = "" if hint else " `fieldmark shards make` writes shards."
            raise DataError(f"{name}  does not exist.{hint}{how}")
        elif not _is_shard(path):
            raise UsageError(f"{name}  is not a shard: expected {', '.join(SHARD_SUFFIXES)} files.")
        else:
            paths[path] = None
    if not paths:
        raise UsageError("no shards given: name tar files, or folders of them.")
    return list(paths)


def _matching(pattern: Path) -> list[Path]:
    names = iglob(str(pattern).replace("[", "[[]"))  # noqa: PTH207 - `..` and `/` may come first
    shards = sorted(path for path in map(Path, names) if _is_shard(path) and path.is_file())
    if not shards:
        raise DataError(f"{pattern}  matches no {', '.join(SHARD_SUFFIXES)} files.")
    return shards


def _is_shard(path: Path) -> bool:
    return path.name.lower().endswith(SHARD_SUFFIXES) and not path.name.startswith(".")


# --- the file ---


def write_index(path: Path, rows: Iterable[dict[str, Any]], name: str = "") -> None:
    """`rows` are what `ShardIndex.row` gives; addresses are relative to the file."""
    index = {
        "__kind__": KIND,
        "wids_version": 1,
        "name": name or path.parent.resolve().name,
        "shardlist": list(rows),
    }
    text = json.dumps(index, indent=1, ensure_ascii=False)
    write_file(path, f"{text}\n".encode("utf-8", "surrogateescape"), is_durable=True)


def read_index(path: Path) -> dict[Path, dict[str, Any]]:
    """Shard → its line of an index file, ours or wids' own."""
    try:
        index = parse_json(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError as error:
        raise DataError(f"{path}  cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise DataError(f"{path}  is not JSON: {error}.") from error
    rows = index.get("shardlist") if isinstance(index, dict) else None
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("url"), str) for row in rows
    ):
        raise DataError(
            f"{path}  is not an index of shards: expected a `shardlist` with a `url` for each, as "
            "`fieldmark shards index` writes it."
        )
    return {place(path, row["url"]): row for row in rows}


def relative_url(index: Path, shard: Path) -> str:
    """How an index names a shard: seen from its own folder."""
    return Path(os.path.relpath(shard.resolve(), index.parent.resolve())).as_posix()


def place(index: Path, url: str) -> Path:
    """Where the shard of a line lies."""
    return Path(os.path.normpath(index.parent.resolve() / url.removeprefix("file:")))
