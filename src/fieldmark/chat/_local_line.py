"""How are a model behind an address and one on this machine asked alike?

with open_line(model, options, journal, budget) as line:
    line.ask_all(requests, on_answer)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from fieldmark.chat._local import LocalModel
from fieldmark.chat._messages import Answer, Request
from fieldmark.chat._options import DEFAULT, OnAnswer, Options, Tally

if TYPE_CHECKING:
    from fieldmark.chat._budget import Budget
    from fieldmark.chat._journal import Journal
    from fieldmark.chat._model import ChatModel
    from fieldmark.chat._run import Line, Steps


@dataclass(frozen=True, slots=True)
class LocalLine:
    """As `Line`, for a model on this machine: `concurrency`, where set, is the batch size."""

    model: LocalModel
    options: Options = DEFAULT
    journal: Journal | None = None
    budget: Budget | None = None

    def __enter__(self) -> LocalLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        pass

    def ask_all(self, requests: Iterable[Request], on_answer: OnAnswer) -> Tally:
        size = self.options.concurrency
        return self.model.ask_all(requests, on_answer, self.journal, size, self.budget)

    def steps(
        self, requests: Iterable[Request], on_answer: Callable[[Request, Answer], bool]
    ) -> Steps:
        """As `Line.steps`; the pause comes when the batches under way have ended."""
        is_due = False

        def hear(request: Request, answer: Answer) -> None:
            nonlocal is_due
            is_due = on_answer(request, answer) or is_due

        run = self.model.new_run(hear, self.journal, self.options.concurrency, self.budget)
        for _ in run.steps(requests):
            if is_due:
                is_due = False
                yield
        return run.tally


def open_line(
    model: ChatModel | LocalModel,
    options: Options = DEFAULT,
    journal: Journal | None = None,
    budget: Budget | None = None,
) -> Line | LocalLine:
    """What asks this model, whichever kind it is; opened with `with`."""
    if isinstance(model, LocalModel):
        return LocalLine(model, options, journal, budget)
    from fieldmark.chat._run import Line

    return Line(model, options, journal, budget)
