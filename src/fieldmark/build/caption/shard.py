"""A shard being captioned: its samples as requests, their answers as rows of one Parquet file.

Images are read only when they are sent, so that memory does not grow with their bytes. Every sample
ends in exactly one of ok, rejected and error; a caption that breaks a rule is asked for again with
what was wrong. No row holds a time or a machine, so that the same answers give the same bytes
whatever was killed on the way. `SHARD.json` is written last: it says from what the captions were
made, and that they are complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from fieldmark.build.caption.checks import check_caption
from fieldmark.build.caption.prompt import CaptionPrompt, ask_again
from fieldmark.build.shards import (
    MemberReader,
    read_samples,
    sample_taxon,
    shard_index,
    shard_name,
)
from fieldmark.build.shards.captions import captions_file
from fieldmark.chat import Answer, AnswerSettings, Message, Picture, Request
from fieldmark.errors import DataError, StoreError
from fieldmark.files import parse_json, remove_parts, stamp, write_file
from fieldmark.leases import Lease
from fieldmark.taxa import Taxon
from fieldmark.words import is_text

CaptionStatus = Literal["ok", "rejected", "error"]
STATUSES: tuple[CaptionStatus, ...] = ("ok", "rejected", "error")
SCHEMA = {
    "shard": pl.String, "key": pl.String, "status": pl.String, "caption": pl.String,
    "reason": pl.String, "attempts": pl.Int64,
}  # fmt: skip
NO_TAXON = "no_taxon: expected json, scientific_name.txt, taxonomic_name.txt or sci.txt"


class CaptionRow(NamedTuple):
    key: str
    status: CaptionStatus
    caption: str = ""
    reason: str = ""
    """`kind: what was wrong`; of a good caption "mended: …" or nothing"""
    attempts: int = 0
    """answers that were looked at"""


@dataclass(frozen=True, slots=True)
class AskingRules:
    """What is the same for all photos of a run."""

    prompt: CaptionPrompt
    settings: AnswerSettings
    tries: int


@dataclass(frozen=True, slots=True)
class CaptionAsk:
    """What a request is about, and how often its photo was asked before."""

    job: ShardJob
    number: int
    """of the sample in its shard"""
    key: str
    taxon: Taxon
    attempt: int = 1


class ShardJob:
    """One shard, from its first sample to its manifest; its lease is held here."""

    def __init__(self, path: Path, out: Path, lease: Lease, rules: AskingRules) -> None:
        self.path, self.name, self.lease, self.rules = path, shard_name(path), lease, rules
        self.captions = captions_file(out, self.name)
        self.made_from: dict[str, Any] = {}
        self.model = ""
        """its name without options, for people"""
        self.rows: dict[int, CaptionRow] = {}
        self.n_read = self.n_described = 0
        self.is_read = False
        """all samples were seen"""
        self._stamp = stamp(path)[0]
        self._reader = MemberReader(path)
        self._samples = read_samples(path)

    @property
    def is_answered(self) -> bool:
        return self.is_read and len(self.rows) == self.n_read

    @property
    def counts(self) -> dict[str, int]:
        n = Counter(row.status for row in self.rows.values())
        return {status: n[status] for status in STATUSES}

    def next_request(self) -> Request | None:
        """The next sample as a request; None = it had its outcome at once, or there is none."""
        sample = next(self._samples, None)
        if sample is None:
            self.is_read = True
            return None
        if not is_text(sample.key):
            raise DataError(f"{self.path}  key {sample.key!r} is not UTF-8 text.")
        number, self.n_read = self.n_read, self.n_read + 1
        image = sample.image
        taxon = None if image is None else sample_taxon(sample, self._reader.read)
        if image is None or taxon is None:
            lacks = "no_image" if image is None else NO_TAXON
            self.rows[number] = CaptionRow(sample.key, "error", reason=lacks)
            return None
        self.n_described += bool(self.rules.prompt.words.description(taxon))
        messages = self.rules.prompt.messages(taxon, Picture(lambda: self._reader.read(image)))
        return self._ask(CaptionAsk(self, number, sample.key, taxon), messages)

    def _ask(self, ask: CaptionAsk, messages: tuple[Message, ...]) -> Request:
        name = f"{self.name}/{ask.key}"
        return Request(name, messages, self.rules.settings, ask.attempt - 1, ask)

    def hear(self, request: Request, answer: Answer) -> Request | None:
        """Settles the sample, or gives the request that asks for another caption."""
        ask: CaptionAsk = request.info
        if answer.outcome == "failed":
            text = answer.error.removeprefix("picture  ").rstrip(".")
            reason = f"request: {text}" if answer.attempts else f"bad_image: {text}"
            self.rows[ask.number] = CaptionRow(ask.key, "error", "", reason, ask.attempt - 1)
            return None
        prompt = self.rules.prompt
        checked = check_caption(answer.text, prompt.words.names(ask.taxon), prompt.max_words)
        problem = {
            "refused": "refused: the model declined",
            "length": "cut_off: ran out of tokens before its end",
        }.get(answer.outcome, checked.problem)
        if problem and ask.attempt < self.rules.tries:
            next_ask = CaptionAsk(self, ask.number, ask.key, ask.taxon, ask.attempt + 1)
            wrong = problem.partition(": ")[2]
            return self._ask(next_ask, ask_again(request.messages, answer.text.strip(), wrong))
        if problem:
            row = CaptionRow(ask.key, "rejected", "", problem, ask.attempt)
        else:
            note = f"mended: {', '.join(checked.mends)}" if checked.mends else ""
            row = CaptionRow(ask.key, "ok", checked.caption, note, ask.attempt)
        self.rows[ask.number] = row
        return None

    def finish(self) -> dict[str, Any]:
        """Writes captions and manifest; ClaimLost where the shard is another worker's by now."""
        if stamp(self.path)[0] != self._stamp:
            raise DataError(f"{self.path}  was changed while it was read: run the command again.")
        table = parquet_bytes(self.path.name, [self.rows[n] for n in range(self.n_read)])
        kinds = Counter(
            f"{row.status} {row.reason.partition(':')[0]}"
            for row in self.rows.values()
            if row.reason
        )
        manifest = {
            "shard": self.path.name,
            "made_from": self.made_from,
            "model": self.model,
            "captions_sha256": hashlib.sha256(table).hexdigest(),
            "counts": self.counts,
            "n_described": self.n_described,
            "reasons": dict(sorted(kinds.items())),
        }
        note = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        for path, data in ((self.captions, table), (_manifest(self.captions), note.encode())):
            self.lease.check()
            try:
                write_file(path, data, is_durable=True)
            except DataError as error:
                raise StoreError(str(error)) from error
        return manifest

    def close(self) -> None:
        """When nothing is under way any more."""
        self._samples.close()  # type: ignore[attr-defined]  # a generator
        self._reader.close()


def parquet_bytes(shard: str, rows: list[CaptionRow]) -> bytes:
    table = pl.DataFrame(
        {"shard": [shard] * len(rows)}
        | {name: [getattr(row, name) for row in rows] for name in CaptionRow._fields},
        schema=SCHEMA,
    )
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


# --- what is there already ---


def _manifest(captions: Path) -> Path:
    return captions.with_suffix(".json")


def finished(captions: Path, made_from: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest of captions that were made from just this and are complete."""
    try:
        manifest = parse_json(_manifest(captions).read_bytes())
        digest = hashlib.sha256(captions.read_bytes()).hexdigest()
        is_same = (manifest["made_from"], manifest["captions_sha256"]) == (made_from, digest)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest if is_same else None


def clear_parts(captions: Path) -> None:
    """Removes what a killed worker left of files that were not whole yet."""
    remove_parts(captions.parent, {captions.name, _manifest(captions).name}.__contains__)


def shard_facts(path: Path, memory: Path) -> dict[str, Any]:
    """What a shard holds; read anew unless its file is untouched since it was read last."""
    mark, is_settled = stamp(path)
    with contextlib.suppress(OSError, ValueError, KeyError):
        remembered = parse_json(memory.read_bytes())
        if remembered["stamp"] == mark.hex():
            return dict(remembered["facts"])
    index = shard_index(path)
    about = {
        "sha256": index.sha256,
        "n_bytes": index.n_bytes,
        "n_samples": index.n_samples,
        "keys_sha256": index.keys_sha256,
    }
    if is_settled:
        with contextlib.suppress(DataError):  # only remembered to save time
            write_file(memory, json.dumps({"stamp": mark.hex(), "facts": about}).encode())
    return about
