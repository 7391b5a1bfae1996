"""Captioning run: which shards are still to do, and how is the model kept busy over all of them?

Requests of consecutive shards flow through one sender, so that its concurrency stays full where one
shard ends and the next begins. Any number of processes with the same arguments share the work:
whoever has the lease of a shard does it. A shard is skipped if, and only if, its captions were made
from the same input, words, prompt, rules, model and sampling settings.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fieldmark.build.caption.checks import RULES_VERSION, KnownNames
from fieldmark.build.caption.copies import CaptionedCopy
from fieldmark.build.caption.job import (
    AskingRules,
    CaptionAsk,
    ShardJob,
    ShardJournals,
)
from fieldmark.build.caption.offline import OfflineConnection, OfflineModel, Quarantine
from fieldmark.build.caption.outcomes import CaptionFiles, CaptionTotals, finished
from fieldmark.build.caption.plan import (
    CaptionOptions,
    check_copies,
    shard_facts,
    shards_by_name,
)
from fieldmark.build.caption.prompt import CaptionPrompt, SpeciesWords
from fieldmark.build.shards.materialize import EXTENSION
from fieldmark.chat import (
    Answer,
    ChatModel,
    LocalConnection,
    LocalModel,
    ModelConnection,
    Request,
    open_connection,
)
from fieldmark.chat.journal import settings_facts
from fieldmark.chat.send.rate_limiter import AdaptiveConcurrency
from fieldmark.errors import (
    ClaimLost,
    DataError,
    FieldmarkError,
    ModelError,
    StoreError,
)
from fieldmark.leases import LeaseFolder
from fieldmark.progress import Progress, Silent

MOST_WAITING = 5_000
"""rows that may wait in memory for an earlier one before asking pauses"""
_IN_A_ROW = 15
"""requests that failed one after the other: the endpoint is down, not the photos bad"""
_LEASE_EVERY_S, _POLL_S = 5.0, 1.0
WAITING_EVERY_S = 30.0
"""a worker that waits for others says so this often"""
_SPARE, _IDLE_S = 4, 1.0
"""requests beyond those that may be in flight, before another shard is taken; when to look again"""
_UNWRITTEN_IN_A_ROW = 2
"""shards that could not be written one after the other: it is the disk, not one file"""
FAILED_REQUEST = "error request"
_NEVER = 10**12


def caption_shards(
    shards: Sequence[Path],
    model: ChatModel | LocalModel | OfflineModel,
    words: SpeciesWords,
    out: Path,
    options: CaptionOptions | None = None,
    progress: Progress | None = None,
) -> CaptionTotals:
    """Captions for every sample of every shard, under `out`; the same call again goes on.

    Shards that cannot be used are in `CaptionTotals.refused`; the others are done.
    """
    return CaptionRun(shards, model, words, out, options, progress).carry_out()


class CaptionRun:
    """The requests of all shards, one after the other (an iterator), and their answers."""

    def __init__(
        self,
        shards: Sequence[Path],
        model: ChatModel | LocalModel | OfflineModel,
        words: SpeciesWords,
        out: Path,
        options: CaptionOptions | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.shards, self.model, self.files = shards_by_name(shards), model, CaptionFiles(out)
        self.options, self.progress = options or CaptionOptions(), progress or Silent()
        prompt = CaptionPrompt(words, self.options.max_words)
        known = KnownNames.of({name: words.common_names(name) for name in words.by_name})
        self.rules = AskingRules(
            prompt, self.options.answer_settings(model.card), self.options.tries, known
        )
        self.totals = CaptionTotals(n_shards=len(self.shards))
        self._left = dict(self.shards)
        self._journals = ShardJournals()
        self._leases = LeaseFolder(self.files.leases)
        self._again: deque[Request] = deque()
        self._job: ShardJob | None = None
        self._open: set[ShardJob] = set()
        self._dropped: list[ShardJob] = []
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="captions")
        self._written: dict[ShardJob, Future[None]] = {}
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="look-ahead")
        self._ahead: dict[str, Future[dict[str, Any]]] = {}
        self._has_started = False
        self._failed_in_a_row = self._unwritten_in_a_row = 0
        self._n_asked = 0
        """requests whose answer is still to come"""
        self._lease_seen = self._said_at = time.monotonic()

    def carry_out(self) -> CaptionTotals:
        try:
            check_copies(self.shards, self.options.materialize)
            with self._leases, self._line() as line:
                try:
                    self._ask_all(line)
                finally:  # shards that are complete count, whatever ended the run
                    with contextlib.suppress(FieldmarkError):
                        self._collect(wait=True)
        except FieldmarkError as error:
            self.totals.stopped = str(error)
            raise
        finally:
            self._writer.shutdown()
            self._reader.shutdown(cancel_futures=True)
            for job in [*self._open, *self._dropped]:
                job.close()
            self._journals.close()
        return self.totals

    def _ask_all(self, line: ModelConnection | LocalConnection | OfflineConnection) -> None:
        while True:
            self._n_asked = 0
            tally = _result_of(self._steps(line))
            self.totals.usd += tally.usd
            if tally.stopped:
                raise ModelError(
                    f"{tally.stopped}: finished captions are kept; the same command with a higher "
                    "limit continues from there."
                )
            self._collect(wait=True)
            if self._job is None and not self._again:
                if not self._left:
                    return
                self._say_who_has_the_rest()
                time.sleep(_POLL_S)

    def _line(self) -> ModelConnection | LocalConnection | OfflineConnection:
        if isinstance(self.model, OfflineModel):
            quarantine = Quarantine(self.files.quarantine, self.options.retry_errors)
            return OfflineConnection(self.model, self._journals, quarantine)
        # Whether it is the endpoint that fails, or photos of which a shard has many, is told here.
        own = self.options.sending
        sending = replace(own, max_failures=_NEVER, max_failures_in_a_row=_NEVER)
        return open_connection(self.model, sending, self._journals, self.options.budget)

    def _say_who_has_the_rest(self) -> None:
        if time.monotonic() - self._said_at < WAITING_EVERY_S:
            return
        self._said_at = time.monotonic()
        by_holder: dict[str, list[tuple[str, float]]] = {}
        for name in self._left:
            who, silent_s = self._leases.holder(name)
            by_holder.setdefault(who, []).append((name, silent_s))
        for who, shards in by_holder.items():
            names = ", ".join(name for name, _ in shards[:3]) + (", …" if len(shards) > 3 else "")
            self.progress.say(
                f"waiting for {len(shards):,} of {len(self.shards):,} shards ({names}): with "
                f"{who}, last heard of {min(silent_s for _, silent_s in shards):.0f} s ago"
            )

    # --- requests ---

    def _steps(self, line: ModelConnection | LocalConnection | OfflineConnection) -> Any:
        if isinstance(line, ModelConnection) and not self.options.sending.batch:
            return line.steps(self._as_needed(line), self._hear)
        return line.steps(self, self._hear)

    def _as_needed(self, line: ModelConnection) -> Iterator[Request | None]:
        """A sender asks for more than it sends: other workers may do the next shard sooner.

        It may also be stopping: then nothing is in flight, and no answer will come.
        """
        limits = line.sender.concurrency
        while True:
            if (request := self._at_hand()) is None:
                yield from self._until_needed(limits)
                request = next(self, None)
            if request is None:
                return
            self._n_asked += 1
            yield request

    def _until_needed(self, limits: AdaptiveConcurrency) -> Iterator[None]:
        busy_at = time.monotonic()
        while self._n_asked >= limits.limit + _SPARE and not self._again:
            if limits.in_flight:
                busy_at = time.monotonic()
            elif time.monotonic() - busy_at > _IDLE_S:
                return
            yield None

    def __iter__(self) -> Iterator[Request]:
        return self

    def __next__(self) -> Request:
        """Ends when there is nothing to ask just now; asked once more, it may go on."""
        while (request := self._at_hand()) is None:
            if self._job is None:
                self._collect(wait=False)
                self._job = self._next_job()
            elif self._job.spool.n_waiting > MOST_WAITING:
                raise StopIteration
            if self._job is None:
                raise StopIteration
        return request

    def _at_hand(self) -> Request | None:
        """The next request of the shards that are taken; None = there is none just now.

        Captions that are asked for again go first, so that shards are finished in their turn.
        """
        while self._again:
            request = self._again.popleft()
            if not request.info.job.is_dropped:
                return request
        while (job := self._job) is not None and job.spool.n_waiting <= MOST_WAITING:
            if not self._is_still_ours(job):
                break
            try:
                coming = job.next_request()
            except StoreError:
                raise
            except DataError as error:  # damage: no part of a shard stands for all of it
                self._drop(job, str(error))
                break
            if coming is not None:
                return coming
            if job.is_read:
                self._job = None
                self._finish_if_settled(job)
        return None

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
                copy = self._copy(name)
                self.files.clear(name, None if copy is None else copy.path)
                facts = self._facts(name, path)
                made_from = self._made_from(facts)
                if copy is not None and (n := facts["n_captions"]):
                    raise DataError(
                        f"{path}  has a {EXTENSION} in {n:,} samples already, and a copy cannot "
                        "have two: caption what it was made from, or leave --materialize out."
                    )
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
            job.made_from, job.copy = made_from, copy
            self._journals.open_shard(name, self.files.journal(name))
            self._open.add(job)
            self._lease_seen = self._said_at = time.monotonic()
            self._start_progress(job)
            self._look_ahead()
            return job
        return None

    def _copy(self, name: str) -> CaptionedCopy | None:
        if (folder := self.options.materialize) is None:
            return None
        path = folder / f"{name}.tar"
        return CaptionedCopy(self.shards[name], path, self.files.copy_note(name))

    def _is_done(self, name: str, made_from: dict[str, Any]) -> bool:
        manifest = finished(self.files, name, made_from)
        if manifest is None or manifest["reasons"].get(FAILED_REQUEST):
            return False  # an endpoint that was down is no outcome
        if self.options.retry_errors and manifest["counts"]["error"]:
            return False
        hashes = made_from["input"]["sha256"], manifest["captions_sha256"]
        if (copy := self._copy(name)) is not None and not copy.is_of(*hashes):
            copy.make(self.files.captions(name), *hashes)
        self.totals.add(manifest["counts"], manifest["reasons"], manifest.get("n_described", 0))
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

    def _made_from(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Where a server is reached decides nothing: the one of tomorrow has another address."""
        address = {key: fact for key, fact in self.model.address.items() if key != "base_url"}
        return {
            "input": {key: fact for key, fact in facts.items() if key != "n_captions"},
            "words": self.rules.prompt.words.digest,
            "prompt": self.rules.prompt.digest,
            "rules": {"version": RULES_VERSION, "tries": self.options.tries},
            "model": address,
            "sampling": settings_facts(self.model.settings(self.rules.settings)),
        }

    def _facts(self, name: str, path: Path) -> dict[str, Any]:
        if (ahead := self._ahead.pop(name, None)) is not None:
            return ahead.result()
        return shard_facts(path, self.files.index(name))

    # --- answers ---

    def _hear(self, request: Request, answer: Answer) -> bool:
        ask: CaptionAsk = request.info
        self._n_asked -= 1
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
            except DataError as error:
                self._drop(job, self._why_unwritten(job, error))
                continue
            self._unwritten_in_a_row = 0
            self.totals.add(job.spool.counts, job.spool.kinds, job.spool.n_described)
            del self._left[job.name]
            job.close()
            self._forget(job)

    def _why_unwritten(self, job: ShardJob, error: DataError) -> str:
        """Nothing where another worker has cleared up after this one; a full disk ends the run."""
        if isinstance(error, StoreError):
            if not job.lease.is_held:
                return ""
            self._unwritten_in_a_row += 1
            if self._unwritten_in_a_row >= _UNWRITTEN_IN_A_ROW:
                raise error
        return str(error)

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
        self._left.pop(name, None)

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
