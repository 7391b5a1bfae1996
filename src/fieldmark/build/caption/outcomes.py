"""Caption outcomes: what became of every sample of a shard, and how is that written down?

Answers come in no order; rows are written in the order of the shard. Only what waits for an earlier
answer is in memory: the rest lies in a spool file, which becomes one Parquet file at the end. No
row and no header holds a time or a machine, so that the same answers give the same bytes whatever
was killed on the way. The manifest beside it is written last: it says from what the captions were
made, and that they are complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import polars as pl

from fieldmark.errors import DataError, RunsFailed, StoreError
from fieldmark.files import part_of, sync_folder, write_file
from fieldmark.leases import Lease

CaptionStatus = Literal["ok", "rejected", "error"]
STATUSES: tuple[CaptionStatus, ...] = ("ok", "rejected", "error")
SCHEMA = {
    "shard": pl.String, "key": pl.String, "status": pl.String, "caption": pl.String,
    "reason": pl.String, "attempts": pl.Int64,
}  # fmt: skip
_ROW_GROUP = 10_000


class CaptionRow(NamedTuple):
    key: str
    status: CaptionStatus
    caption: str = ""
    reason: str = ""
    """`kind: what was wrong`; of a good caption "mended: …" or nothing"""
    attempts: int = 0
    """answers that were looked at"""


class OutcomeSpool:
    """Rows of one shard, put in order as they come."""

    def __init__(self, path: Path, shard: str) -> None:
        self.path, self.shard = path, shard
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        """`status kind` → how many; the kind of a reason is its first word"""
        self.n_described = 0
        """samples whose species has a description"""
        self._waiting: dict[int, CaptionRow] = {}
        self._next = 0
        self._keys = hashlib.sha256()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("wb")
        except OSError as error:
            raise unwritable(path, error) from error

    @property
    def n_settled(self) -> int:
        return self.counts.total()

    @property
    def n_waiting(self) -> int:
        """Rows in memory, because an earlier one is still being asked."""
        return len(self._waiting)

    @property
    def keys_hash(self) -> str:
        """Of all keys in order, a line each."""
        return self._keys.hexdigest()

    def settle(self, number: int, row: CaptionRow) -> None:
        """What became of the sample with this number; StoreError when it had an outcome before."""
        if number < self._next or number in self._waiting:
            raise StoreError(f"{self.shard}  sample {row.key!r} was settled twice: this is a bug.")
        self._waiting[number] = row
        self.counts[row.status] += 1
        if row.reason:
            self.kinds[f"{row.status} {row.reason.partition(':')[0]}"] += 1
        while (ready := self._waiting.pop(self._next, None)) is not None:
            self._write(ready)
            self._next += 1

    def _write(self, row: CaptionRow) -> None:
        self._keys.update(row.key.encode() + b"\n")
        line = json.dumps({"shard": self.shard, **row._asdict()}, ensure_ascii=False)
        try:
            self._file.write(line.encode() + b"\n")
        except OSError as error:
            raise unwritable(self.path, error) from error

    def write_parquet(self, path: Path, lease: Lease) -> str:
        """The rows as a file that appears whole or not at all; its SHA-256."""
        part = part_of(path)
        try:
            self._file.close()
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = pl.scan_ndjson(self.path, schema=SCHEMA)
            rows.sink_parquet(part, row_group_size=_ROW_GROUP, maintain_order=True)
            digest = _verified(part, self._next)
            lease.check()
            part.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise unwritable(path, error) from error
        except pl.exceptions.PolarsError as error:
            first = str(error).splitlines()[0]
            raise StoreError(f"{path}  cannot be written: {first}.") from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        return digest

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
            self.path.unlink(missing_ok=True)


def _verified(part: Path, n_rows: int) -> str:
    """The hash of a file that is on the disk and holds as many rows as it should."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    n_written = pl.scan_parquet(part, glob=False).select(pl.len()).collect().item()
    if n_written != n_rows:
        raise StoreError(f"{part}  holds {n_written:,} rows after writing, expected {n_rows:,}.")
    return digest


def unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}  cannot be written: {error.strerror or error}.")


# --- manifest ---


@dataclass(frozen=True, slots=True)
class CaptionFiles:
    """Where the captions of a shard are, and what belongs to them."""

    folder: Path

    def captions(self, name: str) -> Path:
        return self.folder / "captions" / f"{name}.parquet"

    def manifest(self, name: str) -> Path:
        return self.folder / "captions" / f"{name}.json"

    def journal(self, name: str) -> Path:
        """Answers that were paid for; may be deleted when the shard is done."""
        return self.folder / "state" / "journal" / name

    def spool(self, name: str) -> Path:
        return self.folder / "state" / "spool" / f"{name}.{os.urandom(4).hex()}.jsonl"

    def index(self, name: str) -> Path:
        return self.folder / "state" / "index" / f"{name}.json"

    def clear(self, name: str, copy: Path | None = None) -> None:
        """Removes what a killed worker left of files that were not whole yet."""
        whole = [self.captions(name), self.manifest(name), *([copy] if copy else [])]
        parts = [(path.parent, rf"\.{re.escape(path.name)}\.\d+\.part") for path in whole]
        spools = (self.spool(name).parent, rf"{re.escape(name)}\.[0-9a-f]{{8}}\.jsonl")
        for folder, pattern in (*parts, spools):
            for path in folder.iterdir() if folder.is_dir() else ():
                if re.fullmatch(pattern, path.name):
                    with contextlib.suppress(OSError):
                        path.unlink(missing_ok=True)

    def copy_note(self, name: str) -> Path:
        return self.folder / "state" / "copies" / f"{name}.json"

    @property
    def leases(self) -> Path:
        return self.folder / "state" / "leases"

    @property
    def quarantine(self) -> Path:
        return self.folder / "state" / "quarantine.jsonl"


def read_manifest(path: Path) -> dict[str, Any] | None:
    """None where there is none that can be read."""
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def finished(files: CaptionFiles, name: str, made_from: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest of a shard whose captions were made from just this and are complete."""
    manifest = read_manifest(files.manifest(name))
    if manifest is None or manifest.get("made_from") != made_from:
        return None
    try:
        with files.captions(name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    return manifest if manifest.get("captions_sha256") == digest else None


def write_manifest(path: Path, spool: OutcomeSpool, made_from: dict[str, Any], digest: str) -> None:
    facts = {
        "shard": spool.shard,
        "made_from": made_from,
        "captions_sha256": digest,
        "counts": {status: spool.counts[status] for status in STATUSES},
        "n_described": spool.n_described,
        "reasons": dict(sorted(spool.kinds.items())),
    }
    data = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    try:
        write_file(path, data.encode(), is_durable=True)
    except DataError as error:
        raise StoreError(str(error)) from error


# --- all shards ---


@dataclass(slots=True)
class CaptionTotals:
    """What a run has come to."""

    n_shards: int = 0
    n_done: int = 0
    """shards whose captions are complete, those included that are skipped"""
    n_skipped: int = 0
    """shards that were done before, or by other workers meanwhile"""
    counts: Counter[str] = field(default_factory=Counter)
    """status → samples, over all shards of the command"""
    reasons: Counter[str] = field(default_factory=Counter)
    n_described: int = 0
    """samples whose species has a description"""
    refused: dict[str, str] = field(default_factory=dict)
    """shard → why it cannot be used, or not be written"""
    stopped: str = ""
    """why the run ended early"""
    usd: float = 0.0

    @property
    def exit_code(self) -> int:
        """5: a part failed, the rest was kept; rejected captions are no failure."""
        if self.refused and not self.n_done:
            return DataError.exit_code
        return RunsFailed.exit_code if self.refused or self.counts["error"] else 0

    def add(self, counts: Mapping[str, int], reasons: Mapping[str, int], n_described: int) -> None:
        self.n_done += 1
        self.counts.update(counts)
        self.reasons.update(reasons)
        self.n_described += n_described

    def summary(self) -> dict[str, Any]:
        return {
            "n_shards": self.n_shards,
            "n_done": self.n_done,
            "n_skipped": self.n_skipped,
            "counts": {status: self.counts[status] for status in STATUSES},
            "reasons": dict(self.reasons.most_common()),
            "n_described": self.n_described,
            "refused": self.refused,
            "stopped": self.stopped,
            "usd": round(self.usd, 6),
        }
