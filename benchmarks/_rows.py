"""What does one line of a benchmark table say, and how is the table printed?

Every row names its rival, the bar it should clear, how the answers agree and the memory ours took.
Talk goes to stderr, the table to stdout.
"""

from __future__ import annotations

import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from _quick import finish

HEAD = ("what", "rival", "rival s", "ours s", "ratio", "bar", "agreement", "MB")


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison; times are CPU seconds of one thread unless the row says so."""

    what: str
    rival: str
    rival_s: float
    """NaN where the rival is not run at all"""
    ours_s: float
    agreement: str
    is_equal: bool
    bar: float = 0.0
    """the ratio to reach at this size; 0 for none"""
    scaled: str = ""
    """of what the rival's time was measured, where that is not all of it"""
    most_s: float = 0.0
    """the seconds ours may take, where the bar is a time"""
    memory_mb: float | None = None
    """largest sum of arrays ours held beyond its input"""

    @property
    def ratio(self) -> float:
        return self.rival_s / self.ours_s

    @property
    def verdict(self) -> str:
        """Whether the bar was cleared, and the answers agree."""
        if not self.is_equal:
            return "DIFFERS"
        if (self.bar and self.ratio < self.bar) or (self.most_s and self.ours_s > self.most_s):
            return "below"
        return "ok" if self.bar or self.most_s else "-"

    def cells(self) -> tuple[str, ...]:
        bar = f"≥ {self.bar:.0f}×" if self.bar else f"≤ {self.most_s:g} s" if self.most_s else ""
        return (
            self.what,
            f"{self.rival} (from {self.scaled})" if self.scaled else self.rival,
            _seconds(self.rival_s),
            _seconds(self.ours_s),
            "" if self.ratio != self.ratio else f"{self.ratio:.1f}×",
            f"{bar} {self.verdict}".strip(),
            self.agreement,
            "" if self.memory_mb is None else f"{self.memory_mb:.0f}",
        )


def _seconds(value: float) -> str:
    if value != value:
        return ""
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def note(text: str) -> None:
    """Says on stderr what is being done."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def watched(rows: Iterable[Row], is_quick: bool) -> Iterator[Row]:
    """The rows, each shown on stderr as soon as it is known; toys without their bars."""
    for row in rows:
        kept = replace(row, bar=0.0, most_s=0.0) if is_quick else row
        note("  ".join(cell for cell in kept.cells() if cell))
        yield kept


def show(rows: Iterable[Row]) -> None:
    """The table as Markdown, aligned."""
    table = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(HEAD))]
    table.insert(1, tuple("-" * width for width in widths))
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(f"| {' | '.join(cells)} |", flush=True)


def finish_table(title: str, rows: Sequence[Row], is_quick: bool) -> int:
    """The table, and the last line under it; the exit status is 1 where answers differ, too."""
    show(rows)
    ratios = [row.ratio for row in rows if row.ratio == row.ratio]
    figure = (
        f"{title}: {len(rows)} rows, {min(ratios):.1f} to {max(ratios):.1f} times as fast, "
        f"median {statistics.median(ratios):.1f}"
    )
    differing = [row.what for row in rows if not row.is_equal]
    if differing:
        print(f"{figure}; answers DIFFER: {'; '.join(differing)}")
        return 1
    bars = {row.what: row.verdict == "ok" for row in rows if row.verdict != "-"}
    return finish(figure, bars, is_quick)


def peak_mb(work: Callable[[], Any]) -> float:
    """The largest sum of arrays that the work held at a time, in MB; run apart from timing."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
