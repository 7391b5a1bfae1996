"""How are requests put to a model so that nothing that came back is lost?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fieldmark.chat import Answer, ChatModel, Journal, LocalModel, Options, Request, open_line
from fieldmark.errors import ModelError
from fieldmark.progress import Progress
from fieldmark.protocols._ask_options import AskOptions


@dataclass(frozen=True, slots=True)
class Sending:
    """Who is asked, where answers are kept, and who is told how far it is."""

    model: ChatModel | LocalModel
    options: AskOptions
    journal: Journal | None
    progress: Progress

    def send(
        self,
        title: str,
        requests: Iterable[Request],
        keep: Callable[[Request, Answer], None],
        how: Options | None = None,
    ) -> None:
        """Asks all; ModelError when money or tokens ran out before."""
        n = 0

        def count(request: Request, answer: Answer) -> None:
            nonlocal n
            n += 1
            keep(request, answer)

        sending, budget = how or self.options.sending, self.options.budget
        with open_line(self.model, sending, self.journal, budget) as line:
            tally = line.ask_all(requests, count)
        if tally.stopped:
            raise ModelError(
                f"{title}: {tally.stopped}: {n:,} answers are kept; the same command with more "
                "goes on from there."
            )
