"""Options of asking: how do the settings of a command become those of a session?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.chat import (
    Answer,
    AskSession,
    Budget,
    ChatModel,
    Labels,
    LocalModel,
    Options,
    PictureCache,
    Request,
)
from fieldmark.data import Contents
from fieldmark.progress import Progress
from fieldmark.protocols.ask.settings import AskSettings

if TYPE_CHECKING:
    from fieldmark.protocols._question import Workspace


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


def ask_options(settings: AskSettings, workspace: Workspace) -> AskOptions:
    """Those of a command; all its runs spend one budget."""
    journal: Path = workspace.shared.get("journal", workspace.settings.journal)
    bad_images = workspace.settings.bad_images
    timeout_s = settings.timeout or Options().timeout_s
    options = Options(settings.concurrency, rpm=settings.rpm, tpm=settings.tpm, timeout_s=timeout_s)
    sending = workspace.once("sending", lambda: options)
    budget = workspace.once("budget", lambda: Budget(settings.max_usd, settings.max_tokens))
    return AskOptions(journal, settings, sending, budget, bad_images, workspace.contents)


def ask_session(
    model: ChatModel | LocalModel,
    options: AskOptions,
    progress: Progress,
    mock_labels: Labels | None = None,
    outcome_of: Callable[[Request, Answer], str] = lambda _, answer: answer.outcome,
    shelf: PictureCache | None = None,
) -> AskSession:
    """The session of a run: all its parts and rounds are asked in it. `mock_labels` is what a mock
    sees, `outcome_of` tells what became of a question, for those that are asked again, `shelf`
    holds pictures that were measured for prompts.
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
    return AskSession(model, how, options.journal, options.budget, progress)
