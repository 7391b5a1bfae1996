"""Comparison as text: how are two models compared, for a person and for programs?

The decision first, then the numbers behind it: difference with its interval, p second, and the
smallest difference these items could have shown.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fieldmark.report.compare.models import ComparedTask, Disagreement, counts
from fieldmark.report.table.layout import MISSING, align, arrow, number
from fieldmark.store import Score

FEW = 5
"""questions, up to which is told where the models disagree"""
_NUMBERS = ("A", "B", "A − B", "95 % interval", "p", "p, Holm", "visible from", "n", "units")


def comparison_text(questions: Sequence[ComparedTask], width: int = 80) -> str:
    """The whole answer."""
    a, b = questions[0].a.model, questions[0].b.model
    lines = [f"A  {a}", f"B  {b}", ""]
    lines += align(
        [_named(name, questions) for name in _headings(questions)],
        _body(questions),
        right=[_named(name, questions) for name in _NUMBERS],
    )
    lines += ["", *textwrap.wrap(verdict(questions), width), ""]
    shown = questions if len(questions) <= FEW else []
    lines += [line for question in shown for line in _where(question, width, len(questions) == 1)]
    return "\n".join([*lines, *_legend(questions, width)])


def verdict(questions: Sequence[ComparedTask]) -> str:
    """The decision in a sentence or two."""
    a, b = questions[0].a.model, questions[0].b.model
    n = counts(questions)
    ties = [question for question in questions if question.verdict == "tie"]
    if len(ties) == len(questions):
        return f"These items cannot tell {a} from {b}. {_smallest(ties)}".strip()
    if len(questions) == 1:
        best, other = (a, b) if n["a"] else (b, a)
        return f"Use {best}: it is better than {other} here ({_difference(questions[0])})."
    sentences = [
        f"{side} is better on {_tasks(questions, key)}"
        for side, key in ((a, "a"), (b, "b"))
        if n[key]
    ]
    sentences += [f"no difference can be seen on {_tasks(questions, 'tie')}"] if ties else []
    return "; ".join(sentences) + "."


def _smallest(ties: Sequence[ComparedTask]) -> str:
    """What would have been seen, and how to see more."""
    if len(ties) > 1 or not math.isfinite(ties[0].comparison.detectable):
        return ""
    (only,) = ties
    least = _points(only.comparison.detectable, only.a.score)
    needed = only.comparison.spread.units_to_detect(only.comparison.detectable / 2)
    more = (needed or 0) - only.comparison.n_units
    halve = f"; {more:,} more units like these would halve that" if more > 0 else ""
    return f"The smallest difference visible with them is {least}{halve}."


def _difference(question: ComparedTask) -> str:
    comparison, score = question.comparison, question.a.score
    span = f"{_signed(comparison.low, score)} to {_signed(comparison.high, score)}"
    level = f"{100 * comparison.level:g} % interval"
    return f"difference {_signed(comparison.difference, score)}, {level} {span}"


def _tasks(questions: Sequence[ComparedTask], side: str) -> str:
    names = [question.a.run.spec.task_name for question in questions if question.verdict == side]
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return f"{len(names)} task{'s' * (len(names) > 1)} ({shown})"


def _headings(questions: Sequence[ComparedTask]) -> list[str]:
    many = ["p, Holm"] if len(questions) > 1 else []
    return [
        "task",
        "A",
        "B",
        "A − B",
        "95 % interval",
        "p",
        *many,
        "visible from",
        "n",
        "units",
        "",
    ]


def _named(heading: str, questions: Sequence[ComparedTask]) -> str:
    level = questions[0].comparison.level
    return f"{100 * level:g} % interval" if heading == "95 % interval" else heading


def _body(questions: Sequence[ComparedTask]) -> list[list[str]]:
    return [_line(question, is_alone=len(questions) == 1) for question in questions]


def _line(question: ComparedTask, is_alone: bool) -> list[str]:
    comparison, score = question.comparison, question.a.score
    sign = {"a": "A", "b": "B", "tie": "="}[question.verdict]
    corrected = [] if is_alone else [_p(question.p_corrected)]
    return [
        f"{question.a.heading} {score.metric} {arrow(score)}",
        _value(question.a.score),
        _value(question.b.score),
        _signed(comparison.difference, score),
        f"[{_signed(comparison.low, score)}, {_signed(comparison.high, score)}]",
        _p(comparison.p),
        *corrected,
        number(comparison.detectable, score) if math.isfinite(comparison.detectable) else MISSING,
        f"{comparison.n:,}",
        f"{comparison.n_units:,}",
        sign,
    ]


def _value(score: Score) -> str:
    return MISSING if math.isnan(score.value) else number(score.value, score)


def _signed(value: float, score: Score) -> str:
    if math.isnan(value):
        return MISSING
    text = number(abs(value), score)
    is_zero = not any(digit in "123456789" for digit in text)
    return text if is_zero else f"{'+' if value > 0 else '−'}{text}"


def _points(value: float, score: Score) -> str:
    return f"{number(value, score)} points" if score.is_fraction else number(value, score)


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _where(question: ComparedTask, width: int, is_alone: bool) -> Iterator[str]:
    """Which items and classes make the difference."""
    where = question.where
    if where is None or where.only_a + where.only_b == 0:
        return
    head = f"{question.a.run.spec.task_name}: only A right {where.only_a:,}, only B right "
    head += f"{where.only_b:,}, both {where.both:,}, neither {where.neither:,}"
    yield from textwrap.wrap(f"{head}{_classes(where)}", width, subsequent_indent="  ")
    if is_alone:
        for side, ids in (("A", where.examples_a), ("B", where.examples_b)):
            if ids:
                yield f"  only {side} right, for example: {', '.join(ids)}"


def _classes(where: Disagreement) -> str:
    leads = [
        f"{side} leads on " + ", ".join(f"{name} (+{gain} of {size})" for name, gain, size in gains)
        for side, gains in (("A", where.a_gains), ("B", where.b_gains))
        if gains
    ]
    return "".join(f"; {lead}" for lead in leads)


def _legend(questions: Sequence[ComparedTask], width: int) -> list[str]:
    methods = list(dict.fromkeys(question.comparison.method for question in questions))
    parts = [
        "paired on the same items",
        "visible from: the smallest difference these items would show 4 times in 5",
        *methods,
    ]
    if len(questions) > 1:
        parts.insert(
            1, "A, B: better after Holm's correction over all rows, =: cannot be told apart"
        )
    n_unanswered = sum(question.n_unanswered for question in questions)
    if n_unanswered:
        parts.append(f"{n_unanswered:,} items that one of the two did not answer are left out")
    if len(questions) > FEW:
        parts.append("fieldmark compare A B --task NAME shows where they disagree")
    return [*([""] * (len(questions) <= FEW)), *textwrap.wrap(" · ".join(parts), width)]


def plain_comparison(question: ComparedTask) -> Mapping[str, Any]:
    """What programs read: flat JSON values."""
    facts = asdict(question.comparison) | {
        "score_a": question.a.score.value,
        "score_b": question.b.score.value,
    }
    return {
        "task": question.a.run.spec.task_name,
        "column": question.a.column,
        "metric": question.a.score.metric,
        "model_a": question.a.model,
        "model_b": question.b.model,
        **{
            k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in facts.items()
        },
        "p_corrected": question.p_corrected,
        "verdict": question.verdict,
        "n_unanswered": question.n_unanswered,
        "disagreement": None if question.where is None else asdict(question.where),
        "run_a": question.a.run.id,
        "run_b": question.b.run.id,
    }
