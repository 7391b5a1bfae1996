"""Table as text and JSON: which model is better at what, how sure is that, and how was it found?

Plain text for a terminal of 80 columns: wide (models × tasks), long (a line per run) and by part
(parts × models). Above every table stands the verdict, under it the legend, what is missing, and
the lines that reproduce it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from fieldmark.report.facts import signatures
from fieldmark.report.providers import is_valued
from fieldmark.report.rows import RATES, Row, Table
from fieldmark.report.run_labels import is_drawn, is_drawn_once
from fieldmark.report.table.layout import (
    GAP,
    MISSING,
    NO_INTERVAL,
    SILENT,
    align,
    arrow,
    column_of_cells,
    interval_cell,
    is_lopsided,
    known,
    marks,
    number,
    text_width,
)
from fieldmark.report.table.ranking import (
    ABOVE,
    ELSEWHERE,
    HERE,
    agreement,
    grid_of,
    mean_notes,
    rank_rows,
)
from fieldmark.report.table.verdict import verdict
from fieldmark.store import OK, UNANSWERED, RunSpec, Score
from fieldmark.words import counted, first_few, grouped

if TYPE_CHECKING:
    from fieldmark.report.tiers import Study

WHOLE = "(the whole task)"


def wide_table(table: Table, width: int = 80) -> str:
    """Models × tasks, best mean first; in blocks of tasks where the screen is too narrow."""
    if not table.rows:
        return ""
    grid = {(row.name, _heading(row)): row for row in table.rows}
    ranking = rank_rows(table)
    cells = {
        column: column_of_cells([grid.get((name, column)) for name in ranking.names])
        for column in dict.fromkeys(column for _, column in grid)
    }
    lines = list(_blocks(_labels(table, ranking.names), ranking.summary | cells, width))
    has_gaps = any(MISSING in line.split() for line in lines)
    signs = ("±", *(MISSING * has_gaps), *ranking.summary)
    alike = textwrap.wrap(agreement(grid_of(table)), width)
    notes = [line for note in mean_notes(table) for line in textwrap.wrap(note, width)]
    return _text(table, width, [*lines, *([""] if alike else []), *alike], notes, signs)


def _labels(table: Table, names: Sequence[str]) -> dict[str, list[str]]:
    """The first columns: the model and, where any is named, the setup."""
    row_of = {row.name: row for row in table.rows}
    labels = {"model": [row_of[name].label for name in names]}
    setups = [row_of[name].setup for name in names]
    return labels | ({"setup": setups} if any(setups) else {})


def part_table(table: Table, width: int = 80, heading: str = "part") -> str:
    """For each task: its parts and groups of parts × models. Wants `read_table(by_part=True)`."""
    sections = []
    for column in dict.fromkeys(_heading(row) for row in table.rows):
        column_rows = [row for row in table.rows if _heading(row) == column]
        names = rank_rows(Table(tuple(column_rows))).names
        parts = list(dict.fromkeys(row.score.part for row in column_rows))
        grid = {(row.score.part, row.name): row for row in column_rows}
        cells = {
            name: column_of_cells([grid.get((part, name)) for part in parts]) for name in names
        }
        labels = {heading: [part or WHOLE for part in parts]}
        sections += [column.replace("\n", GAP), *_blocks(labels, cells, width), ""]
    return _text(table, width, sections[:-1], [], ("±",)) if sections else ""


def score_lines(rows: Sequence[Row], width: int | None = None) -> list[str]:
    """A line for each score: what it is of, and its margin of error."""
    cells = column_of_cells(rows)
    metrics = [row.score.metric for row in rows]
    if len(set(metrics)) == 1:
        body = [[row.name, row.heading, cell] for row, cell in zip(rows, cells, strict=True)]
        return align(["model", "task", metrics[0]], body, metrics[:1], width)
    body = [
        [row.name, row.heading, cell, metric]
        for row, cell, metric in zip(rows, cells, metrics, strict=True)
    ]
    return align(["model", "task", "score", "metric"], body, ("score",), width)


def long_table(table: Table, width: int = 80, is_screen: bool = False) -> str:
    """One line per score; what is the same in all of them is said once, above. On a screen long
    texts go on below.
    """
    if not table.rows:
        return ""
    row_facts_list = [_facts(row) for row in table.rows]
    same = {
        name for name in _CONDENSED if len({row_facts[name] for row_facts in row_facts_list}) == 1
    }
    shown = [name for name in row_facts_list[0] if name not in same]
    shared = [
        f"{name}={row_facts_list[0][name]}"
        for name in row_facts_list[0]
        if name in same and row_facts_list[0][name]
    ]
    above = textwrap.wrap(f"all: {GAP.join(shared)}", width) if shared else []
    body = [[row_facts[name] for name in shown] for row_facts in row_facts_list]
    if is_screen:  # an interval stays on one line
        body = [[cell.replace(", ", ",\u00a0") for cell in cells] for cells in body]
    lines = align(shown, body, right=_NUMBERS, width=width if is_screen else None)
    return _text(table, width, [*above, *lines], [], ())


_CONDENSED = (
    "setup", "data", "part", "protocol", "n_train", "n_test", "seed", "repeats", "metric",
    "answered",
)  # fmt: skip
_NUMBERS = ("n_train", "n_test", "seed", "repeats", "score", "n", "units", "answered")


def _facts(row: Row) -> dict[str, str]:
    spec, score = row.run.spec, row.score
    share = row.answered if row.run.n_items else math.nan
    return {
        "model": row.label,
        "setup": row.setup,
        "task": row.task_name,
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
    labels: Mapping[str, list[str]], cells: Mapping[str, list[str]], width: int
) -> Iterator[str]:
    """The columns side by side; what does not fit goes below, with the labels again. Rows that were
    not run on any task of a block are not in it.
    """
    rest = list(cells)
    while rest:
        taken = _fitting(labels, rest, cells, width)
        block = {**labels, **{name: cells[name] for name in taken}}
        body = [
            row
            for row in zip(*block.values(), strict=True)
            if any(cell.strip() != MISSING for cell in row[len(labels) :])
        ]
        yield from align(list(block), body, taken, width)
        rest = rest[len(taken) :]
        if rest:
            yield ""


def _fitting(
    labels: Mapping[str, list[str]],
    rest: Sequence[str],
    cells: Mapping[str, list[str]],
    width: int,
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


# --- above and under a table ---


def _text(
    table: Table, width: int, body: Sequence[str], notes: Sequence[str], signs: Sequence[str]
) -> str:
    """The verdict, the table, and all that is to know of it."""
    opening = [line for text in verdict(table).split("\n") for line in textwrap.wrap(text, width)]
    rows = table.rows
    about = [
        *textwrap.wrap(" · ".join(_legend(table, signs)), width),
        *notes,
        *_wrapped(_draw_notes(rows), width),
        *_wrapped(_class_notes(table), width),
        *_wrapped(_chance_notes(table, is_long=not signs), width),
        *_unanswered(rows, width),
        *_wrapped(_no_intervals(rows), width),
        *_wrapped(_left_out(table), width),
        *_wrapped(iter(table.notes), width),
        *(() if signs else signatures(rows)),
    ]
    return "\n".join([*opening, *([""] if opening else []), *body, "", *about])


def _wrapped(lines: Iterator[str], width: int) -> Iterator[str]:
    for line in lines:
        yield from textwrap.wrap(line, width, subsequent_indent="  ")


def _legend(table: Table, signs: Sequence[str]) -> Iterator[str]:
    rows = table.rows
    directions = {arrow(row.score) for row in rows}
    if "↑" in directions:
        yield "↑ higher is better"
    if "↓" in directions:
        yield "↓ lower is better"
    if any(row.score.low is not None for row in rows):
        what = "± margin of error (95 %)" if "±" in signs else "intervals of 95 %"
        yield f"{what} {_source_of_error(rows)}"
        if "±" in signs and any(map(is_lopsided, rows)):
            yield "[low, high] the same interval, where ± would leave 0–100"
    yield "n test photos"
    if MISSING in signs:
        yield f"{MISSING} not run"
    tiers = {row.tier for row in rows if row.tier}
    if tiers:
        further = "; and so on" if tiers - {"A", "B"} else ""
        yield (
            "A: could be the best model for this task · B: clearly worse than A; may be the best "
            f"of the rest{further} (95 % confidence)"
        )
    if ABOVE in signs:
        yield "above chance: 0 = always the most common label, 100 = all right"
    if HERE in signs:
        yield "rank (these tasks): 95 % interval of the rank by the mean"
    if ELSEWHERE in signs:
        yield "rank (similar tasks): rank expected on similar tasks"


def _source_of_error(rows: Sequence[Row]) -> str:
    """What an interval is over."""
    draws = {is_drawn(row.run) and row.n_draws > 1 for row in rows if row.score.low is not None}
    if True not in draws:
        return "for these test photos"
    several = "" if draws == {True} else ", where there are several"
    return f"for these test photos and training samples{several}"


def _draw_notes(rows: Sequence[Row]) -> Iterator[str]:
    once = {row.run.id: row for row in rows if row.is_stored and is_drawn_once(row.runs)}
    if once:
        n = f"{len(once)} scores" if len(once) > 1 else "1 score"
        yield (
            f"The margin of {n} leaves out differences between training samples; add --repeats 5 "
            "to include them."
        )


def _class_notes(table: Table) -> Iterator[str]:
    """Means over classes are over those that the test items have."""
    columns = table.study.columns if table.study else {}
    counts = [
        f"{column.n_classes:,} in {key[0].replace(chr(10), ' ')}"
        for key, column in columns.items()
        if column.n_classes
    ]
    if counts:
        yield f"macro metrics average over the classes of the test photos ({', '.join(counts)})."


MOST_LEVELS = 3
"""columns whose chance level is said without --long"""


def _chance_notes(table: Table, is_long: bool) -> Iterator[str]:
    """What guessing scores, and what always giving the commonest answer does."""
    columns: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        if row.chance:
            columns.setdefault(row.column_key, []).append(row)
    if len(columns) > MOST_LEVELS and not is_long:
        known = [(rows[0], _blind(table, rows)) for rows in columns.values()]
        shown = [f"{row.heading} {number(value, row.score)}" for row, value in known if value]
        if shown:
            yield f"always giving the most common label scores: {', '.join(shown)}."
        return
    for rows in columns.values():
        levels = chance_texts(rows)
        text = f"{rows[0].heading}: guessing scores {' or '.join(levels)}"
        if (blind := _blind(table, rows)) is not None:
            text += f", always giving the most common label {number(blind, rows[0].score)}"
        yield f"{text}."


def _blind(table: Table, rows: Sequence[Row]) -> float | None:
    """What always giving the most common label scores in the column of the rows, if known."""
    column = table.study.columns.get(rows[0].column_key) if table.study else None
    return column.blind if column else None


def chance_texts(rows: Sequence[Row]) -> list[str]:
    """The chance levels of rows of one column: `12.5 (8 options)`; `50.0` of two classes, and of
    two options.
    """
    among: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.chance:
            among.setdefault(number(row.chance.value, row.score), {})[row.chance.among] = None
    return [f"{n} ({one})" if not others else n for n, (one, *others) in among.items()]


def _unanswered(rows: Sequence[Row], width: int) -> Iterator[str]:
    """How many items were not answered and why, and what the others would score alone."""
    if any(row.outcomes for row in rows):
        yield f"{SILENT} Missing answers count as wrong:"
    for row in {row.run.id: row for row in rows if row.outcomes}.values():
        yield from textwrap.wrap(
            f"{row.name}, {row.heading}: {unanswered_words(row)}",
            width,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )


def unanswered_words(row: Row) -> str:
    """What became of the items without an answer, and what to do about it."""
    kinds = sorted((kind for kind in row.outcomes if kind != OK), key=lambda kind: kind != "failed")
    counts = [f"{row.outcomes[kind]:,} {UNANSWERED.get(kind, kind)}" for kind in kinds]
    n, _, outcome = counts[0].partition(" ")
    text = ", ".join([f"{n} of {sum(row.outcomes.values()):,} {outcome}", *counts[1:]])
    if row.among is not None and not math.isnan(row.among):
        text += f"; {number(row.among, row.score)} among those answered"
    steps = ["run the same command again"] if "failed" in row.outcomes else []
    others = ",".join(kind for kind in kinds if kind in UNANSWERED and kind != "failed")
    if others:
        steps.append(f"`--again {others}` asks {'those too' if steps else 'again'}")
    return f"{text}: {', '.join(steps)}" if steps else text


def _no_intervals(rows: Sequence[Row]) -> Iterator[str]:
    """Why a score has no interval, or one that is to be read with care."""
    lines: dict[str, None] = {}
    for row in rows:
        if row.score.warning and (not row.score.part or len(row.runs) > 1):
            what = "" if is_valued(row.run) or row.score.low is not None else "no interval: "
            lines[f"{row.heading}: {what}{row.score.warning}"] = None
    yield from (f"{NO_INTERVAL} {line}" for line in grouped(lines))


def _left_out(table: Table) -> Iterator[str]:
    verbs = {"failed": "failed", "running": "did not finish"}
    for state, titles in table.left_out.items():
        are, them = ("is", "it") if len(titles) == 1 else ("are", "them")
        yield (
            f"{counted(len(titles), 'run')} {verbs.get(state, state)} and {are} not shown: "
            f"{first_few(titles)}. Run the same command to retry {them}."
        )
        if state == "failed":
            yield f"`fieldmark runs rm --failed` removes {them}."


# --- JSON ---


def plain_rows(table: Table) -> list[dict[str, Any]]:
    """What programs read: one flat mapping of JSON values per score."""
    return [_plain(row, table.study) for row in table.rows]


def _plain(row: Row, study: Study | None) -> dict[str, Any]:
    column = None if study is None else study.columns.get(row.column_key)
    spec, score = row.run.spec, row.score
    spec_fields = {attribute.name: getattr(spec, attribute.name) for attribute in fields(RunSpec)}
    result = {attribute.name: getattr(score, attribute.name) for attribute in fields(Score)}
    for name in ("value", "low", "high"):
        result[name] = known(result[name])
    return {
        **spec_fields,
        **result,
        "warning": "; ".join(filter(None, [score.warning, row.fewer])),
        "task": spec.task + row.task_name.removeprefix(spec.task_name),
        "model_label": row.model,
        "stand_in": row.stand_in,
        "is_synthetic": row.is_synthetic,
        "setup": row.setup,
        "seeds": sorted(run.spec.seed for run in row.runs),
        "column": row.column,
        "is_counted": row.is_counted,
        "tier": row.tier,
        "chance": None if row.chance is None else row.chance.value,
        "chance_among": None if row.chance is None else row.chance.among,
        "majority": None if column is None else column.blind,
        "is_best_told_from_majority": None if column is None else column.is_told_from_blind,
        "is_tied_with_best": row.is_tied,
        "n_items": row.run.n_items,
        "n_answered": row.run.n_ok,
        "answered_rate": row.answered,
        "among_answered": row.score.value if row.among is None else row.among,
        **{name: known(row.rates.get(name)) for name in RATES},
        **{f"n_{outcome}": row.outcomes.get(outcome, 0) for outcome in UNANSWERED},
        "seconds": row.run.seconds,
        "finished": row.run.finished,
        "run": row.run.id if row.is_stored else None,
        "runs": [run.id for run in row.runs] if row.is_stored else [],
        "key": row.run.key if row.is_stored else None,
        "app": row.run.app,
    }
