"""Table as text: which model is better at what, how sure is that, and how was it found?

Plain text for a terminal of 80 columns: wide (models × tasks), long (a line per run) and by part
(parts × models). Under every table stand the decision in a sentence, the legend, what is missing,
and the lines that reproduce it.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from fieldmark.report.labels import signatures
from fieldmark.report.providers import is_valued
from fieldmark.report.rows import Row, Table
from fieldmark.report.table.layout import (
    GAP,
    MISSING,
    WEAK,
    align,
    arrow,
    column_of_cells,
    interval_cell,
    marks,
    number,
    text_width,
)
from fieldmark.report.table.ranking import agreement, model_ranks, rank_models

WHOLE = "(the whole task)"
RANK = "rank"
STEADIER = "macro_accuracy"


def wide_table(table: Table, width: int = 80) -> str:
    """Models × tasks, best mean first; in blocks of tasks where the screen is too narrow."""
    if not table.rows:
        return ""
    grid = {(row.model, _heading(row)): row for row in table.rows}
    tasks = {place: row for place, row in grid.items() if row.is_counted and row.is_stored}
    ranking = rank_models(tasks, dict.fromkeys(row.model for row in table.rows))
    models = {"model": ranking.models}
    cells = {
        column: column_of_cells([grid.get((model, column)) for model in ranking.models])
        for column in dict.fromkeys(column for _, column in grid)
    }
    summary = {ranking.heading: ranking.summaries} if ranking.heading else {}
    ranks = model_ranks(tasks)
    if ranks:
        summary[RANK] = [ranks[m].text if m in ranks else MISSING for m in ranking.models]
    lines = _blocks(models, summary, cells, width)
    has_gaps = len(grid) < len(ranking.models) * len(cells)
    signs = ("±", *("–" * has_gaps), *([RANK] if ranks else []))
    return "\n".join([*lines, "", *_footer(table, width, *signs, alike=agreement(tasks))])


def part_table(table: Table, width: int = 80, heading: str = "part") -> str:
    """For each task: its parts and groups of parts × models. Wants `read_table(by_part=True)`."""
    sections = []
    for column in dict.fromkeys(_heading(row) for row in table.rows):
        mine = [row for row in table.rows if _heading(row) == column]
        wholes = {(row.model, ""): row for row in mine if not row.score.part}
        ranked = rank_models(wholes).models if wholes else []
        models = list(dict.fromkeys([*ranked, *(row.model for row in mine)]))
        parts = list(dict.fromkeys(row.score.part for row in mine))
        grid = {(row.score.part, row.model): row for row in mine}
        cells = {
            model: column_of_cells([grid.get((part, model)) for part in parts]) for model in models
        }
        labels = {heading: [part or WHOLE for part in parts]}
        sections += [column.replace("\n", GAP), *_blocks(labels, {}, cells, width), ""]
    return "\n".join([*sections, *_footer(table, width, "±")]) if sections else ""


def long_table(table: Table, width: int = 80) -> str:
    """One line per score; what is the same in all of them is said once, above."""
    if not table.rows:
        return ""
    facts = [_facts(row) for row in table.rows]
    same = {name for name in _CONDENSED if len({row_facts[name] for row_facts in facts}) == 1}
    shown = [name for name in facts[0] if name not in same]
    shared = [f"{name}={facts[0][name]}" for name in facts[0] if name in same and facts[0][name]]
    above = textwrap.wrap(f"all: {GAP.join(shared)}", width) if shared else []
    body = [[row_facts[name] for name in shown] for row_facts in facts]
    lines = align(shown, body, right=_NUMBERS)
    return "\n".join([*above, *lines, "", *_footer(table, width)])


_CONDENSED = (
    "data", "part", "protocol", "n_train", "n_test", "seed", "repeats", "metric", "answered",
)  # fmt: skip
_NUMBERS = ("n_train", "n_test", "seed", "repeats", "score", "n", "units", "answered")


def _facts(row: Row) -> dict[str, str]:
    spec, score = row.run.spec, row.score
    share = (row.run.n_ok or 0) / row.run.n_items if row.run.n_items else math.nan
    return {
        "model": row.model,
        "task": spec.task_name,
        "data": row.data,
        "part": score.part,
        "protocol": spec.protocol,
        "n_train": "all" if spec.n_train is None else f"{spec.n_train}",
        "n_test": "all" if spec.n_test is None else f"{spec.n_test}",
        "seed": f"{spec.seed}",
        "repeats": f"{spec.repeats}",
        "metric": f"{score.metric} {arrow(score)}",
        "score": MISSING if math.isnan(score.value) else number(score.value, score),
        "interval": interval_cell(score),
        "n": f"{score.n:,}",
        "units": MISSING if score.n_units is None else f"{score.n_units:,}",
        "answered": MISSING if math.isnan(share) else f"{100 * share:.1f} %",
        "": marks(row).strip(),
    }


def _heading(row: Row) -> str:
    return f"{row.column}\n{row.score.metric} {arrow(row.score)}"


def _blocks(
    labels: dict[str, list[str]],
    summary: dict[str, list[str]],
    cells: dict[str, list[str]],
    width: int,
) -> Iterator[str]:
    """The columns side by side; what does not fit goes below, with the labels again."""
    first, rest = {**labels, **summary}, list(cells)
    while rest:
        taken = _fitting(first, rest, cells, width)
        block = {**first, **{name: cells[name] for name in taken}}
        body = list(zip(*block.values(), strict=True))
        yield from align(list(block), body, right=[name for name in block if name not in labels])
        first, rest = labels, rest[len(taken) :]
        if rest:
            yield ""


def _fitting(
    labels: dict[str, list[str]], rest: Sequence[str], cells: dict[str, list[str]], width: int
) -> list[str]:
    """As many columns as fit beside the labels, and one at least."""
    used = sum(_column_width(name, column) + len(GAP) for name, column in labels.items())
    taken: list[str] = []
    for name in rest:
        used += _column_width(name, cells[name])
        if taken and used > width:
            break
        taken.append(name)
        used += len(GAP)
    return taken


def _column_width(name: str, column: Sequence[str]) -> int:
    return max(map(text_width, (*name.split("\n"), *column)), default=0)


def _footer(table: Table, width: int, *signs: str, alike: str = "") -> list[str]:
    legend = textwrap.wrap(" · ".join(_legend(table.rows, signs)), width)
    use = [*textwrap.wrap(decision(table.rows), width), *textwrap.wrap(alike, width)]
    about = [
        *legend,
        *_unanswered(table.rows),
        *_weak(table.rows),
        *_left_out(table),
        *table.notes,
        *signatures(table.rows),
    ]
    return [*use, "", *about] if use else about


def _legend(rows: Sequence[Row], signs: Sequence[str]) -> Iterator[str]:
    directions = {arrow(row.score) for row in rows}
    if "↑" in directions:
        yield "↑ higher is better"
    if "↓" in directions:
        yield "↓ lower is better"
    levels = sorted({row.score.level for row in rows if row.score.low is not None})
    if levels:
        shown = " or ".join(f"{100 * level:g} %" for level in levels)
        yield f"± half of the {shown} interval" if "±" in signs else f"intervals of {shown}"
    yield "n items tested"
    if MISSING in signs:
        yield f"{MISSING} not run (models with gaps come last)"
    if RANK in signs:
        yield "rank: 95 % interval of the rank when tasks and items are resampled"
    if any(row.tier for row in rows):
        yield "letters: tiers; within one, no model can be told from its best"


def _unanswered(rows: Sequence[Row]) -> Iterator[str]:
    """Both rates stand beside the score: how many failed, how many could not be read."""
    if any(row.outcomes for row in rows):
        yield "† items without an answer are left out, not counted as wrong:"
    for row in {row.run.id: row for row in rows if row.outcomes}.values():
        total = sum(row.outcomes.values())
        counts = [f"{n:,} {what}" for what, n in row.outcomes.items() if what != "ok"]
        where = f"{row.model}, {row.heading}"
        yield f"  {where}: {', '.join(counts)} of {total:,}"


def _weak(rows: Sequence[Row]) -> Iterator[str]:
    """Where an interval is known to hold the truth less often than it claims."""
    seen = {
        f"{WEAK} {row.heading}: {_warning(row)}": None
        for row in rows
        if row.score.warning and not row.score.part
    }
    yield from seen


def _warning(row: Row) -> str:
    if is_valued(row.run):
        return row.score.warning
    warning = f"{row.score.warning}, so intervals of {row.score.metric} may be too narrow"
    return (
        warning if row.score.metric == STEADIER else f"{warning}; --metric {STEADIER} is steadier"
    )


def _left_out(table: Table) -> Iterator[str]:
    words = {"failed": "failed", "running": "not finished"}
    if table.left_out:
        counts = [f"{n:,} {words.get(state, state)}" for state, n in table.left_out.items()]
        yield f"not shown: {', '.join(counts)} (run the same command again to complete them)"


# --- the decision in a sentence ---


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
    counts = [f"{first} of {n_columns} tasks", *others[:N_NAMED]]
    more = f" and {len(others) - N_NAMED} others on fewer" if len(others) > N_NAMED else ""
    return f"Best, or not to be told from the best: {', '.join(counts)}{more}."


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
