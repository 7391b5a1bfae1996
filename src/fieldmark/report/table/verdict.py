"""Verdict: which model should be used, in a sentence?

Said of the study alone, so that table and page say the same: overall where several tasks count and
several rows have them all, else task by task. A task that cannot tell guessing from the best has no
vote there. Where one task counts, its other columns (other options, another data folder) have a
sentence of their own: what answers different questions shares none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from fieldmark.report.chance import OPTIONS, choice_words, trained_words
from fieldmark.report.rows import Row, Table, names_with_caveats
from fieldmark.report.tiers import ColumnKey, Overall

N_NAMED = 3
"""rows named beyond the first"""


def verdict(table: Table) -> str:
    """The sentence for a table, a line for each question; "" where nothing was compared."""
    if table.study is None:
        return ""
    if table.study.overall is not None:
        return _overall(table, table.study.overall)
    columns: dict[ColumnKey, list[Row]] = {}
    for row in table.rows:
        if row.tier is not None:
            columns.setdefault(row.column_key, []).append(row)
    counted = [rows for rows in columns.values() if rows[0].is_counted]
    if len(counted) > 1:
        counted_rows = [row for rows in counted for row in rows]
        keys, kept = [rows[0].column_key for rows in counted], {row.name for row in counted_rows}
        apart = _left_out(table.rows, keys, kept, names_with_caveats(table.rows))
        return " ".join([_task_by_task(table, counted_rows), *apart])
    ordered = sorted(columns.values(), key=lambda rows: not rows[0].is_counted)
    is_alone = len({row.column_key for row in table.rows}) == 1
    return "\n".join(_on_one(table, rows, is_alone) for rows in ordered)


def _overall(table: Table, overall: Overall) -> str:
    rows = table.rows
    names = names_with_caveats(rows)
    best = {names[one.name]: one.mean for one in overall.standings if one.may_be_best}
    leader = next(iter(best), "")
    worse = [names[one.name] for one in overall.standings if not one.may_be_best]
    is_up = next(r.score.higher_is_better for r in rows if r.column_key == overall.columns[0])
    is_synthetic = all(row.is_synthetic for row in rows if row.column_key in overall.columns)
    where = task_words(len(overall.columns), overall.n_photo_sets, is_synthetic)
    where += _of_size([row for row in rows if row.column_key in overall.columns], ", ")
    if not any(is_told(table, key) for key in overall.columns):
        text = f"{NOT_TOLD} ({where}). {leader} scored {'highest' if is_up else 'lowest'}."
    elif len(best) > 1:
        text = f"Too close to call overall ({where}): {_close(best, is_up)}"
    else:
        text = f"Best overall ({where}): {leader}. Clearly worse: {named(worse)}."
    kept = {one.name for one in overall.standings}
    return " ".join([text, *_left_out(rows, overall.columns, kept, names)])


def _left_out(
    rows: Sequence[Row],
    columns: Sequence[ColumnKey],
    kept: Collection[str],
    names: Mapping[str, str],
) -> Iterator[str]:
    """Who is not compared over these columns, and why: a model that lacks a task, or one that was
    asked it as another question, with other options.
    """
    columns_of: dict[str, set[ColumnKey]] = {}
    for row in rows:
        if row.competes and row.name not in kept:
            columns_of.setdefault(row.name, set()).add(row.column_key)
    row_of = {row.column_key: row for row in rows}
    lacking, apart = [], list[tuple[str, Row, Row]]()
    for name, columns_of_row in columns_of.items():
        missing = [key for key in columns if key not in columns_of_row]
        others = [_other_options(row_of[key], columns_of_row, row_of) for key in missing]
        reasons = [other for other in others if other is not None]
        if missing and len(reasons) == len(missing):
            apart.append((name, reasons[0], row_of[missing[0]]))
        else:
            lacking.append(name)
    if apart:
        _, other, counted = apart[0]
        is_one = len(apart) == 1
        yield (
            f"{named([names[name] for name, *_ in apart])} {'is' if is_one else 'are'} not "
            f"compared with these: {'it' if is_one else 'they'} chose among {choice_words(other)} "
            f"on {counted.task_name}, the others among {choice_words(counted)}. "
            "`--ask choices=0` offers all classes."
        )
    if lacking:
        one = len(lacking) == 1
        yield (
            f"{named([names[name] for name in lacking])} {'is' if one else 'are'} left out: "
            f"{'it lacks' if one else 'they lack'} some of these tasks."
        )


def _other_options(
    row: Row, keys: Collection[ColumnKey], row_of: Mapping[ColumnKey, Row]
) -> Row | None:
    """The row of one of these columns that is about the same task with other options."""
    same = (row_of[key] for key in keys if row_of[key].run.spec.task == row.run.spec.task)
    return next((other for other in same if OPTIONS in f"{other.column}{row.column}"), None)


def _close(scores: Mapping[str, float], is_up: bool) -> str:
    """Of those that may be the best, the best first; equal scores share the first place."""
    top = next(iter(scores.values()))
    leaders = [name for name, score in scores.items() if score == top or abs(score - top) < 1e-9]
    others = [name for name in scores if name not in leaders]
    text = f"{leaders[0]} scored {'highest' if is_up else 'lowest'}"
    if len(leaders) > 1:
        text = f"{named(leaders)} share the {'top' if is_up else 'lowest'} score"
    return f"{text}, but {named(others, 'or')} could be as good." if others else f"{text}."


def task_words(n_tasks: int, n_photo_sets: int, is_synthetic: bool = False) -> str:
    """
    >>> task_words(4, 2), task_words(3, 3), task_words(3, 3, True)
    ('4 tasks, 2 photo sets', '3 tasks', '3 synthetic tasks')
    """
    photos = "1 photo set" if n_photo_sets == 1 else f"{n_photo_sets} photo sets"
    tasks = f"{n_tasks} synthetic tasks" if is_synthetic else f"{n_tasks} tasks"
    return tasks if n_photo_sets == n_tasks else f"{tasks}, {photos}"


NOT_TOLD = "No model is clearly better than always giving the most common label"


def is_told(table: Table, key: ColumnKey) -> bool:
    """Is the best model of a column better than that, as far as is known?"""
    column = table.study.columns.get(key) if table.study else None
    return column is None or column.is_told_from_blind is not False


def _of_size(rows: Sequence[Row], before: str) -> str:
    """Which training sizes are compared, where not all are; "" = all."""
    if all(row.has_compared_size for row in rows):
        return ""
    return before + trained_words([row.size for row in rows if row.competes])


def _on_one(table: Table, rows: Sequence[Row], is_alone: bool) -> str:
    key, names, is_up = rows[0].column_key, names_with_caveats(rows), rows[0].score.higher_is_better
    where = "" if is_alone else f" on {rows[0].heading}"
    where += _of_size([row for row in table.rows if row.column_key == key], " ")
    ordered = sorted(rows, key=_standing)
    tied = {names[row.name]: row.score.value for row in ordered if row.is_tied}
    best = next(iter(tied))
    worse = [names[row.name] for row in ordered if not row.is_tied]
    if not is_told(table, key):
        return f"{NOT_TOLD}{where}. {best} scored {'highest' if is_up else 'lowest'}."
    if len(tied) == 1:
        return f"Best{where}: {best}. Clearly worse: {named(worse)}."
    return f"Too close to call{where}: {_close(tied, is_up)}"


def _task_by_task(table: Table, rows: Sequence[Row]) -> str:
    telling = [row for row in rows if is_told(table, row.column_key)]
    n_tasks = len({row.column_key for row in telling})
    n_best = Counter(row.name for row in telling if row.is_tied)
    if not n_best:
        return "On no task here is a model clearly better than always giving the most common label."
    order = sorted(n_best, key=lambda name: (-n_best[name], name))
    names = names_with_caveats(rows)
    counts = [f"{names[name]} on {n_best[name]}" for name in order]
    opening, shown = f"{counts[0]} of {n_tasks} tasks", counts[1 : N_NAMED + 2]
    if (more := len(counts) - 1 - N_NAMED) > 1:
        shown[-1] = f"{more} others on fewer"
    return f"Could be the best: {', '.join([opening, *shown])}."


def named(names: Sequence[str], word: str = "and") -> str:
    """
    >>> named(["a"]), named(["a", "b"]), named(list("abcde"), "or")
    ('a', 'a and b', 'a, b, c or 2 others')
    """
    shown = list(names[: N_NAMED + 1])
    if (more := len(names) - N_NAMED) > 1:
        shown[-1] = f"{more} others"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"


def _standing(row: Row) -> tuple[float, str]:
    """Smaller is better; what is not defined comes last."""
    if math.isnan(row.score.value):
        return math.inf, row.name
    return (-row.score.value if row.score.higher_is_better else row.score.value), row.name
