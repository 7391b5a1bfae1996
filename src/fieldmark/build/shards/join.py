"""Captions joined into a shard: a copy, members byte for byte, with a `caption.txt` in each sample.

Everything before the end mark is copied as it lies there, headers and padding too; behind the last
member of a sample its caption is put in, with a fixed time and owner. So the same shard and the
same captions give the same bytes, and no image is ever decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO

from fieldmark.build.shards.captions import (
    EXTENSION,
    captioned_sha256,
    of_other_bytes,
    read_captions,
)
from fieldmark.build.shards.index import shard_index
from fieldmark.build.shards.samples import sound_samples
from fieldmark.build.shards.tar import CHUNK, END_MARK, TarBytes, tar_member
from fieldmark.errors import DataError, UsageError
from fieldmark.files import whole_file


def join_captions(shard: Path, captions: Path, out: Path) -> int:
    """Writes the copy, whole or not at all; returns how many samples have a caption.

    `captions` is a Parquet file as `captions.py` describes it. A caption for a key that the shard
    lacks is an error, and so are captions that were made from other bytes.
    """
    if not out.name.endswith(".tar"):
        raise UsageError(f"{out}  expected a name that ends in .tar: copies are not packed.")
    if out.resolve() == shard.resolve():
        raise UsageError(f"{out}  is the shard itself: a copy needs another place.")
    texts = read_captions(captions, shard.name)
    expected = captioned_sha256(captions, shard)
    if expected and shard_index(shard).sha256 != expected:
        raise of_other_bytes(captions, shard)
    with whole_file(out, is_durable=True) as file:
        n_added = _write(shard, texts, file)
        if n_added < len(texts):
            raise DataError(f"{captions}  has captions for keys that {shard} lacks.")
    return n_added


def _write(shard: Path, texts: Mapping[str, str], file: IO[bytes]) -> int:
    n_added = 0
    with TarBytes(shard) as headers, TarBytes(shard) as source:
        for sample in sound_samples(headers):
            text = texts.get(sample.key)
            if text is None:
                continue
            if sample.get(EXTENSION) is not None:
                raise DataError(f"{shard}  key {sample.key!r} already has a {EXTENSION}.")
            _copy(source, sample.end, file)
            file.write(tar_member(f"{sample.key}.{EXTENSION}", text.encode()))
            n_added += 1
        _copy(source, headers.content_end, file)
    file.write(END_MARK)
    return n_added


def _copy(source: TarBytes, end: int, file: IO[bytes]) -> None:
    while source.at < end and (data := source.read(min(CHUNK, end - source.at))):
        file.write(data)
