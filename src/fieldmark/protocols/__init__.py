"""Protocols: how a model is asked a task. One module each, and the contract they keep.

Names come when asked for: the flags of `fieldmark run` must not wait for numpy or polars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports
from fieldmark.protocols._contract import (
    Protocol,
    can_ask,
    fitting_protocols,
    has_block,
    label_of,
    load_protocol,
    main_key,
    may_fail,
    protocol_of,
    protocols,
    register_protocol,
    summary_of,
)
from fieldmark.protocols._settings import (
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
    from fieldmark.protocols._features import embed_options, embed_rows
    from fieldmark.protocols._predictions import FitNotes, PartPredictions
    from fieldmark.protocols._question import (
        MissingData,
        Question,
        Workspace,
        no_data,
        refs_of,
        root_of,
        table_question,
    )
    from fieldmark.protocols._score import (
        Scoring,
        arrange,
        known_metric,
        make_score,
        recorded_kinds,
        score_answers,
        value_names,
        values_by_item,
    )
    from fieldmark.protocols.ask.sending import AskOptions, ask_options, ask_session
    from fieldmark.protocols.ask.settings import AskSettings
    from fieldmark.tasks.split import (
        Draw,
        PartItems,
        Selection,
        draw_test,
        draw_train,
        rows_of,
        split_parts,
    )

__all__ = [
    "PROTOCOLS",
    "AskOptions",
    "AskSettings",
    "Draw",
    "FitNotes",
    "MissingData",
    "OtherModel",
    "Pairs",
    "PartItems",
    "PartPredictions",
    "Protocol",
    "Question",
    "Range",
    "Scoring",
    "Selection",
    "Setting",
    "Workspace",
    "arrange",
    "as_problems",
    "ask_options",
    "ask_session",
    "can_ask",
    "check_data",
    "draw_test",
    "draw_train",
    "embed_options",
    "embed_rows",
    "field_docs",
    "fitting_protocols",
    "given",
    "has_block",
    "how_only",
    "known_metric",
    "label_of",
    "load_protocol",
    "main_key",
    "make_score",
    "make_settings",
    "may_fail",
    "no_data",
    "protocol_of",
    "protocols",
    "recorded_kinds",
    "refs_of",
    "register_protocol",
    "root_of",
    "rows_of",
    "score_answers",
    "settings_of",
    "split_parts",
    "summary_of",
    "table_question",
    "task_problems",
    "value_names",
    "values_by_item",
]

__getattr__ = exports(__name__)
