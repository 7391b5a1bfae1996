"""Chance lines: where do guessing, and always giving the most common label, lie on a score axis?

Drawn dashed, with their names. A level far below all scores would squeeze these, so it is told in
words, unless rows on one axis chose among different numbers of answers: then it must be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fieldmark.charts import QUIET
from fieldmark.report.chance import LIKE
from fieldmark.report.plots._panel import Results, Spec, rounded
from fieldmark.report.rows import Row

EASIER = (
    "Models that choose among few options have an easier question than those that choose among all "
    "classes"
)
APART = 0.5
"""points below which the most common label has no line of its own beside that of guessing"""


@dataclass(frozen=True, slots=True)
class ChanceLines:
    """The levels of one panel, lowest first."""

    drawn: tuple[tuple[float, str], ...] = ()
    """where on the axis, and what it is called"""
    far: tuple[str, ...] = ()
    """those that are too far away"""
    is_mixed: bool = False
    """did rows choose among different numbers of answers?"""


def chance_lines(results: Results, rows: Sequence[Row]) -> ChanceLines:
    """The levels of rows on one axis."""
    scale = rows[0].score.scale
    unit = " %" if rows[0].score.is_fraction else ""
    chance_of = {row.chance.among: scale * row.chance.value for row in rows if row.chance}
    is_mixed = max(chance_of.values(), default=0.0) > LIKE * min(chance_of.values(), default=0.0)
    if chance_of and not is_mixed:
        chance_of = dict([min(chance_of.items(), key=lambda level: level[1])])
    levels = {f"{among}: chance {value:.1f}{unit}": value for among, value in chance_of.items()}
    columns = results.table.study.columns if results.table.study else {}
    studied = [columns[row.column_key] for row in rows if row.column_key in columns]
    blind = next((column.blind for column in studied if column.blind is not None), None)
    if blind is not None and all(
        abs(scale * blind - value) > APART for value in chance_of.values()
    ):
        levels[f"most common label: {scale * blind:.1f}{unit}"] = scale * blind
    ordered = sorted((value, label) for label, value in levels.items())
    if is_mixed:
        return ChanceLines(tuple(ordered), is_mixed=True)
    ends = [scale * end for row in rows for end in _ends(row)]
    reach = min(ends) - max(max(ends) - min(ends), 1e-9)
    drawn = [(value, label) for value, label in ordered if value >= reach]
    far = tuple(label for value, label in ordered if value < reach)
    return ChanceLines(tuple(drawn), far)


def _ends(row: Row) -> list[float]:
    score = row.score
    return [end for end in (score.value, score.low, score.high) if end is not None]


def chance_words(panels: Sequence[ChanceLines]) -> list[str]:
    """The sentences under a figure's title."""
    far = list(dict.fromkeys(label for lines in panels for label in lines.far))
    return [
        f"{EASIER}: compare each with its own chance line."
        if any(lines.is_mixed for lines in panels)
        else "",
        "Grey dashes: the scores of guessing, and of always giving the most common label."
        if any(lines.drawn for lines in panels)
        else "",
        f"Below the axis: {'; '.join(far)}." if far else "",
    ]


def upright(lines: ChanceLines, x: Spec, most: int = 0) -> list[Spec]:
    """Layers for a panel whose scores go to the right; names stand above, one over the other. They
    take as much room as `most` names, so that the titles of panels side by side are in line.
    """
    values = [{"score": rounded(value), "text": label} for value, label in lines.drawn]
    if not values:
        return []
    room = {**_NAME, "dy": -5 - 11 * (most - 1), "opacity": 0, "text": "x"}
    return [
        *(
            [{"mark": room, "encoding": {"y": {"value": 0}, "x": {"value": 0}}}]
            * (most > len(values))
        ),
        {"data": {"values": values}, "mark": DASHED, "encoding": {"x": x}},
        *(
            {
                "data": {"values": [value]},
                "mark": {**_NAME, "dy": -5 - 11 * (len(values) - 1 - row)},
                "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "text"}},
            }
            for row, value in enumerate(values)
        ),
    ]


DASHED = {"type": "rule", "strokeDash": [2, 3], "strokeWidth": 1, "color": QUIET}
_NAME = {"type": "text", "align": "left", "color": QUIET, "fontSize": 8.5}
