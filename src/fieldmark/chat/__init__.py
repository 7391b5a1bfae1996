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
    from fieldmark.chat._budget import Budget, Cost, price
    from fieldmark.chat._calibrate import calibrate
    from fieldmark.chat._cards import Card, Provider, Tables, load_tables
    from fieldmark.chat._clock import Clock
    from fieldmark.chat._estimate import Calibration, Estimate, Estimator, estimate
    from fieldmark.chat._image_tokens import image_tokens, text_tokens
    from fieldmark.chat._journal import Journal
    from fieldmark.chat._key import canonical, request_facts, request_key, settings_facts
    from fieldmark.chat._letters import (
        letter_choice,
        letter_question,
        letter_scores,
        letter_settings,
    )
    from fieldmark.chat._likelihood import score_requests
    from fieldmark.chat._local import LocalModel, local_model
    from fieldmark.chat._local_line import LocalLine, open_line
    from fieldmark.chat._messages import (
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
        system,
        user,
    )
    from fieldmark.chat._mock_script import MockScript
    from fieldmark.chat._mock_server import MockServer
    from fieldmark.chat._model import ChatModel, chat_model, user_tables
    from fieldmark.chat._options import Labels, Options, Tally
    from fieldmark.chat._parse import Option, Parsed, parse
    from fieldmark.chat._pictures import PictureLimits, SentPicture, Shelf, prepare
    from fieldmark.chat._prompt import Built, build, parse_answer, spread
    from fieldmark.chat._prompt_ask import AskRules, make_question
    from fieldmark.chat._prompt_pairs import draw_pairs
    from fieldmark.chat._prompt_plan import FewShot, Limits, Prompts, limits_of, plan_prompts
    from fieldmark.chat._prompt_question import Asking, Item, Question
    from fieldmark.chat._run import Line, ask_all, ask_now
    from fieldmark.chat._sender import Sender
    from fieldmark.chat._stops import cut

__all__ = [
    "Answer",
    "AskRules",
    "Asking",
    "Budget",
    "Built",
    "Calibration",
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
    "calibrate",
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
    "parse",
    "parse_answer",
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
        "_budget": ("Budget", "Cost", "price"),
        "_calibrate": ("calibrate",),
        "_cards": ("Card", "Provider", "Tables", "load_tables"),
        "_clock": ("Clock",),
        "_estimate": ("Calibration", "Estimate", "Estimator", "estimate"),
        "_image_tokens": ("image_tokens", "text_tokens"),
        "_journal": ("Journal",),
        "_key": ("canonical", "request_facts", "request_key", "settings_facts"),
        "_letters": ("letter_choice", "letter_question", "letter_scores", "letter_settings"),
        "_likelihood": ("score_requests",),
        "_local": ("LocalModel", "local_model"),
        "_local_line": ("LocalLine", "open_line"),
        "_messages": (
            "Answer", "Likelihood", "Message", "Outcome", "Part", "Picture", "Request", "Role",
            "Settings", "Text", "TokenChance", "Usage", "assistant", "system", "user",
        ),
        "_mock_script": ("MockScript",),
        "_mock_server": ("MockServer",),
        "_model": ("ChatModel", "chat_model", "user_tables"),
        "_options": ("Labels", "Options", "Tally"),
        "_parse": ("Option", "Parsed", "parse"),
        "_pictures": ("PictureLimits", "SentPicture", "Shelf", "prepare"),
        "_prompt": ("Built", "build", "parse_answer", "spread",),
        "_prompt_ask": ("AskRules", "make_question",),
        "_prompt_pairs": ("draw_pairs",),
        "_prompt_plan": ("FewShot", "Limits", "Prompts", "limits_of", "plan_prompts",),
        "_prompt_question": ("Asking", "Item", "Question",),
        "_run": ("Line", "ask_all", "ask_now"),
        "_sender": ("Sender",),
        "_stops": ("cut",),
    },
)  # fmt: skip
