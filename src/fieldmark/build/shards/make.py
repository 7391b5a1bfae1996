"""Shard writer (deterministic, resumable tar files): photos and their taxa → webdataset shards.

Same photos, same options → same bytes: fixed times and owners, an order that is drawn from the seed
and the ids. A shard is written under a hidden name, forced to the disk, read again, and only then
named; what it was made of is noted in `manifest/` after that. A finished shard is kept if it would
become the same again: same items, same options, no image file touched since. Whatever moment the
work is killed at, the same command gives the same files.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.build.shards.access import stamp_of
from fieldmark.build.shards.index import shard_index, write_index
from fieldmark.build.shards.items import ChosenItems, ShardItem, ShardSource, choose_items
from fieldmark.build.shards.tar import END_MARK, tar_member
from fieldmark.data import (
    archive_order,
    open_image,
    quick_check,
    read_bytes,
    read_header,
    split_reference,
)
from fieldmark.data._bytes import base_folder
from fieldmark.errors import DataError, plain_reason
from fieldmark.files import remove_parts, small_json, stamp, try_lock, whole_file, write_file
from fieldmark.progress import Progress, Silent
from fieldmark.taxa import RANKS, taxon_texts

VERSION = 2
"""raised when the same items would give other bytes"""
MANIFEST = "manifest"
QUALITY = 95
"""of JPEGs that are encoded anew"""
_EXTENSIONS = {"JPEG": "jpg", "MPO": "jpg", "TIFF": "tif"}
_SLOW_ANYWHERE = (".parquet", ".gz", ".tgz")
"""files out of which single images are slow to take: read in their order"""


@dataclass(frozen=True, slots=True)
class MakeOptions:
    name: str
    """shards are called NAME-00000.tar"""
    per_shard: int = 10_000
    seed: int = 0
    split: str | None = None
    """of the photos, or "all"; None = train, where photos have splits"""
    max_px: int | None = None
    """longer side of images; larger ones are shrunk. None = bytes stay as they are"""
    skips_bad: bool = False
    """leave images out that cannot be read, instead of stopping"""
    caption: str | None = None
    """column of the table that becomes the member `caption.txt`"""


@dataclass(frozen=True, slots=True)
class MadeShards:
    """What is there now, for the record."""

    files: list[Path]
    n_samples: int
    n_bytes: int
    n_kept: int
    """shards that were there already"""
    n_replaced: int
    """shards that held something else before, or are no more"""
    bad: list[tuple[str, str]]
    """image and reason, of those left out"""
    others: list[str]
    """shards of other datasets in the same folder"""
    chosen: ChosenItems


def make_shards(
    source: ShardSource, out: Path, options: MakeOptions, progress: Progress | None = None
) -> MadeShards:
    """Writes the shards and their index into a folder; returns what is there now."""
    progress = progress or Silent()
    chosen = choose_items(source, options.split, options.seed, options.caption)
    with _working(out, options.name):
        if not options.skips_bad:
            _refuse_missing(source.root, chosen.table["image"].to_list())
        maker = _ShardMaker(source.root, out, options)
        progress.start("photos", chosen.table.height)
        for number, start in enumerate(range(0, chosen.table.height, options.per_shard)):
            items = chosen.items(start, options.per_shard)
            progress.status(maker.path(number).name)
            maker.make(number, items)
            progress.advance(len(items))
        if not maker.rows:
            raise DataError(f"{source.root}  none of {len(maker.bad):,} images can be read.")
        # Shards of an earlier, larger set, now that this one is complete.
        urls = {row["url"] for row in maker.rows}
        for path in _shards_in(out, options.name):
            if path.name not in urls:
                maker.n_replaced += 1
                path.unlink()
                _note(path).unlink(missing_ok=True)
        write_index(maker.index, maker.rows, options.name)
    return MadeShards(
        files=[out / row["url"] for row in maker.rows],
        n_samples=sum(row["nsamples"] for row in maker.rows),
        n_bytes=sum(row["filesize"] for row in maker.rows),
        n_kept=maker.n_kept,
        n_replaced=maker.n_replaced,
        bad=maker.bad,
        others=sorted(path.name for path in out.glob("*.tar") if path.name not in urls),
        chosen=chosen,
    )


class _ShardMaker:
    """Makes one shard after the other, or keeps it."""

    def __init__(self, root: Path, out: Path, options: MakeOptions) -> None:
        self.root, self.out, self.options = root, out, options
        self.index = out / f"{options.name}-index.json"
        self.rows: list[dict[str, Any]] = []
        """lines of the index"""
        self.bad: list[tuple[str, str]] = []
        self.n_kept = self.n_replaced = 0

    def path(self, number: int) -> Path:
        return self.out / f"{self.options.name}-{number:05}.tar"

    def make(self, number: int, items: Sequence[ShardItem]) -> None:
        path = self.path(number)
        note = _note(path)
        recipe = {"recipe": self._recipe(items), "stamps": _stamps(self.root, items)}
        noted = small_json(note)
        kept = noted if _is_kept(noted, path, recipe) else None
        if kept is not None and (self.options.skips_bad or not kept["bad"]):
            self.n_kept += 1
        else:
            # A killed command leaves a shard of which nothing is noted yet.
            is_other = any((noted.get(key) or value) != value for key, value in recipe.items())
            self.n_replaced += is_other and path.exists()
            self.index.unlink(missing_ok=True)  # it speaks of a set that is no more
            if not note.exists():
                write_file(note, b"{}", is_durable=True)  # whatever comes here is ours
            bad: list[tuple[str, str]] = []
            row = self._write(path, items, bad)
            kept = {**recipe, "bad": bad, "row": row, "file": stamp_of(path)}
            write_file(note, json.dumps(kept, ensure_ascii=False).encode(), is_durable=True)
        self.bad += [(str(image), str(reason)) for image, reason in kept["bad"]]
        self.rows += [kept["row"]] if kept["row"] else []

    def _recipe(self, items: Sequence[ShardItem]) -> str:
        """Whatever decides the bytes, but for those of the images."""
        encoder: tuple[object, ...] = ()
        if self.options.max_px is not None or any(item.crop for item in items):
            from PIL import __version__

            encoder = (self.options.max_px, QUALITY, __version__)
        return draws.digest(VERSION, encoder, *items).hex()

    def _write(
        self, path: Path, items: Sequence[ShardItem], bad: list[tuple[str, str]]
    ) -> dict[str, Any] | None:
        """The shard, read again before it gets its name; None = no image of it can be read."""
        written, keys = hashlib.sha256(), hashlib.sha256()
        n_samples = 0
        with whole_file(path, is_durable=True) as file:
            for item, data in _in_order(self.root, items, path.parent):
                try:
                    members = sample_members(item, _checked(data, item, self.options.max_px))
                except DataError as error:
                    self._refuse(item, error)
                    bad.append((item.image, plain_reason(error)))
                    continue
                for member in members:
                    file.write(member)
                    written.update(member)
                keys.update(f"{item.key}\n".encode())
                n_samples += 1
            file.write(END_MARK)
            written.update(END_MARK)
            file.flush()
            listed = shard_index(Path(file.name))
            expected = (n_samples, written.hexdigest(), keys.hexdigest())
            if (listed.n_samples, listed.sha256, listed.keys_sha256) != expected:
                raise DataError(f"{path}  does not read back as it was written: check the disk.")
        if not n_samples:
            path.unlink()
            return None
        return listed.row(path.name)

    def _refuse(self, item: ShardItem, error: DataError) -> None:
        if not self.options.skips_bad:
            raise DataError(
                f"{base_folder(self.root) / item.image}  {plain_reason(error)}: fix it, or leave "
                "such images out with --bad-images skip. Finished shards are kept."
            ) from error


def sample_members(item: ShardItem, image: tuple[str, bytes]) -> list[bytes]:
    """The members of a sample, as they stand in the tar file."""
    extension, data = image
    about: dict[str, Any] = {"id": item.id, **dict(zip(RANKS, item.taxon.ranks, strict=True))}
    about |= {"common_name": item.taxon.common_name, "image": item.image}
    about |= {"dataset": item.dataset, "split": item.split}
    about |= {"crop": item.crop} if item.crop else {}
    caption = {"caption.txt": item.caption} if item.caption else {}
    texts = {**taxon_texts(item.taxon), **caption, "json": json.dumps(about, ensure_ascii=False)}
    return [
        tar_member(f"{item.key}.{extension}", data),
        *(tar_member(f"{item.key}.{name}", text.encode()) for name, text in texts.items()),
    ]


# --- images ---


def _checked(data: bytes | DataError, item: ShardItem, max_px: int | None) -> tuple[str, bytes]:
    """Extension and bytes of an image: as they are, unless it is cropped or too large."""
    if isinstance(data, DataError):
        raise data
    problem = quick_check(data)
    if problem:
        raise DataError(f"{item.image}  {problem}.")
    header = read_header(data, name=item.image)
    is_large = max_px is not None and max(header.height, header.width) > max_px
    if item.crop is None and not is_large:
        return _EXTENSIONS.get(header.format, header.format.lower()), data
    from PIL.Image import Resampling

    image = open_image(data, item.crop, name=item.image)
    if max_px is not None:
        image.thumbnail((max_px, max_px), Resampling.BICUBIC, reducing_gap=None)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=QUALITY, subsampling=0)
    return "jpg", stream.getvalue()


def _in_order(
    root: Path, items: Sequence[ShardItem], folder: Path
) -> Iterator[tuple[ShardItem, bytes | DataError]]:
    """Items with the bytes of their images. What lies in files that are slow to read here and there
    is taken out in their order first, and kept in a nameless file beside the shard.
    """
    slow: dict[str, list[str]] = {}
    for item in items:
        name, inner = split_reference(item.image)
        if inner and name.lower().endswith(_SLOW_ANYWHERE):
            slow.setdefault(name, []).append(item.image)
    with tempfile.TemporaryFile(dir=folder) if slow else io.BytesIO() as spool:
        spooled: dict[str, tuple[int, int] | DataError] = {}
        for name in sorted(slow):
            for image in archive_order(root, list(dict.fromkeys(slow[name]))):
                data = _read(root, image)
                if isinstance(data, bytes):
                    spooled[image] = (spool.tell(), spool.write(data))
                else:
                    spooled[image] = data
        for item in items:
            position = spooled.get(item.image)
            if isinstance(position, tuple):
                spool.seek(position[0])
                yield item, spool.read(position[1])
            else:
                yield item, position or _read(root, item.image)


def _read(root: Path, image: str) -> bytes | DataError:
    try:
        return read_bytes(root, image)
    except DataError as error:
        return error


def _file_of(root: Path, image: str) -> Path:
    return base_folder(root) / split_reference(image)[0]


def _refuse_missing(root: Path, images: Iterable[str]) -> None:
    """Files that are not there are told before anything is written."""
    files = dict.fromkeys(_file_of(root, image) for image in images)
    missing = [path for path in files if not path.is_file()]
    if missing:
        shown = ", ".join(str(path) for path in missing[:3])
        raise DataError(
            f"{root}  {len(missing):,} of {len(files):,} image files are missing ({shown}): "
            "--bad-images skip leaves them out."
        )


# --- what is kept ---


def _stamps(root: Path, items: Sequence[ShardItem]) -> str:
    """What changes when an image file does; "" where that cannot be relied on (just written)."""
    hasher = hashlib.blake2b(digest_size=16)
    for path in dict.fromkeys(_file_of(root, item.image) for item in items):
        try:
            mark, is_settled = stamp(path)
        except (OSError, ValueError):
            mark, is_settled = b"absent", True
        if not is_settled:
            return ""
        hasher.update(len(mark).to_bytes(1, "little") + mark)
    return hasher.hexdigest()


def _is_kept(noted: dict[str, Any], path: Path, recipe: dict[str, str]) -> bool:
    """Whether the shard would become the same again."""
    is_same = all(noted.get(name) == value != "" for name, value in recipe.items())
    return is_same and noted.get("file") == stamp_of(path)


@contextmanager
def _working(out: Path, name: str) -> Iterator[None]:
    """One process at a time makes these shards; files of others are never touched."""
    manifest = out / MANIFEST
    try:
        for path in _shards_in(out, name) if out.is_dir() else ():
            if not _note(path).exists():
                raise DataError(
                    f"{out}  contains {path.name}, which `shards make` did not write: choose "
                    "another folder with --out, or another name with --name."
                )
        manifest.mkdir(parents=True, exist_ok=True)
        with (manifest / f"{name}.lock").open("ab") as lock:
            if try_lock(lock) is False:
                raise DataError(
                    f"{out}  another process is making the shards of {name!r}: wait until it ends."
                )
            ours = re.compile(rf"{re.escape(name)}-\d{{5,}}\.(tar|json)")
            for folder in (out, manifest):
                remove_parts(folder, ours.fullmatch)
            yield
    except OSError as error:
        raise DataError(f"{out}  cannot be written: {error.strerror or error}.") from error


def _note(path: Path) -> Path:
    """What is noted of a shard."""
    return path.parent / MANIFEST / f"{path.stem}.json"


def _shards_in(out: Path, name: str) -> list[Path]:
    ours = re.compile(rf"{re.escape(name)}-\d{{5,}}\.tar")
    return sorted(path for path in out.iterdir() if ours.fullmatch(path.name))
