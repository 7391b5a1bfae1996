"""Precision and recall of a sentence filter: does it keep what is visible, and nothing else?

A labelled file is a CSV with `sentence` and `visible` (0 or 1), and perhaps `group`, `split` and
`note`. The one that ships was written and labelled for this project; its guideline is beside it.
A sentence that a filter could not decide (a request that failed) counts neither way and is told.

Precision and recall are shares, with Wilson's interval. F1 = 2TP / (2TP + FP + FN) is none, but
J = TP / (TP + FP + FN) is, and F1 = 2J / (1 + J) rises with it: so the limits of J give those of
F1. That a sentence which is kept, visible or both is a hit has probability J, given how many such
sentences there are; so the interval is one of a binomial share.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.errors import DataError
from fieldmark.stats import Interval, wilson

SHIPPED = Path(__file__).with_name("labelled.csv")
Keep = Callable[[Sequence[str]], Sequence[bool | None]]
"""which of these sentences are kept; None = could not be decided"""


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    sentence: str
    is_visible: bool
    group: str = ""
    split: str = ""
    note: str = ""


_Decision = tuple[LabelledSentence, bool | None]


@dataclass(frozen=True, slots=True)
class FilterFigures:
    """How often a filter is right about some sentences."""

    n_true_kept: int
    """visible and kept"""
    n_false_kept: int
    n_missed: int
    """visible and not kept"""
    n_true_left: int
    n_undecided: int = 0

    @property
    def n(self) -> int:
        return self.n_true_kept + self.n_false_kept + self.n_missed + self.n_true_left

    @property
    def n_visible(self) -> int:
        return self.n_true_kept + self.n_missed

    @property
    def precision(self) -> float:
        return _share(self.n_true_kept, self.n_true_kept + self.n_false_kept)

    @property
    def recall(self) -> float:
        return _share(self.n_true_kept, self.n_visible)

    @property
    def f1(self) -> float:
        wrong = self.n_false_kept + self.n_missed
        return _share(2 * self.n_true_kept, 2 * self.n_true_kept + wrong)

    @property
    def precision_interval(self) -> Interval:
        return wilson(self.n_true_kept, self.n_true_kept + self.n_false_kept)

    @property
    def recall_interval(self) -> Interval:
        return wilson(self.n_true_kept, self.n_visible)

    @property
    def f1_interval(self) -> Interval:
        n = self.n_true_kept + self.n_false_kept + self.n_missed
        limits = wilson(self.n_true_kept, n)
        low, high = (2 * share / (1 + share) for share in (limits.low, limits.high))
        return Interval(low, high, "wilson", n, n)

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        limits = {name: getattr(self, f"{name}_interval") for name in ("precision", "recall", "f1")}
        return {
            "n": self.n,
            "n_visible": self.n_visible,
            "n_undecided": self.n_undecided,
            "n_false_kept": self.n_false_kept,
            "n_missed": self.n_missed,
            **{
                name: {"value": getattr(self, name), "low": end.low, "high": end.high}
                for name, end in limits.items()
            },
        }


def _share(hits: int, n: int) -> float:
    return hits / n if n else float("nan")


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """What a labelled set says of a filter."""

    overall: FilterFigures
    by_split: dict[str, FilterFigures]
    """rules may have been written with one split in view: the other one counts"""
    by_group: dict[str, FilterFigures]
    false_kept: tuple[LabelledSentence, ...]
    missed: tuple[LabelledSentence, ...]
    undecided: tuple[LabelledSentence, ...] = ()

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.overall.facts(),
            "splits": {split: figures.facts() for split, figures in self.by_split.items()},
            "groups": {group: figures.facts() for group, figures in self.by_group.items()},
            "false_kept": [row.sentence for row in self.false_kept],
            "missed": [row.sentence for row in self.missed],
            "undecided": [row.sentence for row in self.undecided],
        }


def read_labelled(path: Path) -> list[LabelledSentence]:
    """The sentences of a labelled file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file)
            columns = lines.fieldnames or ()
            for name in ("sentence", "visible"):
                if name not in columns:
                    raise DataError(
                        f"{path}:1  has no column {name!r}: expected sentence, visible (0 or 1) "
                        "and, if wanted, group, split, note."
                    )
            rows = [_labelled(path, lines.line_num, line) for line in lines]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}  cannot be read as a labelled file: {reason}.") from None
    if not rows:
        raise DataError(f"{path}  has no sentences.")
    return rows


def _labelled(path: Path, number: int, line: dict[str, str | None]) -> LabelledSentence:
    sentence, visible = (line["sentence"] or "").strip(), (line["visible"] or "").strip()
    if not sentence:
        raise DataError(f"{path}:{number}  has no sentence.")
    if visible not in ("0", "1"):
        raise DataError(f"{path}:{number}  visible is {visible!r}, expected 0 or 1.")
    more = ((line.get(name) or "").strip() for name in ("group", "split", "note"))
    return LabelledSentence(sentence, visible == "1", *more)


def judge(rows: Iterable[LabelledSentence], keep: Keep) -> JudgeReport:
    """Holds a filter against labels. It is given all sentences at once and no label."""
    rows = list(rows)
    kept = list(keep([row.sentence for row in rows]))
    if len(kept) != len(rows):
        raise ValueError(f"the filter decided {len(kept)} of {len(rows)} sentences.")
    pairs = list(zip(rows, kept, strict=True))
    return JudgeReport(
        _figures(pairs),
        _figures_by(pairs, lambda row: row.split),
        _figures_by(pairs, lambda row: row.group),
        tuple(row for row, is_kept in pairs if is_kept and not row.is_visible),
        tuple(row for row, is_kept in pairs if is_kept is False and row.is_visible),
        tuple(row for row, is_kept in pairs if is_kept is None),
    )


def _figures_by(
    pairs: Sequence[_Decision], part_of: Callable[[LabelledSentence], str]
) -> dict[str, FilterFigures]:
    parts: dict[str, list[_Decision]] = {}
    for pair in pairs:
        parts.setdefault(part_of(pair[0]), []).append(pair)
    return {name: _figures(parts[name]) for name in sorted(parts) if name}


def _figures(pairs: Sequence[_Decision]) -> FilterFigures:
    def count(is_kept: bool, is_visible: bool) -> int:
        return sum(kept is is_kept and row.is_visible is is_visible for row, kept in pairs)

    undecided = sum(kept is None for _, kept in pairs)
    return FilterFigures(
        count(True, True), count(True, False), count(False, True), count(False, False), undecided
    )


def format_report(report: JudgeReport, title: str = "", n_wrong: int = 20) -> str:
    """The report for a person, with at most so many of the wrong sentences of either kind."""
    lines = _summary(f"{title}: " if title else "", report.overall)
    for split, figures in report.by_split.items():
        lines += _summary(f"split {split}: ", figures)
    if report.by_group:
        lines.append(f"  {'group':<16}{'n':>5}  {'visible':>7}  precision  recall      F1")
    for group, figures in report.by_group.items():
        shares = (figures.precision, figures.recall, figures.f1)
        precision, recall, f1 = (_percent(value) for value in shares)
        lines.append(
            f"  {group:<16}{figures.n:>5}  {figures.n_visible:>7}  {precision:>9}{recall:>8}{f1:>8}"
        )
    lines += _wrong("kept, though nothing is visible", report.false_kept, n_wrong)
    lines += _wrong("left out, though visible", report.missed, n_wrong)
    return "\n".join(lines)


def _summary(title: str, figures: FilterFigures) -> list[str]:
    undecided = f", {figures.n_undecided:,} undecided" if figures.n_undecided else ""
    facts = figures.facts()
    shares = {"precision": facts["precision"], "recall": facts["recall"], "F1": facts["f1"]}
    return [
        f"{title}{figures.n:,} sentences, {figures.n_visible:,} visible{undecided}",
        *(
            f"  {name:<10}{_percent(share['value'])}  95 % interval {_percent(share['low'])} to "
            f"{_percent(share['high'])}"
            for name, share in shares.items()
        ),
    ]


def _percent(share: float) -> str:
    return "–" if share != share else f"{100 * share:.1f} %"


def _wrong(title: str, rows: Sequence[LabelledSentence], most: int) -> list[str]:
    """Those of split test stay unseen: who reads them tunes a filter to them."""
    rows = [row for row in rows if row.split != "test"]
    if not rows or not most:
        return []
    more = f" (the first {most})" if len(rows) > most else ""
    return [f"{title}: {len(rows):,}{more}", *(f"  {row.sentence}" for row in rows[:most])]
