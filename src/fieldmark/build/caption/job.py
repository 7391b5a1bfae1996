"""A shard being captioned: its samples as requests, their answers as outcomes.

Samples are read as they are wanted and images only when they are sent, so that memory does not grow
with the shard. Every sample ends in exactly one of ok, rejected and error; a caption that breaks a
rule is asked for again with what was wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.build.caption.checks import CaptionRules
from fieldmark.build.caption.leases import ShardLease
from fieldmark.build.caption.outcomes import (
    CaptionFiles,
    CaptionRow,
    OutcomeSpool,
    write_manifest,
)
from fieldmark.build.caption.prompt import CaptionPrompt, ask_again
from fieldmark.build.shards import (
    MemberReader,
    Sample,
    SampleMember,
    materialize,
    read_samples,
    sample_taxon,
)
from fieldmark.build.taxa import Taxon
from fieldmark.chat import Answer, AnswerSettings, Message, Picture, Request
from fieldmark.errors import DataError, plain_reason


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
    names: frozenset[str]
    """of all species, folded: a caption names only its own"""


class ShardJob:
    """One shard, from its first sample to its manifest."""

    def __init__(
        self, path: Path, name: str, lease: ShardLease, files: CaptionFiles, rules: AskingRules
    ) -> None:
        self.path, self.name, self.lease = path, name, lease
        self.files, self.rules = files, rules
        self.made_from: dict[str, Any] = {}
        self.copy: Path | None = None
        """where a copy with captions goes; None = none is wanted"""
        self.n_read = 0
        self.is_read = False
        """all samples were seen"""
        self.is_dropped = False
        """another worker has it, or it cannot be read: answers are nobody's"""
        self._reader = MemberReader(path)
        self._samples = read_samples(path)
        self.spool = OutcomeSpool(files.spool(name), path.name)

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
        try:
            return self._request(number, sample)
        except DataError as error:
            self._settle(number, CaptionRow(sample.key, "error", reason=_line("sample", error)))
            return None

    def _request(self, number: int, sample: Sample) -> Request | None:
        taxon = sample_taxon(sample, self._reader.read)
        image = sample.image
        if image is None:
            self._settle(number, CaptionRow(sample.key, "error", reason="no_image"))
            return None
        if taxon is None:
            self._settle(number, CaptionRow(sample.key, "error", reason="no_taxon"))
            return None
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
        names = tuple(n for n in (taxon.name, prompt.words.common_name(taxon)) if n)
        return CaptionRules(
            names, prompt.max_words, prompt.words.examples_of(taxon), self.rules.names
        )

    def _settle(self, number: int, row: CaptionRow) -> None:
        if not self.is_dropped:
            self.spool.settle(number, row)

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
        if self.copy is not None:  # one that was made of other captions must not outlive them
            self.copy.unlink(missing_ok=True)
        write_manifest(self.files.manifest(self.name), self.spool, self.made_from, digest)
        if self.copy is not None:
            materialize(self.path, captions, self.copy)

    def drop(self) -> None:
        """Answers that still come are nobody's; the shard stays open, for some may be reading."""
        self.is_dropped = True
        self.spool.close()

    def close(self) -> None:
        """When nothing is under way any more."""
        self.drop()
        self._samples.close()  # type: ignore[attr-defined]  # a generator
        self._reader.close()


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


def _line(kind: str, error: Exception) -> str:
    return f"{kind}: {plain_reason(error)}"
