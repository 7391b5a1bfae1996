"""Captioned copy of a shard: members byte for byte, and a `caption.txt` with each captioned sample.

Everything before the end mark is copied as it lies there, headers and padding too; behind the last
member of a sample its caption is put in, with a fixed time and owner. So the same shard and the
same captions give the same bytes, and no image is ever decoded. The copy is read again and held
against what was copied before it gets its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from fieldmark.build.shards.samples import sound_samples
from fieldmark.build.shards.tar import CHUNK, END_MARK, TarBytes, tar_member
from fieldmark.errors import DataError, UsageError
from fieldmark.files import whole_file

EXTENSION = "caption.txt"


def materialize(shard: Path, captions: Path, out: Path) -> int:
    """Writes the copy, whole or not at all; returns how many samples have a caption.

    `captions` is a Parquet file with columns `key`, `caption` and, where given, `status` (rows that
    are not "ok" have none) and `shard`. A caption for a key that the shard lacks is an error.
    """
    if not out.name.endswith(".tar"):
        raise UsageError(f"{out}  expected a name that ends in .tar: copies are not packed.")
    if out.resolve() == shard.resolve():
        raise UsageError(f"{out}  is the shard itself: a copy needs another place.")
    texts = read_captions(captions, shard.name)
    with whole_file(out, is_durable=True) as file:
        digest = _write(shard, texts, captions, file)
        file.flush()
        _verify(Path(file.name), out, texts, digest)
    return len(texts)


def read_captions(path: Path, shard: str) -> dict[str, str]:
    """Key → caption of the samples of a shard that have one."""
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0]
        raise DataError(f"{path}  is not a Parquet file that can be read: {line}") from error
    missing = [name for name in ("key", "caption") if name not in frame.columns]
    if missing:
        raise DataError(f"{path}  lacks the columns {', '.join(missing)}.")
    if "shard" in frame.columns:
        frame = frame.filter(pl.col("shard").str.split("/").list.last() == shard)
    if "status" in frame.columns:
        frame = frame.filter(pl.col("status") == "ok")
    frame = frame.filter(pl.col("caption").is_not_null())
    texts = dict(frame.select("key", "caption").iter_rows())
    if len(texts) < len(frame):
        raise DataError(f"{path}  has two captions for one key of {shard}.")
    return texts


def caption_member(key: str, text: str) -> bytes:
    """What is put into the tar file: header, text, padding."""
    return tar_member(f"{key}.{EXTENSION}", text.encode())


def _write(shard: Path, texts: Mapping[str, str], captions: Path, file: IO[bytes]) -> bytes:
    """Returns a hash of what was copied."""
    copied, n_added = hashlib.blake2b(), 0
    with TarBytes(shard) as headers, TarBytes(shard) as source:
        for sample in sound_samples(headers):
            text = texts.get(sample.key)
            if text is None:
                continue
            if sample.get(EXTENSION) is not None:
                raise DataError(f"{shard}  key {sample.key!r} already has a {EXTENSION}.")
            _pass_on(source, sample.end, file.write, copied.update)
            file.write(caption_member(sample.key, text))
            n_added += 1
        _pass_on(source, headers.content_end, file.write, copied.update)
    if n_added < len(texts):
        raise DataError(f"{captions}  has captions for keys that {shard} lacks.")
    file.write(END_MARK)
    return copied.digest()


def _verify(part: Path, out: Path, texts: Mapping[str, str], digest: bytes) -> None:
    """Reads the copy: without the captions it is what was copied, and each lies in its sample."""
    copied = hashlib.blake2b()
    with TarBytes(part) as headers, TarBytes(part) as source:
        for sample in sound_samples(headers):
            if sample.key in texts:
                added = caption_member(sample.key, texts[sample.key])
                _pass_on(source, sample.end - len(added), copied.update)
                if source.read(len(added)) != added:
                    break
        else:
            _pass_on(source, headers.content_end, copied.update)
            if copied.digest() == digest:
                return
    raise DataError(f"{out}  reads back other than it was written: is the disk sound?")


def _pass_on(source: TarBytes, end: int, *sinks: Callable[[bytes], object]) -> None:
    while source.at < end and (data := source.read(min(CHUNK, end - source.at))):
        for sink in sinks:
            sink(data)
