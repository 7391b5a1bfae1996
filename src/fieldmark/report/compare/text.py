"""Comparison as text: how are two rows compared, for a person and for programs?

The decision first: the difference over all tasks in one sentence. Then the numbers behind it, task
by task: difference with its interval, p second, and the smallest difference these items could have
shown.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fieldmark.report.compare.models import (
    ComparedTask,
    Disagreement,
    OverallDifference,
    RowComparison,
)
from fieldmark.report.providers import asked_noun
from fieldmark.report.run_labels import is_drawn_once
from fieldmark.report.table.layout import MISSING, align, arrow, number
from fieldmark.report.table.verdict import task_words
from fieldmark.stats import Comparison
from fieldmark.store import Score
from fieldmark.words import counted

FEW = 5
"""tasks, up to which is told where the rows disagree"""
ONE_TRAINING = (
    "intervals and p leave out differences between training samples; add --repeats 5 to include "
    "them"
)


def comparison_text(compared: RowComparison, width: int = 80) -> str:
    """The whole answer."""
    tasks, (a, b) = compared.tasks, compared.names
    opening = [f"Comparing A = {a} with B = {b}.", *compared.setups]
    lines = [*textwrap.wrap(" ".join(opening), width, break_on_hyphens=False), ""]
    lines += [*textwrap.wrap(" ".join(verdict(compared)), width, break_on_hyphens=False), ""]
    names = _headings(tasks)
    lines += align(names, [_line(task, names) for task in tasks], names[1:-1], width)
    lines.append("")
    shown = tasks if len(tasks) <= FEW else ()
    lines += [line for task in shown for line in _where(task, width, len(tasks) == 1)]
    return "\n".join([*lines, *_legend(compared, width)])


# --- the verdict ---


def verdict(compared: RowComparison) -> tuple[str, str]:
    """The decision in a sentence, and what else there is to know of it."""
    overall, tasks = compared.overall, compared.tasks
    if overall is None:
        return _task_by_task(compared), _stand_ins(compared)
    sentences = []
    if all(task.where and not task.where.only_a + task.where.only_b for task in tasks):
        sentences.append("They are right on the very same photos.")
    elif overall.verdict == "tie":
        sentences += _smallest(overall)
    if len(overall.metrics) > 1:
        sentences.append(f"The mean is over different metrics: {', '.join(overall.metrics)}.")
    if overall.left_out:
        sentences.append(f"It leaves out {', '.join(overall.left_out)}.")
    if len(tasks) > 1:
        sentences.append(_task_by_task(compared))
    sentences.append(_stand_ins(compared))
    return overall_sentence(compared, overall), " ".join(filter(None, sentences))


def _stand_ins(compared: RowComparison) -> str:
    """That one of the two, or both, are no models."""
    pair = compared.tasks[0]
    marked = [row.label for row in (pair.a, pair.b) if row.stand_in]
    if not marked:
        return ""
    are = "are stand-ins, not models" if len(marked) > 1 else "is a stand-in, not a model"
    return f"{' and '.join(marked)} {are}."


def overall_sentence(compared: RowComparison, overall: OverallDifference) -> str:
    """Which of the two is better over all tasks, with interval and p."""
    comparison, score, (a, b) = overall.comparison, overall.score, compared.names
    where = _where_words(overall)
    level = f"{100 * comparison.level:g} % interval"
    size = number(abs(comparison.difference), score) + _unit(score)
    way = "higher" if comparison.difference > 0 else "lower"
    if overall.verdict == "tie":
        span = f"{_signed(comparison.low, score)} to {_signed(comparison.high, score)}"
        scores = f"{a} scores {size} {way} than {b}, but that could be chance"
        if not comparison.difference:
            scores = f"{a} and {b} score the same"
        return f"Too close to call{where}: {scores} ({level} {span}, {_p_words(comparison)})."
    sign = 1 if overall.verdict == "a" else -1
    best, other = (a, b) if sign > 0 else (b, a)
    low, high = sorted((sign * comparison.low, sign * comparison.high))
    way = "higher" if sign * comparison.difference > 0 else "lower"
    better = "" if way == "higher" else ", which is better,"
    return (
        f"{best} scores {size} {way}{better} than {other}{where} ({level} "
        f"{_signed(low, score)} to {_signed(high, score)}, {_p_words(comparison)})."
    )


def _where_words(overall: OverallDifference) -> str:
    if len(overall.columns) == 1:
        return f" on {overall.columns[0][0].replace(chr(10), ' ')}"
    return f" over {task_words(len(overall.columns), overall.n_photo_sets)}"


def _smallest(overall: OverallDifference) -> list[str]:
    """What would have been seen, and how to see more."""
    comparison = overall.comparison
    if not math.isfinite(comparison.detectable):
        return []
    least = number(comparison.detectable, overall.score) + _unit(overall.score)
    needed = comparison.spread.units_to_detect(comparison.detectable / 2)
    more = (needed or 0) - comparison.n_units
    noun = f"{overall.noun}s" if comparison.n_units == comparison.n else "units"
    half = number(comparison.detectable / 2, overall.score) + _unit(overall.score)
    halve = f" To detect {half} you would need about {more:,} more {noun}." if more > 0 else ""
    n = counted(comparison.n, overall.noun)
    if comparison.n_units != comparison.n:
        n += f" ({comparison.n_units:,} independent units)"
    return [f"With these {n}, differences below about {least} cannot be detected.{halve}"]


def _task_by_task(compared: RowComparison) -> str:
    a, b = compared.names
    side_text = {"a": f"{a} is better on", "b": f"{b} is better on"}
    parts = [
        f"{side_text.get(side, 'too close to call on')} {_tasks(compared.tasks, side)}"
        for side in ("a", "b", "tie")
        if any(task.verdict == side for task in compared.tasks)
    ]
    return f"Task by task: {'; '.join(parts)}."


def _tasks(tasks: Sequence[ComparedTask], side: str) -> str:
    names = [task.a.heading for task in tasks if task.verdict == side]
    shown = ", ".join(names if len(names) <= FEW + 2 else [*names[: FEW + 1], "..."])
    return f"{len(names)} ({shown})"


# --- the table ---


def _headings(tasks: Sequence[ComparedTask]) -> list[str]:
    level = f"{100 * tasks[0].comparison.level:g} % interval"
    many = ["p, Holm"] if len(tasks) > 1 else []
    draws = ["draws"] if any(task.comparison.n_repeats > 1 for task in tasks) else []
    names = ["task", "A", "B", "A − B", level, "p", *many, "detectable\ndifference", "n", "units"]
    return [*names, *draws, ""]


def _line(task: ComparedTask, names: Sequence[str]) -> list[str]:
    comparison, score = task.comparison, task.a.score
    visible = comparison.detectable
    return [
        f"{task.a.heading} {score.metric} {arrow(score)}",
        _value(task.a.score),
        _value(task.b.score),
        _signed(comparison.difference, score),
        f"[{_signed(comparison.low, score)}, {_signed(comparison.high, score)}]",
        _p(comparison.p),
        *([_p(task.p_corrected)] if "p, Holm" in names else []),
        number(visible, score) if math.isfinite(visible) else MISSING,
        f"{comparison.n:,}",
        f"{comparison.n_units:,}",
        *([f"{comparison.n_repeats:,}"] if "draws" in names else []),
        {"a": "A", "b": "B", "tie": "="}[task.verdict],
    ]


def _value(score: Score) -> str:
    return MISSING if math.isnan(score.value) else number(score.value, score)


def _signed(value: float, score: Score) -> str:
    if math.isnan(value):
        return MISSING
    text = number(abs(value), score)
    is_zero = not any(digit in "123456789" for digit in text)
    return text if is_zero else f"{'+' if value > 0 else '−'}{text}"


def _unit(score: Score) -> str:
    return " points" if score.is_fraction else ""


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _p_words(comparison: Comparison) -> str:
    return "p < 0.001" if comparison.p < 0.001 else f"p = {comparison.p:.3f}"


# --- where they disagree ---


def _where(task: ComparedTask, width: int, is_alone: bool) -> Iterator[str]:
    """Which items and classes make the difference."""
    where = task.where
    if where is None or where.only_a + where.only_b == 0:
        return
    is_drawn = task.comparison.n_repeats > 1
    labels = [f"{side} right more often" if is_drawn else f"only {side} right" for side in "AB"]
    total = where.only_a + where.only_b + where.both + where.neither
    leads = "A is right more often on" if is_drawn else "only A is right on"
    n = counted(total, asked_noun([task.a.run]))
    head = f"{task.a.heading}: of {n}, {leads} {where.only_a:,}, "
    head += f"{'' if is_drawn else 'only '}B on {where.only_b:,}, both are right on "
    head += f"{where.both:,}, neither on {where.neither:,}"
    yield from textwrap.wrap(f"{head}{_classes(where)}", width, subsequent_indent="  ")
    if is_alone:
        for side, ids in zip(labels, (where.examples_a, where.examples_b), strict=True):
            if ids:
                text = f"  {side}, for example: {', '.join(ids)}"
                yield from textwrap.wrap(
                    text, width, subsequent_indent="    ", break_long_words=False
                )


def _classes(where: Disagreement) -> str:
    leads = [
        f"{side} leads on " + ", ".join(f"{name} (+{gain} of {size})" for name, gain, size in gains)
        for side, gains in (("A", where.a_gains), ("B", where.b_gains))
        if gains
    ]
    return "".join(f"; {lead}" for lead in leads)


def _legend(compared: RowComparison, width: int) -> list[str]:
    tasks = compared.tasks
    parts = ["paired on the same n photos"]
    if len(tasks) > 1:
        parts.append("A, B: better after Holm's correction over all tasks, =: too close to call")
    if any(task.comparison.n_repeats > 1 for task in tasks):
        parts.append("draws: how many trainings, or rounds of answers, a score is the mean of")
    parts.append("detectable difference: these photos would show it 4 times in 5")
    parts += dict.fromkeys(task.comparison.method for task in tasks)
    if any(row.outcomes for task in tasks for row in (task.a, task.b)):
        parts.append("missing answers count as wrong")
    n_left_out = sum(task.n_left_out for task in tasks)
    if n_left_out:
        parts.append(f"{n_left_out:,} photos that only one of the two answered are left out")
    if any(max(t.a.n_draws, t.b.n_draws) > t.comparison.n_repeats for t in tasks):
        parts.append("A − B uses the trainings that both have, A and B use all of their own")
    parts += training_notes(compared)
    if len(tasks) > FEW:
        parts.append("fieldmark compare A B --task NAME shows where they disagree")
    return [*([""] * (len(tasks) <= FEW)), *textwrap.wrap(" · ".join(parts), width)]


def training_notes(compared: RowComparison) -> list[str]:
    """What intervals and p know of training samples, where a model has only one."""
    notes = []
    for task in compared.tasks:
        once = [row.name for row in (task.a, task.b) if is_drawn_once(row.runs)]
        if once and task.comparison.n_repeats == 1:
            notes.append(ONE_TRAINING)
        elif once:
            notes.append(
                f"{once[0]} was trained once: its score is assumed to vary with the training "
                "sample as much as the other model's"
            )
    return list(dict.fromkeys(notes))


# --- for programs ---


def plain_comparison(compared: RowComparison) -> dict[str, Any]:
    """What programs read: the overall difference (or null), and one record per task."""
    overall = compared.overall
    return {
        "a": compared.a,
        "b": compared.b,
        "stand_in_a": compared.tasks[0].a.stand_in,
        "stand_in_b": compared.tasks[0].b.stand_in,
        "verdict": " ".join(verdict(compared)).rstrip(),
        "overall": None if overall is None else _plain_overall(overall),
        "tasks": [_plain_task(task) for task in compared.tasks],
    }


def _plain_overall(overall: OverallDifference) -> dict[str, Any]:
    return {
        **_finite(asdict(overall.comparison)),
        "mean_a": overall.mean_a,
        "mean_b": overall.mean_b,
        "verdict": overall.verdict,
        "columns": [list(key) for key in overall.columns],
        "n_photo_sets": overall.n_photo_sets,
        "left_out": list(overall.left_out),
    }


def _plain_task(task: ComparedTask) -> dict[str, Any]:
    fields = asdict(task.comparison) | {
        "score_a": task.a.score.value,
        "score_b": task.b.score.value,
    }
    return {
        "task": task.a.task_name,
        "column": task.a.column,
        "metric": task.a.score.metric,
        "model_a": task.a.model,
        "model_b": task.b.model,
        "setup_a": task.a.setup,
        "setup_b": task.b.setup,
        **_finite(fields),
        "p_corrected": task.p_corrected,
        "verdict": task.verdict,
        "n_left_out": task.n_left_out,
        "disagreement": None if task.where is None else asdict(task.where),
        "run_a": task.a.run.id,
        "run_b": task.b.run.id,
    }


def _finite(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that JSON has."""
    return {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in fields.items()
    }
