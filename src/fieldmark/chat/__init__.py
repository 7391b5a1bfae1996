"""Messages to answers: how multimodal language models are asked, at what cost.

    model = chat_model("chat/openrouter/openai/gpt-4o-mini")
    request = Request("item-1", (user("Which species is this?", Picture(path.read_bytes())),))
    ask_now([request], model, journal=folder, budget=Budget(max_usd=2), on_answer=keep)

It works in notebooks too: the event loop has a thread of its own. `AskSession` stays open over
several calls, and is the only way in which this package asks.
`chat/mock/…` needs no key and no network; `local_model("hf-chat/…")` runs a model of transformers
on this machine and also tells how likely given answers are. Importing this package loads nothing
heavy.

    send/      HTTP client, rate limiter, retry, pictures as sent, endpoints
    prompt/    the question, its options, few-shot examples, the messages made of them
    parse/     free text to a label, several labels, a count, a species name
    local/     models of transformers on this machine: generate and score
    mock/      a server that behaves like an endpoint, and what it answers
    session (asking) · messages · journal (paid answers, outcomes) · budget (caps, estimates) ·
    prices (models.toml)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.chat.budget import Budget, Estimate, Estimator, Usual, dollars, estimate
    from fieldmark.chat.journal import AnswerJournal, spent_usd
    from fieldmark.chat.local.model import LocalModel, local_model
    from fieldmark.chat.messages import (
        Answer,
        AnswerSettings,
        Detail,
        Message,
        MessagePart,
        Picture,
        Request,
        Role,
        Text,
        Usage,
        assistant,
        system,
        user,
    )
    from fieldmark.chat.mock.answers import MockScript
    from fieldmark.chat.mock.server import MockServer
    from fieldmark.chat.parse.answer import parse_text
    from fieldmark.chat.parse.mentions import Option
    from fieldmark.chat.parse.values import Parsed
    from fieldmark.chat.prompt.build import Built, parse_answer, spread
    from fieldmark.chat.prompt.few_shot import FewShot, Limits, Prompts, limits_of, plan_prompts
    from fieldmark.chat.prompt.letters import (
        first_word_shares,
        letter_choice,
        letter_question,
        letter_scores,
        letter_settings,
    )
    from fieldmark.chat.prompt.options import draw_pairs
    from fieldmark.chat.prompt.question import Asking, AskRules, Item, PromptQuestion, make_question
    from fieldmark.chat.send.endpoint import ChatModel, chat_model, user_tables
    from fieldmark.chat.send.keys import open_environment
    from fieldmark.chat.send.options import Labels, Options
    from fieldmark.chat.send.pictures import PictureCache, PictureSize, glance, prepare
    from fieldmark.chat.session import AskSession, ask_now

__all__ = [
    "Answer",
    "AnswerJournal",
    "AnswerSettings",
    "AskRules",
    "AskSession",
    "Asking",
    "Budget",
    "Built",
    "ChatModel",
    "Detail",
    "Estimate",
    "Estimator",
    "FewShot",
    "Item",
    "Labels",
    "Limits",
    "LocalModel",
    "Message",
    "MessagePart",
    "MockScript",
    "MockServer",
    "Option",
    "Options",
    "Parsed",
    "Picture",
    "PictureCache",
    "PictureSize",
    "PromptQuestion",
    "Prompts",
    "Request",
    "Role",
    "Text",
    "Usage",
    "Usual",
    "ask_now",
    "assistant",
    "chat_model",
    "dollars",
    "draw_pairs",
    "estimate",
    "first_word_shares",
    "glance",
    "letter_choice",
    "letter_question",
    "letter_scores",
    "letter_settings",
    "limits_of",
    "local_model",
    "make_question",
    "open_environment",
    "parse_answer",
    "parse_text",
    "plan_prompts",
    "prepare",
    "spent_usd",
    "spread",
    "system",
    "user",
    "user_tables",
]

__getattr__ = exports(__name__)
