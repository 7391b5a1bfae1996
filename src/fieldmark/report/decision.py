"""Which model should one use, in a sentence?

Never a strict order among models that the items cannot tell apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fieldmark.report.rows import Row

N_NAMED = 3
"""models named beyond the first"""


def decision(rows: Sequence[Row]) -> str:
    """The sentence for a table; "" where nothing was compared."""
    every = [row for row in rows if row.tier is not None]
    compared = [row for row in every if row.is_counted]
    columns = list(dict.fromkeys((row.column, row.score.metric) for row in compared))
    if len(columns) == 1:
        is_alone = len(compared) == len(every)
        return ("" if is_alone else f"{columns[0][0].replace(chr(10), ' ')}: ") + _for_one(compared)
    return _for_many(compared, len(columns)) if columns else ""


def _for_one(rows: Sequence[Row]) -> str:
    best, *others = sorted((row for row in rows if row.is_tied), key=_standing)
    if not others:
        return f"Use {best.model}: it is better than all others here."
    if len(rows) == len(others) + 1 and len({row.score.value for row in rows}) == 1:
        return f"{_named([best.model, *(row.model for row in others)])} score the same here."
    verb = "cannot be told from it here"
    return f"Use {best.model}; {_named([row.model for row in others])} {verb}."


def _for_many(rows: Sequence[Row], n_columns: int) -> str:
    n_best = Counter(row.model for row in rows if row.is_tied)
    first, *others = [f"{model} on {n}" for model, n in n_best.most_common()]
    said = [f"{first} of {n_columns} tasks", *others[:N_NAMED]]
    more = f" and {len(others) - N_NAMED} others on fewer" if len(others) > N_NAMED else ""
    return f"Best, or not to be told from the best: {', '.join(said)}{more}."


def _named(models: Sequence[str]) -> str:
    shown = list(models[:N_NAMED])
    if len(models) > N_NAMED:
        shown.append(f"{len(models) - N_NAMED} others")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _standing(row: Row) -> float:
    """Smaller is better; what is not defined comes last."""
    if math.isnan(row.score.value):
        return math.inf
    return -row.score.value if row.score.higher_is_better else row.score.value
