"""Batch sender: hands questions in instead of asking them, and keeps the answers when they come.

The first new question is asked at once: a wrong key, an unknown model or a setting that the
endpoint refuses would otherwise show hours later, and the answer tells what the others will cost.
The rest goes into as few batches as the provider takes, and the command ends (`BatchPending`). The
same command later looks at them: what has ended goes into the journal at the batch's price, and
failed questions are failures, which the next command hands in again.

No question is paid twice: it is on disk as waiting before it is handed in; a batch whose id never
arrived is looked for at the provider before anything else happens.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fieldmark.chat.batch.forms import FORMS, BatchRow
from fieldmark.chat.batch.records import BatchedQuestion, BatchRecord, load_records
from fieldmark.chat.budget import Budget, Cost
from fieldmark.chat.journal import AnswerJournal
from fieldmark.chat.messages import Answer, Request, stopped
from fieldmark.chat.send.api import BadReply, as_json, load_api
from fieldmark.chat.send.options import AskTotals, OnAnswer, Options
from fieldmark.chat.send.pictures import SentPicture
from fieldmark.chat.send.retry import backoff_s, judge_error, without_key
from fieldmark.chat.send.sender import Dispatch, Sender, resize_notes
from fieldmark.errors import BatchPending, ModelError, UsageError, first_line
from fieldmark.files import canonical_json, parse_json
from fieldmark.progress import duration

if TYPE_CHECKING:
    from fieldmark.chat.send.endpoint import ChatModel

LOG = logging.getLogger(__name__)
SETTLE_S = 60.0
"""a batch that was being handed in may take so long to show at the provider"""
_TRIES = 5
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)
"""what a reply of another form than documented raises"""


class Uncertain(Exception):
    """A call that may or may not have been carried out."""


class EndpointCalls:
    """Calls of a sender's endpoint, tried again where that is safe; each raises where it fails."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def get(self, path: str) -> bytes:
        return await self._call("GET", path, b"", "", is_safe=True)

    async def post(
        self, path: str, body: bytes, kind: str = "", *, is_safe: bool = False
    ) -> dict[str, Any]:
        """`is_safe`: doing it twice costs nothing."""
        data = await self._call("POST", path, body, kind or "application/json", is_safe=is_safe)
        try:
            reply: dict[str, Any] = parse_json(data)
        except ValueError:
            raise Uncertain(f"a reply that is not JSON ({data[:40]!r})") from None
        return reply

    async def _call(
        self, method: str, path: str, body: bytes, kind: str, *, is_safe: bool
    ) -> bytes:
        sender, attempt = self._sender, 0
        while True:
            attempt += 1
            result = await sender.client.call(method, path, body, kind)
            if isinstance(result, bytes):
                return result
            is_uncertain = result.may_be_charged or (result.code or 0) >= 500
            if not is_safe and is_uncertain:
                raise Uncertain(result.text)
            if result.verdict != "again" or attempt == _TRIES:
                raise ModelError(f"model {sender.model.name!r}: batch: {result.text}.")
            options = sender.options
            wait_s = backoff_s(path, attempt, options.backoff_s, options.backoff_cap_s)
            await options.clock.sleep(max(wait_s, min(result.wait_s or 0.0, 60.0)))


class BatchSender(Sender):
    """A sender whose questions are answered later."""

    def __init__(
        self, model: ChatModel, options: Options, journal: AnswerJournal | None, budget: Budget
    ) -> None:
        if model.provider.batch_price is None:
            raise UsageError(
                f"model {model.name!r}: fieldmark knows no batch API of {model.provider.name!r}. "
                "Leave out --batch; openai, anthropic and google have one."
            )
        if journal is None:
            raise UsageError("a batch needs a journal to keep its answers.")
        super().__init__(model, options, journal, budget)
        self.answers, self.price = journal, model.provider.batch_price
        self.form, self.calls = FORMS[model.api], EndpointCalls(self)
        self.failed: dict[str, str] = {}
        """questions of batches that have ended, and why they have no answer"""
        self.running: dict[str, str] = {}
        """batches that have not ended, and how far they are"""
        self._has_looked = False

    async def ask_all(self, requests: AsyncIterator[Request], on_answer: OnAnswer) -> AskTotals:
        """As `Sender.ask_all`; raises `BatchPending` when some of the answers are yet to come."""
        if not self._has_looked:
            await self._look()
            self._has_looked = True
        run = BatchDispatch(self, on_answer)
        await run.ask_all(requests)
        await run.hand_in()
        if run.waits or run.handed_in:
            raise BatchPending(run.pending_words())
        return run.tally

    async def hand_in(
        self, name: str, questions: Sequence[BatchedQuestion], rows: Sequence[BatchRow]
    ) -> BatchRecord:
        """The questions are on disk as waiting before the provider hears of them."""
        cost = self.budget.batches[name]
        record = BatchRecord(
            name, canonical_json(self.model.address), tuple(questions), cost.usd, cost.tokens
        )
        record.save(self.answers.folder)
        try:
            batch_id = await self.form.create(self.calls, self.model.id, name, rows)
        except (Uncertain, *UNREADABLE) as error:
            raise BatchPending(
                f"model {self.model.name!r}: {len(rows):,} questions were submitted, but the "
                f"provider did not confirm it ({error}). Run the same command again to find out."
            ) from None
        except BaseException as error:
            if isinstance(error, ModelError):  # refused: nothing is waiting
                self._forget(record)
            raise
        record = dataclasses.replace(record, id=batch_id)
        record.save(self.answers.folder)
        return record

    async def _look(self) -> None:
        """Results of batches that have ended go into the journal."""
        address = canonical_json(self.model.address)
        records = [r for r in load_records(self.answers.folder) if r.address == address]
        known_ids = {record.id for record in records}
        for record in records:
            await self._look_at(record, known_ids)

    async def _look_at(self, record: BatchRecord, known_ids: set[str]) -> None:
        while (there := await self._find(record, known_ids)) and not await self._fetch(there):
            record = dataclasses.replace(there, id="", not_ids=(*there.not_ids, there.id))
            record.save(self.answers.folder)

    async def _find(self, record: BatchRecord, known_ids: set[str]) -> BatchRecord | None:
        """The batch with its id; None = it never came to the provider, and is forgotten."""
        if record.id:
            return record
        others = known_ids | set(record.not_ids)
        with self._looking_at(record):
            ids = [name for name in await self.form.find(self.calls, record) if name not in others]
        age_s = time.time() - record.at
        if ids:
            known_ids.add(ids[0])
            record = dataclasses.replace(record, id=ids[0], is_guess=not self.form.has_names)
            record.save(self.answers.folder)
            return record
        if age_s < SETTLE_S:
            raise BatchPending(
                f"model {self.model.name!r}: the command ended {duration(age_s)} ago while it was "
                f"submitting {len(record.questions):,} questions. Run it again in "
                f"{duration(SETTLE_S - age_s)} to see whether the provider has them."
            )
        LOG.warning("%s was never submitted: its questions are asked again", record.title)
        self._forget(record)
        return None

    async def _fetch(self, record: BatchRecord) -> bool:
        """False: the results are those of another batch."""
        with self._looking_at(record):
            state = await self.form.look(self.calls, record.id)
            if not state.is_ended:
                n_all = len(record.questions)
                self.running[record.id] = f"{state.n_done:,} of {n_all:,} answered"
                self.budget.batches[record.name] = Cost(record.tokens, 0, record.usd)
                return True
            results = await self.form.results(self.calls, state, record)
            if results and not any(question.key in results for question in record.questions):
                if record.is_guess:
                    return False
                raise ModelError(f"model {self.model.name!r}: {record.id} has other questions.")
        for question in record.questions:
            self.renewed.add(question.key)  # asked once in a command
            answer = self._read(question, *results.get(question.key, (None, state.why)))
            if answer.is_answer:
                request = Request(question.id, (), repeat=question.repeat)
                self.answers.add(question.key, request, answer)
                self.budget.book(answer, _share(record))
            else:
                self.failed[question.key] = answer.error
        self.answers.sync()
        self._forget(record)
        return True

    @contextmanager
    def _looking_at(self, record: BatchRecord) -> Iterator[None]:
        give_up = f"To give up {record.title}, delete {record.path(self.answers.folder)}."
        try:
            yield
        except ModelError as error:
            raise ModelError(f"{error} {give_up}") from None
        except UNREADABLE as error:
            raise ModelError(
                f"model {self.model.name!r}: the provider's reply about {record.title} cannot be "
                f"read ({first_line(error)}). {give_up}"
            ) from None

    def _forget(self, record: BatchRecord) -> None:
        record.delete(self.answers.folder)
        self.budget.batches.pop(record.name, None)
        for question in record.questions:
            self.answers.waiting.pop(question.key, None)

    def _read(
        self, question: BatchedQuestion, reply: Mapping[str, Any] | None, error: Any
    ) -> Answer:
        if reply is not None:
            try:
                answer = load_api(self.model.api).read(reply)
            except BadReply as bad:
                error = bad.body or str(bad)
            else:
                usd = None if answer.usage is None else self.model.card.usd(answer.usage)
                usd = None if usd is None else usd * self.price
                answer = dataclasses.replace(
                    answer, usd=usd, key=question.key, resized=question.resized
                )
                return stopped(without_key(answer, self.model.key()), question.stop)
        fault = judge_error(None, error)
        if fault.verdict == "refused":
            return Answer(
                "refused", finish_reason="content_filter", error=fault.text, key=question.key,
                usd=0.0,
            )  # fmt: skip
        return Answer("failed", error=f"in the batch: {fault.text}", attempts=0)


def _share(record: BatchRecord) -> Cost:
    """Of one question, where the provider does not tell."""
    n = len(record.questions)
    return Cost(record.tokens // n, 0, None if record.usd is None else record.usd / n)


class BatchDispatch(Dispatch):
    """One call of `ask_all`: what is new is collected and handed in."""

    def __init__(self, sender: BatchSender, on_answer: OnAnswer) -> None:
        super().__init__(sender, on_answer)
        self.batches = sender
        self.waits: Counter[str] = Counter()
        """batches that were handed in before and have not ended → how many of these questions"""
        self.handed_in: list[BatchRecord] = []
        self._n_asked = 0
        self._turn = asyncio.Lock()
        self._clear()

    def _clear(self) -> None:
        self._questions: list[BatchedQuestion] = []
        self._rows: list[BatchRow] = []
        self._name, self._n_bytes = f"fieldmark-{os.urandom(6).hex()}", 0

    async def _ask(self, request: Request, pictures: Sequence[SentPicture], key: str) -> None:
        sender = self.batches
        if key in sender.failed:
            answer = Answer("failed", error=sender.failed[key], attempts=0, key=key)
            self.tally.add(answer)
            self.ledger.on_answer(request, answer)
            return
        if key in sender.answers.waiting:
            self.waits[sender.answers.waiting[key]] += 1
            return
        async with self._turn:
            if self.is_stopping:
                return
            if not sender.has_answered:
                self._n_asked += 1
                await super()._ask(request, pictures, key)
            elif key not in sender.answers.waiting:  # the same question twice
                await self._collect(request, pictures, key)

    async def _collect(self, request: Request, pictures: Sequence[SentPicture], key: str) -> None:
        sender, form = self.batches, self.batches.form
        guess = sender.estimator.guess(request, pictures)
        cost = sender.estimator.cost(request.settings, guess, is_with_all_room=True)
        if cost.usd is not None:
            cost = dataclasses.replace(cost, usd=cost.usd * sender.price)
        if not sender.budget.fits(cost):
            self.stop(None, sender.budget.refusal(cost))
            return
        body = sender.client.body(request, pictures)
        n_bytes = len(as_json(body)) + 200
        is_full = self._n_bytes + n_bytes > form.most_bytes
        if self._rows and (is_full or len(self._rows) == form.most_questions):
            await self.hand_in()
        before = sender.budget.batches.get(self._name, Cost(usd=0.0))
        sender.budget.batches[self._name] = before + cost
        sender.answers.waiting[key] = "a batch"
        settings = request.settings
        self._questions.append(
            BatchedQuestion(key, request.id, request.repeat, settings.stop, resize_notes(pictures))
        )
        self._rows.append((key, body))
        self._n_bytes += n_bytes

    async def hand_in(self) -> None:
        """What was collected, as one batch."""
        if not self._rows:
            return
        record = await self.batches.hand_in(self._name, self._questions, self._rows)
        self.handed_in.append(record)
        self._clear()

    def pending_words(self) -> str:
        """What the command ends with."""
        lines = []
        if self.handed_in:
            n = sum(len(record.questions) for record in self.handed_in)
            names = ", ".join(record.id for record in self.handed_in[:5])
            names += ", …" if len(self.handed_in) > 5 else ""
            tried = f" ({self._n_asked:,} asked directly, as a trial)" if self._n_asked else ""
            lines.append(f"{n:,} questions submitted as {names}{tried}")
        for name, n in self.waits.items():
            how = self.batches.running.get(name, "just submitted")
            lines.append(f"{n:,} questions wait in {name}, which is still running ({how})")
        if self.tally.stopped:
            lines.append(f"the rest was not submitted, because {self.tally.stopped}")
        again = "run the same command again to fetch the answers"
        return f"model {self.sender.model.name!r}: {'; '.join([*lines, again])}."
