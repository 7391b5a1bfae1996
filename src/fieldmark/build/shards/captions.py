"""Captions beside a shard (sidecar files): where do they lie, are they those of its bytes, and how
do they get into a copy of it?

`fieldmark caption --out FOLDER` writes `FOLDER/captions/SHARD.parquet`, with columns `key`,
`caption`, `status` and `shard`, and `SHARD.json`, which says from which bytes they were made.
Captions from elsewhere need only the first two columns, and no such file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from fieldmark.build.shards.index import shard_index
from fieldmark.build.shards.samples import WRITER, read_samples, sound_samples, writer
from fieldmark.build.shards.tar import CHUNK, END_MARK, TarBytes, tar_member
from fieldmark.errors import DataError, UsageError
from fieldmark.files import parse_json, whole_file

EXTENSION = "caption.txt"
"""of captions that lie in the shard itself"""


def shard_name(path: Path) -> str:
    """What its captions are called.

    >>> shard_name(Path("train/a.000.tar.gz"))
    'a.000'
    """
    return re.sub(r"\.(tar|tar\.gz|tgz)$", "", path.name, flags=re.IGNORECASE)


def shards_by_name(shards: Sequence[Path]) -> dict[str, Path]:
    """Names of outputs are those of the shards, which must therefore differ."""
    names: dict[str, Path] = {}
    for path in shards:
        name = shard_name(path)
        if name in names and names[name] != path:
            raise UsageError(
                f"{path}  and {names[name]} have the same file name, so their captions would "
                "overwrite each other: caption each with a command and an --out of its own."
            )
        if not path.is_file():
            raise DataError(f"{path}  does not exist: expected a webdataset shard (.tar).")
        names[name] = path
    return names


def captions_file(folder: Path, name: str) -> Path:
    return folder / "captions" / f"{name}.parquet"


def captions_files(shards: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Where the captions of the shards are, or would be."""
    if not captions_file(folder, "").parent.is_dir():
        raise DataError(
            f"{folder}  contains no captions: expected the folder that "
            "`fieldmark caption --out FOLDER` wrote, with captions/SHARD.parquet in it."
        )
    return {path: captions_file(folder, name) for name, path in shards_by_name(shards).items()}


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


def captioned_sha256(captions: Path, shard: Path) -> str:
    """SHA-256 of the shard that the captions were made from; "" where nobody says.

    DataError where the shard's size shows that it is another one, or why it is if it is damaged.
    """
    note = captions.with_suffix(".json")
    if not note.is_file():
        return ""
    try:
        source = parse_json(note.read_bytes())["made_from"]["input"]
        n_bytes, sha256 = int(source["n_bytes"]), str(source["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = "is not a manifest of captions: run `fieldmark caption` again."
        raise DataError(f"{note}  {text}") from error
    if n_bytes != shard.stat().st_size:
        for _ in read_samples(shard):  # one that is cut off would still be so with other captions
            pass
        raise of_other_bytes(captions, shard)
    return sha256


def caption_models(files: Iterable[Path]) -> tuple[str, ...]:
    """The models that wrote these captions, as far as their manifests say."""
    notes = [note for path in files if (note := _writer_note(path))]
    return tuple(sorted({writer(note["model"], "stand_in" in note) for note in notes}))


def _writer_note(captions: Path) -> dict[str, str]:
    """Of the model that wrote these captions: its name, and `stand_in` where it was none."""
    try:
        manifest = parse_json(captions.with_suffix(".json").read_bytes())
        made_from = manifest["made_from"]
        name = str(manifest.get("model") or made_from["model"]["model"])
        stand_in = {"stand_in": str(made_from["stand_in"])} if "stand_in" in made_from else {}
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return {}
    return {"model": name, **stand_in}


def of_other_bytes(captions: Path, shard: Path) -> DataError:
    return DataError(
        f"{captions}  was made for {shard} before that file changed: run `fieldmark caption` again "
        f"(a shard with {EXTENSION} in it needs no --captions)."
    )


# --- joined into the shard
# Everything before the end mark is copied as it lies there, headers and padding too; behind the
# last member of a sample its caption is put in, and which model wrote it, with a fixed time and
# owner. So the same shard and the same captions give the same bytes, and no image is ever decoded.
# The note lies in each sample, because other tools copy samples into shards of their own.


def join_captions(shard: Path, captions: Path, out: Path) -> int:
    """Writes the copy, whole or not at all; returns how many samples have a caption.

    `captions` is a Parquet file as `captions.py` describes it. A caption for a key that the shard
    lacks is an error, and so are captions that were made from other bytes.
    """
    if not out.name.endswith(".tar"):
        raise UsageError(f"{out}  expected a name that ends in .tar: copies are not compressed.")
    if out.resolve() == shard.resolve():
        raise UsageError(f"{out}  is the shard itself: choose another folder for the copy.")
    texts = read_captions(captions, shard.name)
    expected = captioned_sha256(captions, shard)
    if expected and shard_index(shard).sha256 != expected:
        raise of_other_bytes(captions, shard)
    with whole_file(out, is_durable=True) as file:
        n_added = _write(shard, texts, _writer_note(captions), file)
        if n_added < len(texts):
            raise DataError(f"{captions}  has captions for keys that {shard} lacks.")
    return n_added


def _write(shard: Path, texts: Mapping[str, str], note: dict[str, str], file: IO[bytes]) -> int:
    n_added = 0
    written_by = json.dumps(note, ensure_ascii=False).encode() if note else b""
    with TarBytes(shard) as headers, TarBytes(shard) as source:
        for sample in sound_samples(headers):
            text = texts.get(sample.key)
            if text is None:
                continue
            if sample.get(EXTENSION) is not None:
                raise DataError(f"{shard}  key {sample.key!r} already has a {EXTENSION}.")
            _copy(source, sample.end, file)
            file.write(tar_member(f"{sample.key}.{EXTENSION}", text.encode()))
            if written_by:
                file.write(tar_member(f"{sample.key}.{WRITER}", written_by))
            n_added += 1
        _copy(source, headers.content_end, file)
    file.write(END_MARK)
    return n_added


def _copy(source: TarBytes, end: int, file: IO[bytes]) -> None:
    while source.at < end and (data := source.read(min(CHUNK, end - source.at))):
        file.write(data)
