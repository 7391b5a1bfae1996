"""Captioning run: which shards are still to do, and how is the model kept busy over all of them?

Requests of consecutive shards flow through one sender, so that its concurrency stays full where one
shard ends and the next begins. Any number of processes with the same arguments share the work:
whoever has the lease of a shard does it. A shard is skipped if, and only if, its captions were made
from the same input, words, prompt, rules, model and sampling settings. Answers are journalled as
they come, by shard, so that whoever goes on after a kill pays for none of them again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fieldmark.build.caption.checks import RULES_VERSION
from fieldmark.build.caption.prompt import MAX_WORDS, CaptionPrompt, SpeciesWords
from fieldmark.build.caption.shard import (
    STATUSES,
    AskingRules,
    ShardJob,
    clear_parts,
    finished,
    shard_facts,
)
from fieldmark.build.shards.captions import captions_file, shards_by_name
from fieldmark.chat import (
    Answer,
    AnswerJournal,
    AnswerSettings,
    AskSession,
    Budget,
    ChatModel,
    LocalModel,
    Options,
    Request,
)
from fieldmark.chat.prices import Card
from fieldmark.errors import (
    ClaimLost,
    DataError,
    FieldmarkError,
    RunsFailed,
    StoreError,
)
from fieldmark.leases import Lease, LeaseFolder
from fieldmark.progress import Progress, Silent
from fieldmark.registry import MOCK

ROOM, ROOM_OF_UNKNOWN, ROOM_TO_THINK = 128, 1024, 16_384
"""tokens of an answer: a sentence; of a model that may think first; of one that does"""
WAITING_EVERY_S = 30.0
"""a worker that waits for others says so this often"""
_LEASE_EVERY_S, _POLL_S = 5.0, 1.0
_FAILED_REQUEST = "error request"
_NEVER = 10**12


@dataclass(frozen=True, slots=True)
class CaptionOptions:
    """How captions are asked for."""

    max_words: int = MAX_WORDS
    tries: int = 3
    """answers per photo, the first included"""
    temperature: float = 0.0
    top_p: float | None = None
    max_output: int | None = None
    """tokens of an answer; None = by the model"""
    sending: Options = Options()
    budget: Budget = field(default_factory=Budget)

    def answer_settings(self, card: Card) -> AnswerSettings:
        room = ROOM_TO_THINK if card.thinks else ROOM if card.is_known else ROOM_OF_UNKNOWN
        room = self.max_output or min(room, card.max_output or room)
        return AnswerSettings(self.temperature, self.top_p, max_output_tokens=room)


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
    """`status kind` → samples; the kind of a reason is its first word"""
    n_described: int = 0
    """samples whose species has a description"""
    refused: dict[str, str] = field(default_factory=dict)
    """shard → why it cannot be used"""
    stopped: str = ""
    """why the run ended early"""
    usd: float = 0.0

    @property
    def exit_code(self) -> int:
        """5: a part failed, the rest was kept; rejected captions are no failure."""
        if self.refused and not self.n_done:
            return DataError.exit_code
        return RunsFailed.exit_code if self.refused or self.counts["error"] else 0

    def add(self, manifest: Mapping[str, Any]) -> None:
        self.n_done += 1
        self.counts += Counter(manifest["counts"])
        self.reasons.update(manifest["reasons"])
        self.n_described += manifest["n_described"]

    def summary(self) -> dict[str, Any]:
        return asdict(self) | {
            "counts": {status: self.counts[status] for status in STATUSES},
            "reasons": dict(self.reasons.most_common()),
            "usd": round(self.usd, 6),
        }


class ShardJournals(AnswerJournal):
    """The journals of the shards that are open; `Request.info.job` says whose an answer is.

    One stream of requests serves several shards at a time. Each has a journal of its own, opened
    when its lease is taken, so that the answers of a worker that died are known, and memory does
    not grow with the number of shards.
    """

    def __init__(self) -> None:
        self.waiting = {}
        self._shards: dict[str, AnswerJournal] = {}
        self._lock = threading.Lock()

    def open_shard(self, name: str, folder: Path) -> None:
        with self._lock:
            self._shards[name] = AnswerJournal(folder)

    def close_shard(self, name: str) -> None:
        with self._lock:
            if (journal := self._shards.pop(name, None)) is not None:
                journal.close()

    def get(self, key: str) -> Answer | None:
        with self._lock:
            journals = (journal for journal in self._shards.values() if key in journal)
            return next((journal.get(key) for journal in journals), None)

    def add(self, key: str, request: Request, answer: Answer) -> None:
        with self._lock:
            journal = self._shards.get(request.info.job.name)
            if journal is not None:  # else its lease was lost, and the answer is nobody's
                journal.add(key, request, answer)

    def sync(self) -> None:
        for journal in list(self._shards.values()):
            journal.sync()

    def close(self) -> None:
        for name in list(self._shards):
            self.close_shard(name)


class CaptionRun:
    """Captions for every sample of every shard, under `out`; the same run again goes on.

    Shards that cannot be used are in `CaptionTotals.refused`; the others are done.
    """

    def __init__(
        self,
        shards: Sequence[Path],
        model: ChatModel | LocalModel,
        words: SpeciesWords,
        out: Path,
        options: CaptionOptions | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.shards, self.model, self.out = shards_by_name(shards), model, out
        self.options, self.progress = options or CaptionOptions(), progress or Silent()
        prompt = CaptionPrompt(words, self.options.max_words)
        settings = self.options.answer_settings(model.card)
        self.rules = AskingRules(prompt, settings, self.options.tries)
        self.totals = CaptionTotals(n_shards=len(self.shards))
        self._left = dict(self.shards)
        self._leases = LeaseFolder(out / "state" / "leases")
        self._journals = ShardJournals()
        self._again: deque[Request] = deque()
        self._job: ShardJob | None = None
        """the shard that is being read"""
        self._open: set[ShardJob] = set()
        """shards with answers to come, that one included"""
        self._dropped: list[ShardJob] = []
        self._has_started = False
        self._lease_seen = self._said_at = time.monotonic()
        self._lock = threading.Lock()
        """requests are drawn in the sender's thread, answers heard in the caller's"""

    def carry_out(self) -> CaptionTotals:
        # Bad photos are outcomes, however many there are; an endpoint that is down is not.
        sending = replace(self.options.sending, max_failures=_NEVER, may_lack_pictures=True)
        budget = self.options.budget
        session = AskSession(self.model, sending, self._journals, budget, self.progress)
        try:
            with self._leases, session:
                while self._left:
                    session.ask(self._requests(), self._hear, "captions")
                    if self._left and not self._open:
                        self._say_who_has_the_rest()
                        time.sleep(_POLL_S)
        except FieldmarkError as error:
            self.totals.stopped = str(error)
            raise
        finally:
            for job in (*self._open, *self._dropped):
                job.close()
            self._journals.close()
        return self.totals

    def _say_who_has_the_rest(self) -> None:
        if time.monotonic() - self._said_at < WAITING_EVERY_S:
            return
        self._said_at = time.monotonic()
        name = next(iter(self._left))
        who, silent_s = self._leases.holder(name)
        self.progress.say(
            f"waiting for {len(self._left):,} of {len(self.shards):,} shards: {who} is working on "
            f"{name} (last sign of life {silent_s:.0f} s ago)"
        )

    # --- requests ---

    def _requests(self) -> Iterator[Request]:
        """Ends when there is nothing to ask just now; drawn anew, it may go on."""
        while True:
            with self._lock:
                request = self._next_request()
            if request is None:
                return
            yield request

    def _next_request(self) -> Request | None:
        """Captions that are asked for again go first, so that shards are finished in their turn."""
        while True:
            if self._again:
                request = self._again.popleft()
                if request.info.job in self._open:
                    return request
                continue
            if self._job is None:
                self._job = self._next_job()
            if (job := self._job) is None:
                return None
            try:
                now = time.monotonic()
                if now - self._lease_seen >= _LEASE_EVERY_S:
                    self._lease_seen = now
                    job.lease.check()
                coming = job.next_request()
            except ClaimLost as error:
                self._drop(job, str(error))
            except StoreError:
                raise
            except DataError as error:  # damage: no part of a shard stands for all of it
                self._refuse(job.name, str(error))
                self._drop(job)
            else:
                if coming is not None:
                    return coming
                if job.is_read:
                    self._job = None
                else:
                    self.progress.advance()
                self._finish_if_answered(job)

    def _next_job(self) -> ShardJob | None:
        """The next shard that is neither done nor in other hands."""
        busy = {job.name for job in self._open}
        for name in list(self._left):
            lease = None if name in busy else self._leases.claim(name)
            if lease is not None and (job := self._begin(name, lease)) is not None:
                return job
        return None

    def _begin(self, name: str, lease: Lease) -> ShardJob | None:
        """None where the shard is done, or cannot be used."""
        path, captions = self._left[name], captions_file(self.out, name)
        clear_parts(captions)
        try:
            about = shard_facts(path, self.out / "state" / "index" / f"{name}.json")
            made_from = self._made_from(about)
            manifest = finished(captions, made_from)
            # An endpoint that was down is no outcome.
            if manifest is not None and not manifest["reasons"].get(_FAILED_REQUEST):
                self._count(name, lease, manifest)
                self.totals.n_skipped += 1
                return None
            job = ShardJob(path, self.out, lease, self.rules)
        except StoreError:
            raise
        except DataError as error:
            self._leases.give_up(lease, is_done=False)
            self._refuse(name, str(error))
            return None
        job.made_from, job.model = made_from, self.model.name.partition("?")[0]
        self._journals.open_shard(name, self.out / "state" / "journal" / name)
        self._open.add(job)
        self._lease_seen = self._said_at = time.monotonic()
        self._start_progress(about)
        return job

    def _start_progress(self, sample_shard: Mapping[str, Any]) -> None:
        """All shards are taken to be like the first: what they hold shows when they are read."""
        if not self._has_started:
            self._has_started = True
            n_bytes = sum(path.stat().st_size for path in self._left.values())
            self.progress.start(
                "captions", round(sample_shard["n_samples"] * n_bytes / sample_shard["n_bytes"])
            )

    def _made_from(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Where a server is reached decides nothing: the one of tomorrow has another address."""
        address = {key: fact for key, fact in self.model.address.items() if key != "base_url"}
        return {
            "input": dict(about),
            "words": self.rules.prompt.words.digest,
            "prompt": self.rules.prompt.digest,
            "rules": {"version": RULES_VERSION, "tries": self.options.tries},
            "model": address,
            **({"stand_in": MOCK} if self.model.is_mock else {}),
            "sampling": self.model.settings(self.rules.settings).given(),
        }

    # --- answers ---

    def _hear(self, request: Request, answer: Answer) -> None:
        with self._lock:
            self.totals.usd += 0.0 if answer.is_replayed else answer.usd or 0.0
            job: ShardJob = request.info.job
            if job not in self._open:
                return  # another worker has it, or it cannot be read: the answer is nobody's
            if (again := job.hear(request, answer)) is not None:
                self._again.append(again)
            else:
                self.progress.advance()
            self._finish_if_answered(job)

    # --- finished shards ---

    def _finish_if_answered(self, job: ShardJob) -> None:
        if not job.is_answered:
            return
        try:
            manifest = job.finish()
        except ClaimLost as error:
            self._drop(job, str(error))
            return
        except StoreError:
            raise
        except DataError as error:
            self._refuse(job.name, str(error))
            self._drop(job)
            return
        self._open.discard(job)
        self._journals.close_shard(job.name)
        job.close()
        self._count(job.name, job.lease, manifest)

    def _count(self, name: str, lease: Lease, manifest: Mapping[str, Any]) -> None:
        self._leases.give_up(lease, is_done=True)
        self.totals.add(manifest)
        del self._left[name]

    def _drop(self, job: ShardJob, why: str = "") -> None:
        """Writes nothing for a shard; requests that are under way may still read from it."""
        if why:
            self.progress.say(why)
        self._leases.give_up(job.lease, is_done=False)
        self._journals.close_shard(job.name)
        self._open.discard(job)
        self._dropped.append(job)
        self._job = None if self._job is job else self._job

    def _refuse(self, name: str, reason: str) -> None:
        self.totals.refused[name] = reason
        self._left.pop(name, None)
