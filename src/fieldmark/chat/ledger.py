"""Ledger of asking: what is answered already, what became of each request, is asking on useless?

Whoever asks, over HTTP, in batches of a provider or on this machine, tells its ledger. Answers of
the journal come first; new ones are kept before anyone sees them. A failure is never kept. Failures
of an endpoint that has not answered anything yet are held back: either an answer shows that it was
the questions, or the run is given up and nobody records what the endpoint could not do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fieldmark.chat.messages import Answer, Request
from fieldmark.chat.send.options import FEW, AskTotals, OnAnswer, Options
from fieldmark.errors import ModelError

if TYPE_CHECKING:
    from fieldmark.chat.journal import AnswerJournal
    from fieldmark.chat.local.model import LocalModel
    from fieldmark.chat.send.endpoint import ChatModel


class Asker(Protocol):
    """What asks, and what it knows over several calls."""

    options: Options
    journal: AnswerJournal | None
    renewed: set[str]
    """keys of the questions that were asked again: each is once"""
    has_answered: bool
    """something that was sent has been answered"""

    @property
    def model(self) -> ChatModel | LocalModel: ...


class Ledger:
    """The outcomes of one call."""

    def __init__(self, asker: Asker, on_answer: OnAnswer) -> None:
        self.asker, self.on_answer = asker, on_answer
        self.tally = AskTotals()
        self._held: list[tuple[Request, Answer]] = []

    @property
    def is_unanswered(self) -> bool:
        """Has nothing that was sent ever been answered? Then it is the endpoint, not a question."""
        return not self.asker.has_answered and not self.tally.n_replayed

    def find(self, key: str, request: Request) -> Answer | None:
        """The answer of the journal; None where it has none or the question is asked again."""
        asker = self.asker
        answer = asker.journal.get(key) if asker.journal is not None else None
        is_asked_again = asker.options.is_asked_again
        if answer is None or is_asked_again is None or key in asker.renewed:
            return answer
        if not is_asked_again(request, answer):
            return answer
        asker.renewed.add(key)
        return None

    def keep(self, key: str, request: Request, answer: Answer) -> None:
        """Journals a new answer."""
        if self.asker.journal is not None and answer.is_answer:
            self.asker.journal.add(key, request, answer)

    def deliver(self, request: Request, answer: Answer) -> str:
        """Counts an outcome and hands it on; why asking on is useless, "" = it is not."""
        self.tally.add(answer, answer.attempts > 0 or not self.asker.options.may_lack_pictures)
        if self.is_unanswered and answer.outcome == "failed" and answer.attempts:
            self._held.append((request, answer))
        else:
            if not self.is_unanswered:
                self.release()
            self.on_answer(request, answer)
        return self._why_useless()

    def release(self) -> None:
        """What was held back is handed on."""
        held, self._held = self._held, []
        for pair in held:
            self.on_answer(*pair)

    def _why_useless(self) -> str:
        tally, options = self.tally, self.asker.options
        n_failed, in_a_row = tally.outcomes.get("failed", 0), tally.failures_in_a_row
        if self.is_unanswered and tally.n_unanswered >= FEW:
            return f"none of the first {n_failed} requests was answered: {tally.last_error}"
        is_row = in_a_row >= options.max_failures_in_a_row
        if not is_row and n_failed <= options.max_failures:
            return ""
        how = f"{in_a_row} requests in a row" if is_row else f"{n_failed} requests"
        return f"{how} failed, the last: {tally.last_error}"

    def why_unanswered(self) -> str:
        """At the end of few requests: what failed without one answer is no result."""
        if self.is_unanswered and self.tally.n_unanswered:
            return f"no request was answered, the last: {self.tally.last_error}"
        return ""

    def closing_line(self, reason: str) -> ModelError:
        """The error of a run that is given up."""
        n_kept = self.tally.n - self.tally.outcomes.get("failed", 0)
        start = f"model {self.asker.model.name!r}: {reason.rstrip('.')}. "
        if not n_kept:
            return ModelError(f"{start}Nothing is recorded.")
        has_journal = self.asker.journal is not None
        again = "run the same command again to go on" if has_journal else "nothing is kept"
        return ModelError(f"{start}{n_kept:,} answers came before; {again}.")
