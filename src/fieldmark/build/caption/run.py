"""Captioning run: which shards are still to do, and how is the model kept busy over all of them?

Requests of consecutive shards flow through one sender, so that its concurrency stays full where one
shard ends and the next begins. Any number of processes with the same arguments share the work:
whoever has the lease of a shard does it. A shard is skipped if, and only if, its captions were made
from the same input, words, prompt, rules, model and sampling settings.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fieldmark.build.caption.checks import RULES_VERSION, KnownNames
from fieldmark.build.caption.job import (
    AskingRules,
    CaptionAsk,
    ShardJob,
    ShardJournals,
    shard_name,
)
from fieldmark.build.caption.leases import LeaseFolder
from fieldmark.build.caption.offline import OfflineConnection, OfflineModel, Quarantine
from fieldmark.build.caption.outcomes import STATUSES, CaptionFiles, finished
from fieldmark.build.caption.prompt import MAX_WORDS, CaptionPrompt, SpeciesWords
from fieldmark.build.shards import materialize, shard_index
from fieldmark.chat import (
    Answer,
    AnswerSettings,
    Budget,
    ChatModel,
    LocalConnection,
    LocalModel,
    ModelConnection,
    Options,
    Request,
    open_connection,
)
from fieldmark.chat.journal import settings_facts
from fieldmark.data import stamp
from fieldmark.errors import (
    ClaimLost,
    DataError,
    ModelError,
    RunsFailed,
    StoreError,
    UsageError,
)
from fieldmark.files import write_file
from fieldmark.progress import Progress, Silent

ROOM, ROOM_OF_UNKNOWN, ROOM_TO_THINK = 128, 1024, 16_384
"""tokens of an answer: a sentence; of a model that may think first; of one that does"""
TRIES = 3
MOST_WAITING = 5_000
"""rows that may wait in memory for an earlier one before asking pauses"""
_IN_A_ROW = 15
"""requests that failed one after the other: the endpoint is down, not the photos bad"""
_LEASE_EVERY_S, _POLL_S = 5.0, 1.0
_NEVER = 10**12


@dataclass(frozen=True, slots=True)
class CaptionOptions:
    """How captions are asked for."""

    max_words: int = MAX_WORDS
    tries: int = TRIES
    """answers per photo, the first included"""
    temperature: float = 0.0
    top_p: float | None = None
    max_output: int | None = None
    """tokens of an answer; None = by the model"""
    sending: Options = Options()
    budget: Budget = field(default_factory=Budget)
    materialize: Path | None = None
    """folder for copies of the shards with a caption.txt in each sample"""
    retry_errors: bool = False
    """shards with errors are done again; only what failed is asked"""


@dataclass(slots=True)
class CaptionTotals:
    """What a run has come to."""

    n_shards: int = 0
    n_skipped: int = 0
    """shards that were done before, or by other workers meanwhile"""
    counts: Counter[str] = field(default_factory=Counter)
    """status → samples, over all shards of the command"""
    reasons: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    """shard → why it cannot be used"""
    usd: float = 0.0

    def summary(self) -> dict[str, Any]:
        return {
            "n_shards": self.n_shards,
            "n_skipped": self.n_skipped,
            "counts": {status: self.counts[status] for status in STATUSES},
            "reasons": dict(self.reasons.most_common()),
            "refused": self.refused,
            "usd": round(self.usd, 6),
        }


def caption_shards(
    shards: Sequence[Path],
    model: ChatModel | LocalModel | OfflineModel,
    words: SpeciesWords,
    out: Path,
    options: CaptionOptions | None = None,
    progress: Progress | None = None,
) -> CaptionTotals:
    """Captions for every sample of every shard, under `out`; the same call again goes on.

    RunsFailed when some shards cannot be used (the others are done), DataError when none can.
    """
    own, tell = options or CaptionOptions(), progress or Silent()
    run = CaptionRun(_by_name(shards), model, words, CaptionFiles(out), own, tell)
    totals = run.carry_out()
    if totals.refused:
        kind = DataError if len(totals.refused) == len(shards) else RunsFailed
        raise kind("\n".join(totals.refused.values()))
    return totals


def _by_name(shards: Sequence[Path]) -> dict[str, Path]:
    """Names of outputs are those of the shards, which must therefore differ."""
    names: dict[str, Path] = {}
    for path in shards:
        name = shard_name(path)
        if name in names and names[name] != path:
            raise UsageError(
                f"{path}  has the name of {names[name]}, and so would its captions: "
                "give each a command and an --out of its own."
            )
        if not path.is_file():
            raise DataError(f"{path}  does not exist: expected a webdataset shard (.tar).")
        names[name] = path
    return names


class CaptionRun:
    """The requests of all shards, one after the other (an iterator), and their answers."""

    def __init__(
        self,
        shards: dict[str, Path],
        model: ChatModel | LocalModel | OfflineModel,
        words: SpeciesWords,
        files: CaptionFiles,
        options: CaptionOptions,
        progress: Progress,
    ) -> None:
        self.shards, self.model, self.files = shards, model, files
        self.options, self.progress = options, progress
        prompt = CaptionPrompt(words, options.max_words)
        known = KnownNames.of({name: words.common_names(name) for name in words.by_name})
        self.rules = AskingRules(prompt, self._settings(), options.tries, known)
        self.totals = CaptionTotals(n_shards=len(shards))
        self._left = dict(shards)
        self._journals = ShardJournals()
        self._leases = LeaseFolder(files.leases)
        self._again: deque[Request] = deque()
        self._job: ShardJob | None = None
        self._open: set[ShardJob] = set()
        self._dropped: list[ShardJob] = []
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="captions")
        self._written: dict[ShardJob, Future[None]] = {}
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="look-ahead")
        self._ahead: dict[str, Future[dict[str, Any]]] = {}
        self._has_started = False
        self._failed_in_a_row = 0
        self._lease_seen = 0.0

    def _settings(self) -> AnswerSettings:
        card, own = self.model.card, self.options
        room = ROOM_TO_THINK if card.thinks else ROOM if card.is_known else ROOM_OF_UNKNOWN
        room = own.max_output or min(room, card.max_output or room)
        return AnswerSettings(own.temperature, own.top_p, max_output_tokens=room)

    def carry_out(self) -> CaptionTotals:
        try:
            with self._leases, self._line() as line:
                while True:
                    tally = _result_of(line.steps(self, self._hear))
                    self.totals.usd += tally.usd
                    if tally.stopped:
                        raise ModelError(
                            f"{tally.stopped}: finished captions are kept; the same command with a "
                            "higher limit continues from there."
                        )
                    self._collect(wait=True)
                    if self._job is None and not self._again and not self._left:
                        return self.totals
                    if self._job is None and not self._again:
                        time.sleep(_POLL_S)  # the rest is in the hands of other workers
        finally:
            self._writer.shutdown()
            self._reader.shutdown(cancel_futures=True)
            for job in [*self._open, *self._dropped]:
                job.close()
            self._journals.close()

    def _line(self) -> ModelConnection | LocalConnection | OfflineConnection:
        if isinstance(self.model, OfflineModel):
            quarantine = Quarantine(self.files.quarantine)
            return OfflineConnection(self.model, self._journals, quarantine)
        # Whether it is the endpoint that fails, or photos of which a shard has many, is told here.
        own = self.options.sending
        sending = replace(own, max_failures=_NEVER, max_failures_in_a_row=_NEVER)
        return open_connection(self.model, sending, self._journals, self.options.budget)

    # --- requests ---

    def __iter__(self) -> Iterator[Request]:
        return self

    def __next__(self) -> Request:
        """Captions that are asked for again go first, so that shards are finished in their turn.

        Ends when there is nothing to ask just now; asked once more, it may go on.
        """
        while True:
            if self._again:
                request = self._again.popleft()
                if request.info.job.is_dropped:
                    continue
                return request
            if self._job is None:
                self._collect(wait=False)
                self._job = self._next_job()
            job = self._job
            if job is None or job.spool.n_waiting > MOST_WAITING:
                raise StopIteration
            if not self._is_still_ours(job):
                continue
            try:
                coming = job.next_request()
            except StoreError:
                raise
            except DataError as error:  # damage: no part of a shard stands for all of it
                self._drop(job, str(error))
                continue
            if coming is not None:
                return coming
            if job.is_read:
                self._job = None
                self._finish_if_settled(job)

    def _is_still_ours(self, job: ShardJob) -> bool:
        now = time.monotonic()
        if now - self._lease_seen < _LEASE_EVERY_S:
            return True
        self._lease_seen = now
        if job.lease.is_held:
            return True
        self.progress.say(f"{job.path}  was taken over by another worker.")
        self._drop(job, "")
        return False

    def _next_job(self) -> ShardJob | None:
        """The next shard that is neither done nor in other hands.

        The lease comes first: what another worker is at need not be read here too.
        """
        busy = {job.name for job in self._open}
        for name, path in list(self._left.items()):
            lease = None if name in busy else self._leases.claim(name)
            if lease is None:
                continue
            try:
                self.files.clear(name, self._copy(name))
                made_from = self._made_from(name, path)
                if self._is_done(name, made_from):
                    self._leases.give_up(lease, is_done=True)
                    continue
                job = ShardJob(path, lease, self.files, self.rules, self.progress)
            except StoreError:
                raise
            except DataError as error:
                self._leases.give_up(lease, is_done=False)
                self._refuse(name, str(error))
                continue
            job.made_from, job.copy = made_from, self._copy(name)
            self._journals.open_shard(name, self.files.journal(name))
            self._open.add(job)
            self._lease_seen = time.monotonic()
            self._start_progress(job)
            self._look_ahead()
            return job
        return None

    def _copy(self, name: str) -> Path | None:
        folder = self.options.materialize
        return None if folder is None else folder / f"{name}.tar"

    def _is_done(self, name: str, made_from: dict[str, Any]) -> bool:
        manifest = finished(self.files, name, made_from)
        if manifest is None or (self.options.retry_errors and manifest["counts"]["error"]):
            return False
        if (copy := self._copy(name)) is not None and not copy.exists():
            materialize(self.shards[name], self.files.captions(name), copy)
        self.totals.counts.update(manifest["counts"])
        self.totals.reasons.update(manifest["reasons"])
        self.totals.n_skipped += 1
        del self._left[name]
        return True

    def _start_progress(self, job: ShardJob) -> None:
        """All shards are taken to be like the first: what they hold shows when they are read."""
        if self._has_started:
            return
        self._has_started = True
        first = job.made_from["input"]
        n_bytes = sum(path.stat().st_size for path in self._left.values())
        self.progress.start("captions", round(first["n_samples"] * n_bytes / first["n_bytes"]))

    def _look_ahead(self) -> None:
        """Reads the next shard in a thread, so that nobody waits for its hash."""
        busy = {job.name for job in self._open}
        names = (name for name in self._left if name not in busy and self._leases.is_free(name))
        if (name := next(names, None)) is not None and name not in self._ahead:
            path, memory = self._left[name], self.files.index(name)
            self._ahead = {name: self._reader.submit(shard_facts, path, memory)}

    def _made_from(self, name: str, path: Path) -> dict[str, Any]:
        return {
            "input": self._facts(name, path),
            "words": self.rules.prompt.words.digest,
            "prompt": self.rules.prompt.digest,
            "rules": {"version": RULES_VERSION, "tries": self.options.tries},
            "model": dict(self.model.address),
            "sampling": settings_facts(self.model.settings(self.rules.settings)),
        }

    def _facts(self, name: str, path: Path) -> dict[str, Any]:
        if (ahead := self._ahead.pop(name, None)) is not None:
            return ahead.result()
        return shard_facts(path, self.files.index(name))

    # --- answers ---

    def _hear(self, request: Request, answer: Answer) -> bool:
        ask: CaptionAsk = request.info
        if not ask.job.is_dropped:
            self._count_failures(answer)
            again = ask.job.hear(request, answer)
            if again is not None:
                self._again.append(again)
            self._finish_if_settled(ask.job)
        if usd := self.options.budget.spent_usd:
            self.progress.status(f"${usd:,.2f} spent")
        return False

    def _count_failures(self, answer: Answer) -> None:
        is_failure = answer.outcome == "failed" and answer.attempts > 0
        self._failed_in_a_row = self._failed_in_a_row + 1 if is_failure else 0
        if self._failed_in_a_row >= _IN_A_ROW:
            raise ModelError(
                f"model {self.model.name!r}: {_IN_A_ROW} requests in a row failed, the last: "
                f"{answer.error.rstrip('.')}. Captions that came before are kept; run the same "
                "command again to go on."
            )

    # --- finished shards ---

    def _finish_if_settled(self, job: ShardJob) -> None:
        if job.is_settled and job in self._open and job not in self._written:
            self._written[job] = self._writer.submit(self._finish, job)

    def _finish(self, job: ShardJob) -> None:
        job.finish()
        self._leases.give_up(job.lease, is_done=True)

    def _collect(self, wait: bool) -> None:
        """Takes note of the shards that were written."""
        for job, writing in list(self._written.items()):
            if not (wait or writing.done()):
                continue
            del self._written[job]
            try:
                writing.result()
            except ClaimLost as error:
                self.progress.say(str(error))
                self._drop(job, "")
                continue
            except StoreError:
                if job.lease.is_held:
                    raise
                self._drop(job, "")  # another worker has cleared up after this one
                continue
            except DataError as error:
                self._drop(job, str(error))
                continue
            self.totals.counts.update(job.spool.counts)
            self.totals.reasons.update(job.spool.kinds)
            del self._left[job.name]
            job.close()
            self._forget(job)

    def _drop(self, job: ShardJob, reason: str) -> None:
        """Writes nothing for a shard; with a reason, it is left alone from now on."""
        if reason:
            self._refuse(job.name, reason)
        self._leases.give_up(job.lease, is_done=False)
        job.drop()
        self._dropped.append(job)
        self._forget(job)
        self._job = None if self._job is job else self._job

    def _refuse(self, name: str, reason: str) -> None:
        self.totals.refused[name] = reason
        del self._left[name]
        self.progress.say(f"left out: {reason}")

    def _forget(self, job: ShardJob) -> None:
        self._journals.close_shard(job.name)
        self._open.discard(job)


def _result_of(steps: Any) -> Any:
    """What a generator returns when it has ended."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def shard_facts(path: Path, memory: Path) -> dict[str, Any]:
    """What a shard holds; read anew unless its file is untouched since it was read last."""
    mark, is_settled = stamp(path)
    with contextlib.suppress(OSError, ValueError, KeyError):
        known = json.loads(memory.read_bytes())
        if known["stamp"] == mark.hex():
            return dict(known["facts"])
    index = shard_index(path)
    facts = {
        "sha256": index.sha256,
        "n_bytes": index.n_bytes,
        "n_samples": index.n_samples,
        "keys_sha256": index.keys_sha256,
    }
    if is_settled:
        note = {"stamp": mark.hex(), "facts": facts}
        with contextlib.suppress(DataError):  # only remembered to save time
            write_file(memory, json.dumps(note).encode())
    return facts
