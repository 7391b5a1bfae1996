"""Verdict: which model should be used, in a sentence?

Said of the study alone, so that table and page say the same: overall where several tasks count and
several rows have them all, else task by task. A task that cannot tell guessing from the best has no
vote.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fieldmark.report.cells import Row, competing, names_with_caveats
from fieldmark.report.rows import Table
from fieldmark.report.study import Overall

N_NAMED = 3
"""rows named beyond the first"""


def verdict(table: Table) -> str:
    """The sentence for a table; "" where nothing was compared."""
    if table.study is None:
        return ""
    if table.study.overall is not None:
        return _overall(table.study.overall, competing(table.rows))
    compared = [row for row in table.rows if row.tier is not None]
    of_tasks = [row for row in compared if row.is_counted]
    places = list(dict.fromkeys(row.place for row in of_tasks))
    if len(places) == 1:
        where = "" if len(of_tasks) == len(compared) else f" on {of_tasks[0].heading}"
        return _on_one(of_tasks, where)
    return _task_by_task(table, of_tasks) if places else ""


def _overall(overall: Overall, rows: Sequence[Row]) -> str:
    names = names_with_caveats(rows)
    first, *others = [names[one.name] for one in overall.standings if one.may_be_best] or [""]
    n_rows = len(overall.standings)
    is_synthetic = all(row.is_synthetic for row in rows if row.place in overall.places)
    where = task_words(len(overall.places), overall.n_photo_sets, is_synthetic)
    if n_rows == len(others) + 1:
        words = f"No row can be ruled out as the best overall ({where}); {first} is ahead."
    elif others:
        words = f"May be the best overall ({where}): {first}; {named(others)} cannot be ruled out."
    else:
        words = f"Best overall ({where}): {first}; all others are worse."
    n_absent = len(names) - n_rows
    verb = "row lacks" if n_absent == 1 else "rows lack"
    return f"{words} {n_absent} {verb} some of these tasks." if n_absent else words


def task_words(n_tasks: int, n_photo_sets: int, is_synthetic: bool = False) -> str:
    """
    >>> task_words(4, 2), task_words(3, 3), task_words(3, 3, True)
    ('4 tasks, 2 photo sets', '3 tasks', '3 synthetic tasks')
    """
    photos = "1 photo set" if n_photo_sets == 1 else f"{n_photo_sets} photo sets"
    tasks = f"{n_tasks} synthetic tasks" if is_synthetic else f"{n_tasks} tasks"
    return tasks if n_photo_sets == n_tasks else f"{tasks}, {photos}"


def _on_one(rows: Sequence[Row], where: str) -> str:
    ordered = sorted((row for row in rows if row.is_tied), key=_standing)
    names = names_with_caveats(rows)
    best, *others = [names[row.name] for row in ordered]
    if not others:
        return f"Best{where}: {best}; all others are worse."
    if len(rows) == len(ordered) and len({row.score.value for row in rows}) == 1:
        return f"{named([best, *others])} score the same{where}."
    if len(rows) == len(ordered):
        return f"No row can be ruled out as the best{where}; {best} is ahead."
    return f"May be the best{where}: {best}; {named(others)} cannot be ruled out."


def _task_by_task(table: Table, rows: Sequence[Row]) -> str:
    columns = table.study.columns if table.study else {}
    telling = [row for row in rows if columns[row.place].is_told_from_blind is not False]
    n_tasks = len({row.place for row in telling})
    n_best = Counter(row.name for row in telling if row.is_tied)
    if not n_best:
        return "No task here can tell the best from guessing."
    order = sorted(n_best, key=lambda name: (-n_best[name], name))
    names = names_with_caveats(rows)
    counts = [f"{names[name]} on {n_best[name]}" for name in order]
    first, shown = f"{counts[0]} of {n_tasks} tasks", counts[1 : N_NAMED + 1]
    more = len(counts) - 1 - len(shown)
    rest = f" and {more} others on fewer" if more else ""
    return f"May be the best: {', '.join([first, *shown])}{rest}."


def named(names: Sequence[str]) -> str:
    """
    >>> named(["a"]), named(["a", "b"]), named(list("abcde"))
    ('a', 'a and b', 'a, b, c and 2 others')
    """
    shown = list(names[:N_NAMED])
    if len(names) > N_NAMED:
        more = len(names) - N_NAMED
        shown.append("1 other" if more == 1 else f"{more} others")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _standing(row: Row) -> tuple[float, str]:
    """Smaller is better; what is not defined comes last."""
    if math.isnan(row.score.value):
        return math.inf, row.name
    return (-row.score.value if row.score.higher_is_better else row.score.value), row.name
