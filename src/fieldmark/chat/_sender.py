"""How are many questions asked fast, within every limit, without losing one answer?

A `Sender` holds what lasts: connections, slots, rate buckets, token counts, budget and journal.
What becomes of each request of a run is decided in `_asking`.
"""

from __future__ import annotations

from types import TracebackType

from fieldmark.chat._asking import Requests, Run
from fieldmark.chat._attempt import Wire
from fieldmark.chat._buckets import Bucket
from fieldmark.chat._budget import Budget
from fieldmark.chat._estimate import Estimator
from fieldmark.chat._journal import Journal
from fieldmark.chat._model import ChatModel
from fieldmark.chat._options import DEFAULT, OnAnswer, Options, Tally
from fieldmark.chat._prepare import Preparer
from fieldmark.chat._slots import Slots

__all__ = ["Requests", "Sender"]


class Sender:
    """An open line to one model; what it learnt (limits, tokens) lasts over several runs."""

    def __init__(
        self,
        model: ChatModel,
        options: Options = DEFAULT,
        journal: Journal | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.model, self.options, self.journal = model, options, journal
        self.budget = budget or Budget()
        self.budget.check(model.card)
        self.estimator = Estimator(model.card)
        self.slots = Slots(options.clock, options.concurrency, options.max_concurrency)
        self.rpm = Bucket(options.rpm, options.clock, "requests")
        self.tpm = Bucket(options.tpm, options.clock, "tokens")
        self.wire = Wire(model, options)
        self.preparer = Preparer(model.picture_limits)

    async def __aenter__(self) -> Sender:
        await self.wire.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.wire.close()
        self.preparer.close()
        if self.journal is not None:
            self.journal.sync()

    async def ask_all(self, requests: Requests, on_answer: OnAnswer) -> Tally:
        """Asks everything and calls `on_answer` for each as it comes, in no order.

        Returns when all have an outcome or a cap was reached (`Tally.stopped`); raises `ModelError`
        when asking on is useless. Answers that came before are kept in either case.
        """
        run = Run(self, on_answer)
        try:
            await run.feed(requests)
        finally:
            await run.finish()
        if run.error is not None:
            raise run.error
        return run.tally
