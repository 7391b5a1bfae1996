"""A shard being captioned: its samples as requests, their answers as outcomes.

Samples are read as they are wanted and images only when they are sent, so that memory does not grow
with the shard. Every sample ends in exactly one of ok, rejected and error; a caption that breaks a
rule is asked for again with what was wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.build.caption.checks import CaptionRules, KnownNames
from fieldmark.build.caption.copies import CaptionedCopy
from fieldmark.build.caption.outcomes import (
    CaptionFiles,
    CaptionRow,
    OutcomeSpool,
    write_manifest,
)
from fieldmark.build.caption.prompt import CaptionPrompt, ask_again
from fieldmark.build.shards import (
    MemberReader,
    SampleMember,
    read_samples,
    sample_taxon,
)
from fieldmark.build.taxa import Taxon
from fieldmark.chat import Answer, AnswerSettings, Journal, Message, Picture, Request
from fieldmark.errors import DataError
from fieldmark.leases import Lease
from fieldmark.progress import Progress


@dataclass(frozen=True, slots=True)
class CaptionAsk:
    """What a request is about, and how often its photo was asked before."""

    job: ShardJob
    number: int
    """of the sample in its shard"""
    key: str
    taxon: Taxon
    attempt: int = 1

    @property
    def shard(self) -> str:
        return self.job.name


@dataclass(frozen=True, slots=True)
class AskingRules:
    """What is the same for all photos of a run."""

    prompt: CaptionPrompt
    settings: AnswerSettings
    tries: int
    names: KnownNames
    """of all species: a caption names only its own"""


class ShardJob:
    """One shard, from its first sample to its manifest."""

    def __init__(
        self,
        path: Path,
        lease: Lease,
        files: CaptionFiles,
        rules: AskingRules,
        progress: Progress,
    ) -> None:
        self.path, self.name, self.lease = path, shard_name(path), lease
        self.files, self.rules, self.progress = files, rules, progress
        self.made_from: dict[str, Any] = {}
        self.copy: CaptionedCopy | None = None
        """where a copy with captions goes; None = none is wanted"""
        self.n_read = 0
        self.is_read = False
        """all samples were seen"""
        self.is_dropped = False
        """another worker has it, or it cannot be read: answers are nobody's"""
        self._reader = MemberReader(path)
        self._samples = read_samples(path)
        self.spool = OutcomeSpool(files.spool(self.name), path.name)

    @property
    def is_settled(self) -> bool:
        return self.is_read and self.spool.n_settled == self.n_read

    def next_request(self) -> Request | None:
        """The next sample as a request; None = it had its outcome at once, or there is none."""
        sample = next(self._samples, None)
        if sample is None:
            self.is_read = True
            return None
        if not _is_text(sample.key):
            raise DataError(f"{self.path}  key {sample.key!r} is no UTF-8 text.")
        number, self.n_read = self.n_read, self.n_read + 1
        image = sample.image
        taxon = None if image is None else sample_taxon(sample, self._reader.read)
        if image is None or taxon is None:
            lacks = "no_image" if image is None else NO_TAXON
            self._settle(number, CaptionRow(sample.key, "error", reason=lacks))
            return None
        self.spool.n_described += bool(self.rules.prompt.words.description(taxon))
        messages = self.rules.prompt.messages(taxon, Picture(lambda: self._read(image)))
        return self._ask(CaptionAsk(self, number, sample.key, taxon), messages)

    def _read(self, image: SampleMember) -> bytes:
        if self.is_dropped:
            raise DataError(f"{self.path}  is in other hands.")
        return self._reader.read(image)

    def _ask(self, ask: CaptionAsk, messages: tuple[Message, ...]) -> Request:
        return Request(
            f"{self.name}/{ask.key}", messages, self.rules.settings, ask.attempt - 1, ask
        )

    def hear(self, request: Request, answer: Answer) -> Request | None:
        """Settles the sample, or gives the request that asks for another caption."""
        ask: CaptionAsk = request.info
        if answer.outcome == "failed":
            self._settle(
                ask.number, CaptionRow(ask.key, "error", "", _failure(answer), ask.attempt - 1)
            )
            return None
        checked = self._checks(ask.taxon).check(answer.text)
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
        self._settle(ask.number, row)
        return None

    def _checks(self, taxon: Taxon) -> CaptionRules:
        prompt = self.rules.prompt
        words = prompt.words
        return CaptionRules(
            words.names(taxon), prompt.max_words, words.examples_of(taxon), self.rules.names
        )

    def _settle(self, number: int, row: CaptionRow) -> None:
        if not self.is_dropped:
            self.spool.settle(number, row)
            self.progress.advance()

    def finish(self) -> None:
        """Writes captions and manifest; ClaimLost where the shard is another worker's by now."""
        if not self.is_settled:
            raise DataError(
                f"{self.path}  {self.spool.n_settled:,} outcomes for {self.n_read:,} samples: "
                "this is a bug."
            )
        expected = self.made_from["input"]
        if (self.n_read, self.spool.keys_hash) != (expected["n_samples"], expected["keys_sha256"]):
            raise DataError(f"{self.path}  was changed while it was read: run the command again.")
        captions = self.files.captions(self.name)
        digest = self.spool.write_parquet(captions, self.lease)
        self.lease.check()
        write_manifest(self.files.manifest(self.name), self.spool, self.made_from, digest)
        if self.copy is not None:
            self.copy.make(captions, expected["sha256"], digest)

    def drop(self) -> None:
        """Answers that still come are nobody's; the shard stays open, for some may be reading."""
        self.is_dropped = True
        self.spool.close()

    def close(self) -> None:
        """When nothing is under way any more."""
        self.drop()
        self._samples.close()  # type: ignore[attr-defined]  # a generator
        self._reader.close()


NO_TAXON = "no_taxon: expected json, scientific_name.txt, taxonomic_name.txt or sci.txt"


def shard_name(path: Path) -> str:
    """What its captions are called.

    >>> shard_name(Path("train/a.000.tar.gz"))
    'a.000'
    """
    return re.sub(r"\.(tar|tar\.gz|tgz)$", "", path.name, flags=re.IGNORECASE)


def _failure(answer: Answer) -> str:
    text = answer.error.removeprefix("picture  ").rstrip(".")
    if text.startswith("poison: "):
        return text
    return f"request: {text}" if answer.attempts else f"bad_image: {text}"


def _is_text(key: str) -> bool:
    """A tar file's names are bytes; Parquet wants text."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- answers that were paid for ---


class ShardJournals(Journal):
    """The journals of the shards that are open; `Request.info.shard` says whose an answer is.

    One stream of requests serves several shards at a time. Each has a journal of its own, opened
    when its lease is taken, so that the answers of a worker that died are known.
    """

    def __init__(self) -> None:
        self.waiting = {}
        self._shards: dict[str, Journal] = {}

    def open_shard(self, name: str, folder: Path) -> None:
        self._shards[name] = Journal(folder)

    def close_shard(self, name: str) -> None:
        if (journal := self._shards.pop(name, None)) is not None:
            journal.close()

    def get(self, key: str) -> Answer | None:
        for journal in list(self._shards.values()):
            if key in journal:
                return journal.get(key)
        return None

    def add(self, key: str, request: Request, answer: Answer) -> None:
        journal = self._shards.get(request.info.shard)
        if journal is not None:  # else its lease was lost, and the answer is nobody's
            journal.add(key, request, answer)

    def sync(self) -> None:
        for journal in list(self._shards.values()):
            journal.sync()

    def close(self) -> None:
        for name in list(self._shards):
            self.close_shard(name)

    def __len__(self) -> int:
        return sum(map(len, self._shards.values()))

    def __contains__(self, key: str) -> bool:
        return any(key in journal for journal in self._shards.values())
