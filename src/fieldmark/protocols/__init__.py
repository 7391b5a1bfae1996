"""Protocols: how a model is asked a task. One module each, and the contract they keep.

Names come when asked for: the flags of `fieldmark run` must not wait for numpy or polars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports
from fieldmark.protocols._contract import (
    Assignment,
    Draw,
    DrawChoice,
    Protocol,
    fitting_protocols,
    load_protocol,
    protocol_of,
    protocols,
    register_protocol,
)
from fieldmark.protocols._settings import (
    NoSettings,
    OtherModel,
    Pairs,
    Range,
    Setting,
    field_docs,
    given,
    how_only,
    make_settings,
    settings_of,
)
from fieldmark.registry import PROTOCOLS

if TYPE_CHECKING:
    from fieldmark.protocols._check import as_problems, check_data, task_problems
    from fieldmark.protocols._features import RowFeatures, embed_options, embed_rows, prefetch_rows
    from fieldmark.protocols._items import (
        PartItems,
        Selection,
        check_part,
        draw_test,
        draw_train,
        refs_of,
        rows_of,
        split_parts,
    )
    from fieldmark.protocols._predictions import FitNotes, PartPredictions, Reread, left_out
    from fieldmark.protocols._score import (
        Scoring,
        arrange,
        recorded_kinds,
        score_answers,
        score_run,
        values_by_item,
    )
    from fieldmark.protocols._workspace import MissingData, Workspace, no_data, root_of
    from fieldmark.protocols.ask import LanguageProtocol
    from fieldmark.protocols.ask.sending import AskOptions, Sending, ask_options, open_sending
    from fieldmark.protocols.ask.settings import AskSettings

__all__ = [
    "PROTOCOLS",
    "AskOptions",
    "AskSettings",
    "Assignment",
    "Draw",
    "DrawChoice",
    "FitNotes",
    "LanguageProtocol",
    "MissingData",
    "NoSettings",
    "OtherModel",
    "Pairs",
    "PartItems",
    "PartPredictions",
    "Protocol",
    "Range",
    "Reread",
    "RowFeatures",
    "Scoring",
    "Selection",
    "Sending",
    "Setting",
    "Workspace",
    "arrange",
    "as_problems",
    "ask_options",
    "check_data",
    "check_part",
    "draw_test",
    "draw_train",
    "embed_options",
    "embed_rows",
    "field_docs",
    "fitting_protocols",
    "given",
    "how_only",
    "left_out",
    "load_protocol",
    "make_settings",
    "no_data",
    "open_sending",
    "prefetch_rows",
    "protocol_of",
    "protocols",
    "recorded_kinds",
    "refs_of",
    "register_protocol",
    "root_of",
    "rows_of",
    "score_answers",
    "score_run",
    "settings_of",
    "split_parts",
    "task_problems",
    "values_by_item",
]

__getattr__ = exports(
    __name__,
    {
        "_check": ("as_problems", "check_data", "task_problems"),
        "_items": (
            "PartItems", "Selection", "check_part", "draw_test", "draw_train", "refs_of", "rows_of",
            "split_parts",
        ),
        "_features": ("RowFeatures", "embed_options", "embed_rows", "prefetch_rows"),
        "_predictions": ("FitNotes", "PartPredictions", "Reread", "left_out"),
        "_score": (
            "Scoring", "arrange", "recorded_kinds", "score_answers", "score_run",
            "values_by_item",
        ),
        "_workspace": ("MissingData", "Workspace", "no_data", "root_of"),
        "ask": ("LanguageProtocol",),
        "ask.sending": ("AskOptions", "Sending", "ask_options", "open_sending"),
        "ask.settings": ("AskSettings",),
    },
)  # fmt: skip
