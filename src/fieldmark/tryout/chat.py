"""A chat model on one's own photos (prompting): is it right more often than the chosen model?

It is asked about a sample of the tested photos with all labels as options, by the `ask` protocol:
the same questions, budget and journal as in `fieldmark run`. What it does not answer is wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fieldmark.chat import Budget, Options, dollars
from fieldmark.chat.budget import Cost
from fieldmark.data import MEMORY, Contents
from fieldmark.data.read.own_photos import LabelledPhotos
from fieldmark.experiments.plan import refuse_mock
from fieldmark.progress import Progress, Silent
from fieldmark.protocols import (
    Draw,
    PartItems,
    Question,
    Workspace,
    draw_test,
    load_protocol,
    table_question,
)
from fieldmark.protocols.ask.run import estimate_cost
from fieldmark.protocols.ask.settings import AskSettings
from fieldmark.settings import Settings
from fieldmark.stats import Comparison
from fieldmark.tasks import task_schema
from fieldmark.tryout.evaluate import TrialSample, Verdict, compare_answers
from fieldmark.words import counted

MOST_ASKED = 200
"""photos: each of them costs"""
MOST_USD = 0.5
"""what they may cost, unless --max-usd says otherwise"""


@dataclass(frozen=True, slots=True)
class ChatTrial:
    """Which chat model is asked, and what that may cost."""

    model: Any
    options: Options
    budget: Budget

    def check(self, photos: LabelledPhotos) -> None:
        """Refuses a mock of which the photos are real, before anything is computed."""
        from fieldmark.data import is_synthetic

        refuse_mock(self.model.name, str(photos.root), is_synthetic(photos.root))


@dataclass(frozen=True, slots=True)
class ChatScore:
    """A chat model and the chosen model on the same photos."""

    model: str
    n: int
    n_right: int
    n_chosen_right: int
    gain: Comparison
    """of the chat model over the chosen one"""
    usd: float | None
    """what all answers cost, those of an earlier command too; None: the price is not known"""


def ask_chat(
    verdict: Verdict, chat: ChatTrial, settings: Settings, progress: Progress
) -> ChatScore:
    """Asks the chat model, and compares it with the chosen model."""
    question, workspace = _question(verdict.sample, chat, settings, MOST_ASKED)
    cost = estimate_cost(question, chat.model)
    price = "price unknown" if cost.usd is None else f"at most about {dollars(cost.usd)}"
    limit = chat.budget.max_usd
    price += "" if limit is None else f", limit {dollars(limit)}: `--max-usd` changes it"
    progress.say(f"Asking {chat.model.name} about {counted(cost.n, 'photo')} ({price}).")
    (answers,) = load_protocol("ask").answer(question, [""], chat.model, workspace, progress)
    mark = " (mock)" if chat.model.is_mock else ""
    return _compare(verdict, f"{chat.model.name}{mark}", answers.frame)


def ask_one(sample: TrialSample, chat: ChatTrial, settings: Settings) -> None:
    """Asks about one photo, so that a wrong key or address ends the command before any work."""
    question, workspace = _question(sample, chat, settings, 1)
    cost = estimate_cost(question, chat.model)
    if chat.budget.fits(Cost(cost.tokens_in, cost.tokens_out, cost.usd)):
        list(load_protocol("ask").answer(question, [""], chat.model, workspace, Silent()))


def _question(
    sample: TrialSample, chat: ChatTrial, settings: Settings, n_test: int
) -> tuple[Question, Workspace]:
    """All tested photos as the one part of a task, of which some are drawn."""
    workspace = Workspace(settings, Contents(settings.cache / MEMORY, settings.n_threads))
    workspace.shared |= {"sending": chat.options, "budget": chat.budget}
    table = sample.table.select("id", "image", "crop").with_columns(
        target=pl.Series(np.array(sample.labels)[sample.code_n]),
        unit=pl.Series(sample.unit_n).cast(pl.String),
    )
    keys: dict[str, Any] = {"task": "try", "dataset": "folder", "metric": "accuracy", "ask": {}}
    keys["data"] = str(sample.photos.root)
    part = PartItems("", table.clear(), table)
    draw = Draw(n_train=0, n_test=n_test)
    task, ask = task_schema()(**keys), load_protocol("ask")
    question = table_question(ask, task, draw, AskSettings(), workspace, [part])
    rows = draw_test(task, part, draw, 0)
    workspace.contents.learn(question.root, rows.get_column("image"))
    return question, workspace


def _compare(verdict: Verdict, name: str, frame: pl.DataFrame) -> ChatScore:
    sample = verdict.sample
    row_of = {item: row for row, item in enumerate(sample.table.get_column("id"))}
    rows = np.array([row_of[item] for item in frame.get_column("id")])
    code_of = {label: code for code, label in enumerate(sample.labels)}
    answer_k = np.array([code_of.get(answer, -1) for answer in frame.get_column("prediction")])
    chosen_k = verdict.held_out.answer_n[rows]
    n_right, n_chosen = (int((k == sample.code_n[rows]).sum()) for k in (answer_k, chosen_k))
    prices = [json.loads(info).get("usd") for info in frame.get_column("info")]
    usd = None if None in prices else float(sum(prices))
    gain = compare_answers(sample, answer_k, chosen_k, rows)
    return ChatScore(name, len(rows), n_right, n_chosen, gain, usd)
