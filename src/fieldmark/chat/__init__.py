"""Messages to answers: how multimodal language models are asked, at what cost.

    model = chat_model("chat/openrouter/openai/gpt-4o-mini")
    request = Request("item-1", (user("Which species is this?", Picture(path.read_bytes())),))
    ask_now([request], model, journal=Journal(folder), budget=Budget(max_usd=2), on_answer=keep)

`ask_all` is the same for code with an event loop, `Line` keeps the connections over several calls.
`chat/mock/…` needs no key and no network; `local_model("hf-chat/…")` runs a model of transformers
on this machine and also tells how likely given answers are. Importing this package loads nothing
heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.chat.budget import Budget, Cost, Estimate, Estimator, estimate, price
    from fieldmark.chat.journal import (
        Journal,
        canonical,
        request_facts,
        request_key,
        settings_facts,
    )
    from fieldmark.chat.local.model import (
        LocalLine,
        LocalModel,
        local_model,
        open_line,
        score_requests,
    )
    from fieldmark.chat.messages import (
        Answer,
        Likelihood,
        Message,
        Outcome,
        Part,
        Picture,
        Request,
        Role,
        Settings,
        Text,
        TokenChance,
        Usage,
        assistant,
        cut,
        system,
        user,
    )
    from fieldmark.chat.mock.answers import MockScript
    from fieldmark.chat.mock.server import MockServer
    from fieldmark.chat.parse.answer import Option, Parsed, parse_text
    from fieldmark.chat.prices import Card, Provider, Tables, image_tokens, load_tables, text_tokens
    from fieldmark.chat.prompt.build import Built, build, parse_answer, spread
    from fieldmark.chat.prompt.few_shot import FewShot, Limits, Prompts, limits_of, plan_prompts
    from fieldmark.chat.prompt.letters import (
        letter_choice,
        letter_question,
        letter_scores,
        letter_settings,
    )
    from fieldmark.chat.prompt.options import draw_pairs
    from fieldmark.chat.prompt.question import Asking, AskRules, Item, Question, make_question
    from fieldmark.chat.send.ask import Line, ask_all, ask_now
    from fieldmark.chat.send.endpoint import ChatModel, chat_model, user_tables
    from fieldmark.chat.send.options import Clock, Labels, Options, Tally
    from fieldmark.chat.send.pictures import PictureLimits, SentPicture, Shelf, prepare
    from fieldmark.chat.send.sender import Sender

__all__ = [
    "Answer",
    "AskRules",
    "Asking",
    "Budget",
    "Built",
    "Card",
    "ChatModel",
    "Clock",
    "Cost",
    "Estimate",
    "Estimator",
    "FewShot",
    "Item",
    "Journal",
    "Labels",
    "Likelihood",
    "Limits",
    "Line",
    "LocalLine",
    "LocalModel",
    "Message",
    "MockScript",
    "MockServer",
    "Option",
    "Options",
    "Outcome",
    "Parsed",
    "Part",
    "Picture",
    "PictureLimits",
    "Prompts",
    "Provider",
    "Question",
    "Request",
    "Role",
    "Sender",
    "SentPicture",
    "Settings",
    "Shelf",
    "Tables",
    "Tally",
    "Text",
    "TokenChance",
    "Usage",
    "ask_all",
    "ask_now",
    "assistant",
    "build",
    "canonical",
    "chat_model",
    "cut",
    "draw_pairs",
    "estimate",
    "image_tokens",
    "letter_choice",
    "letter_question",
    "letter_scores",
    "letter_settings",
    "limits_of",
    "load_tables",
    "local_model",
    "make_question",
    "open_line",
    "parse_answer",
    "parse_text",
    "plan_prompts",
    "prepare",
    "price",
    "request_facts",
    "request_key",
    "score_requests",
    "settings_facts",
    "spread",
    "system",
    "text_tokens",
    "user",
    "user_tables",
]

__getattr__ = exports(
    __name__,
    {
        "budget": (
            "Budget",
            "Cost",
            "Estimate",
            "Estimator",
            "estimate",
            "price",
        ),
        "journal": (
            "Journal",
            "canonical",
            "request_facts",
            "request_key",
            "settings_facts",
        ),
        "local.model": (
            "LocalLine",
            "LocalModel",
            "local_model",
            "open_line",
            "score_requests",
        ),
        "messages": (
            "Answer",
            "Likelihood",
            "Message",
            "Outcome",
            "Part",
            "Picture",
            "Request",
            "Role",
            "Settings",
            "Text",
            "TokenChance",
            "Usage",
            "assistant",
            "cut",
            "system",
            "user",
        ),
        "mock.answers": ("MockScript",),
        "mock.server": ("MockServer",),
        "parse.answer": (
            "Option",
            "Parsed",
            "parse_text",
        ),
        "prices": (
            "Card",
            "Provider",
            "Tables",
            "image_tokens",
            "load_tables",
            "text_tokens",
        ),
        "prompt.build": (
            "Built",
            "build",
            "parse_answer",
            "spread",
        ),
        "prompt.few_shot": (
            "FewShot",
            "Limits",
            "Prompts",
            "limits_of",
            "plan_prompts",
        ),
        "prompt.letters": (
            "letter_choice",
            "letter_question",
            "letter_scores",
            "letter_settings",
        ),
        "prompt.options": ("draw_pairs",),
        "prompt.question": (
            "AskRules",
            "Asking",
            "Item",
            "Question",
            "make_question",
        ),
        "send.ask": (
            "Line",
            "ask_all",
            "ask_now",
        ),
        "send.endpoint": (
            "ChatModel",
            "chat_model",
            "user_tables",
        ),
        "send.options": (
            "Clock",
            "Labels",
            "Options",
            "Tally",
        ),
        "send.pictures": (
            "PictureLimits",
            "SentPicture",
            "Shelf",
            "prepare",
        ),
        "send.sender": ("Sender",),
    },
)
