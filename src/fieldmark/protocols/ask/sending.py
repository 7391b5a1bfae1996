"""Sending requests: how are they put to a model so that nothing that came back is lost?

One line for a whole run: its connections and what it learnt of the endpoint's limits serve all
parts and rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.chat import (
    Answer,
    AnswerJournal,
    Budget,
    ChatModel,
    Labels,
    LocalConnection,
    LocalModel,
    ModelConnection,
    Options,
    PictureCache,
    Request,
    open_connection,
)
from fieldmark.data import Contents
from fieldmark.errors import ModelError
from fieldmark.progress import Progress
from fieldmark.protocols.ask.settings import AskSettings

if TYPE_CHECKING:
    from fieldmark.protocols._workspace import Workspace


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How requests are sent, what they may cost, and where answers are kept."""

    journal: Path
    settings: AskSettings = AskSettings()
    sending: Options = Options()
    budget: Budget = field(default_factory=Budget)
    bad_images: str = "fail"
    """fail or skip"""
    contents: Contents = field(default_factory=lambda: Contents(None))
    """what the images hold: other bytes are not sent"""


def ask_options(own: AskSettings, workspace: Workspace) -> AskOptions:
    """Those of a command; all its runs spend one budget."""
    journal: Path = workspace.shared.get("journal", workspace.settings.results / "journal")
    bad_images = workspace.settings.bad_images

    def sending_options() -> Options:
        timeout_s = own.timeout or Options().timeout_s
        return Options(own.concurrency, rpm=own.rpm, tpm=own.tpm, timeout_s=timeout_s)

    sending = workspace.once("sending", sending_options)
    budget = workspace.once("budget", lambda: Budget(own.max_usd, own.max_tokens))
    return AskOptions(journal, own, sending, budget, bad_images, workspace.contents)


def price_share(own: AskSettings, model: ChatModel | LocalModel) -> float:
    """Of the usual price: batches cost less."""
    share = model.provider.batch_price if own.batch and isinstance(model, ChatModel) else None
    return 1.0 if share is None else share


@dataclass(frozen=True, slots=True)
class Sending:
    """Who is asked, by which line, and who is told how far it is."""

    model: ChatModel | LocalModel
    line: ModelConnection | LocalConnection
    progress: Progress

    def send(
        self, title: str, requests: Iterable[Request], keep: Callable[[Request, Answer], None]
    ) -> None:
        """Asks all; ModelError when money or tokens ran out before."""

        def go_on(request: Request, answer: Answer) -> bool:
            keep(request, answer)
            return False

        for _ in self.steps(title, requests, go_on):
            pass

    def steps(
        self, title: str, requests: Iterable[Request], keep: Callable[[Request, Answer], bool]
    ) -> Generator[None, None, None]:
        """As `send`, with a pause whenever `keep` returns True."""
        n = 0

        def count(request: Request, answer: Answer) -> bool:
            nonlocal n
            n += 1
            return keep(request, answer)

        tally = yield from self.line.steps(requests, count)
        if tally.stopped:
            counted = "1 answer is" if n == 1 else f"{n:,} answers are"
            raise ModelError(
                f"{title}: {tally.stopped}: {counted} kept; the same command with a higher limit "
                "continues from there."
            )


@contextmanager
def open_sending(
    model: ChatModel | LocalModel,
    options: AskOptions,
    progress: Progress,
    mock_labels: Labels | None = None,
    outcome_of: Callable[[Request, Answer], str] = lambda _, answer: answer.outcome,
    shelf: PictureCache | None = None,
) -> Iterator[Sending]:
    """A line to the model, and the journal of its answers; `mock_labels` is what a mock sees,
    `outcome_of` tells what became of a question, for those that are asked again, `shelf` holds
    pictures that were measured for prompts.
    """
    model = options.settings.priced(model)
    how = replace(
        options.sending,
        mock_labels=mock_labels or {},
        pictures=shelf,
        batch=bool(options.settings.batch),
    )
    if again := options.settings.asks_again():
        how = replace(how, is_asked_again=lambda *pair: outcome_of(*pair) in again)
    with (
        AnswerJournal(options.journal) as journal,
        open_connection(model, how, journal, options.budget) as line,
    ):
        yield Sending(model, line, progress)
