"""Ask session: how are many questions put to one model, whichever kind it is, and nothing lost?

    with AskSession(model, journal=folder, budget=Budget(max_usd=2)) as session:
        session.ask(requests, hear)

The one way in which this package asks: prompts, reranking, documents, captions, texts to filter and
a judge's questions all go through it. Requests are drawn and answers are heard in the caller's
thread, in no order. What the journal holds is not asked; every outcome is counted; what an endpoint
learns of its limits lasts over several calls. When asking on is useless, or a cap of the budget is
reached (`BudgetSpent`), `ModelError` says what there is and how to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.chat.budget import Budget, dollars
from fieldmark.chat.journal import AnswerJournal
from fieldmark.chat.messages import DEFAULT_SETTINGS, Answer, AnswerSettings, Message, Request
from fieldmark.chat.send.options import DEFAULT, AskTotals, OnAnswer, Options, Steps, ignore
from fieldmark.errors import BudgetSpent, FieldmarkError, ModelError
from fieldmark.progress import Progress, Silent

if TYPE_CHECKING:
    from fieldmark.chat.local.model import LocalModel
    from fieldmark.chat.local.run import LocalLine
    from fieldmark.chat.send.connection import ModelConnection
    from fieldmark.chat.send.endpoint import ChatModel


class AskSession:
    """One model, its journal and what may be spent; opened with `with`."""

    def __init__(
        self,
        model: ChatModel | LocalModel,
        options: Options = DEFAULT,
        journal: Path | AnswerJournal | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
    ) -> None:
        """`journal`: the folder of the answers; one that is open already stays so."""
        self.model, self.options, self.budget = model, options, budget or Budget()
        self.progress = progress or Silent()
        self._journal, self._open = journal, ExitStack()
        self._line: LocalLine | ModelConnection
        """how this kind of model is asked"""

    def __enter__(self) -> AskSession:
        journal = self._journal
        with ExitStack() as opening:
            if isinstance(journal, Path):
                journal = opening.enter_context(AnswerJournal(journal))
            options = replace(self.options, tell=self.progress.say)
            self._line = self.model.line(options, journal, self.budget)
            opening.enter_context(self._line)
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(
        self, requests: Iterable[Request], on_answer: OnAnswer = ignore, title: str = ""
    ) -> AskTotals:
        """Asks all, and calls `on_answer(request, answer)` as answers come; `title` says in errors
        what they are about.
        """

        def hear(request: Request, answer: Answer) -> bool:
            on_answer(request, answer)
            return False

        steps = self.steps(requests, hear, title)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                totals: AskTotals = end.value
                return totals

    def steps(
        self,
        requests: Iterable[Request],
        on_answer: Callable[[Request, Answer], bool],
        title: str = "",
    ) -> Steps:
        """`ask` that pauses whenever `on_answer` returns True, and before it raises: the caller has
        something to do then. What is in flight goes on meanwhile, and nothing new is sent.
        """

        def hear(request: Request, answer: Answer) -> bool:
            if usd := self.budget.spent_usd:
                self.progress.status(f"${usd:,.2f} spent")
            return on_answer(request, answer)

        try:
            totals = yield from self._line.steps(requests, hear)
            if totals.stopped:
                raise _end_of_budget(title, totals.stopped, self.budget)
        except FieldmarkError:
            yield
            raise
        return totals


def _end_of_budget(title: str, reason: str, budget: Budget) -> ModelError:
    """A limit is one command's: the next may spend as much again."""
    if budget.is_untouched:
        start = f"{title}: " if title else ""
        return ModelError(f"{start}{reason}. Raise the limit.")
    kept = "1 new answer is" if budget.n_answers == 1 else f"{budget.n_answers:,} new answers are"
    more = (
        f"{budget.max_tokens or 0:,} tokens" if budget.max_usd is None else dollars(budget.max_usd)
    )
    return BudgetSpent(
        f"{reason}. {kept} kept. Run the same command to continue: it may spend another {more}."
    )


def ask_now(
    requests: Iterable[Request],
    model: ChatModel | LocalModel,
    options: Options = DEFAULT,
    journal: Path | AnswerJournal | None = None,
    budget: Budget | None = None,
    on_answer: OnAnswer = ignore,
) -> AskTotals:
    """Asks every request in a session of its own."""
    with AskSession(model, options, journal, budget) as session:
        return session.ask(requests, on_answer)


def answer_now(
    model: ChatModel | LocalModel,
    messages: Iterable[Message],
    settings: AnswerSettings = DEFAULT_SETTINGS,
) -> Answer:
    """The answer to one question."""
    answers: list[Answer] = []
    request = Request("question", tuple(messages), model.settings(settings))
    ask_now([request], model, on_answer=lambda _, answer: answers.append(answer))
    return answers[0]
