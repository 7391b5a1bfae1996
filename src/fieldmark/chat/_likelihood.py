"""How likely are given answers, many of them, so that a killed run scores nothing twice?

    requests = [Request("item-1", (user("Which bird?", picture),), continuations=("wren", "robin"))]
    score_requests(model, requests, journal, on_answer)   # answer.likelihoods, one each

Only a model on this machine tells it; a model behind an address is asked lettered questions
instead (`_letters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fieldmark.chat._local import LocalModel
from fieldmark.chat._messages import Request
from fieldmark.chat._options import OnAnswer, Tally, ignore
from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.chat._budget import Budget
    from fieldmark.chat._journal import Journal
    from fieldmark.chat._model import ChatModel


def score_requests(
    model: LocalModel | ChatModel,
    requests: Iterable[Request],
    journal: Journal | None = None,
    on_answer: OnAnswer = ignore,
    batch_size: int | None = None,
    budget: Budget | None = None,
) -> Tally:
    """Scores the continuations of every request; `answer.likelihoods` has one for each, in order.

    A request without messages is a text by itself (rolling likelihood, unconditional choices). As
    with `ask_all`: answers come in no order, those in the journal at once, what cannot be read
    fails alone. The settings of a request have no effect.
    """
    if not isinstance(model, LocalModel):
        raise UsageError(
            f"model {model.name!r} does not tell how likely given answers are: expected a model on "
            "this machine (hf-chat/…), or ask it lettered questions."
        )
    return model.ask_all(_checked(requests), on_answer, journal, batch_size, budget)


def _checked(requests: Iterable[Request]) -> Iterator[Request]:
    for request in requests:
        if not request.continuations:
            raise UsageError(
                f"request {request.id!r} has no continuations: expected some to score."
            )
        yield request
