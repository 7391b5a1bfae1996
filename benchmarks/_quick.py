"""Smoke runs: `--quick` takes a benchmark through all of its code at toy size, and judges nothing.

Every script of this folder has the flag, prints its figure last and ends with `finish`. The slow
tests run them all (`tests/test_benchmarks.py`), so that none stops working unnoticed. Answers that
must agree are compared in quick runs too; bars (times, rates, memory) are for full sizes only.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any


class Flags(argparse.ArgumentParser):
    """The command line of a benchmark, described by the first line of its file."""

    def __init__(self, doc: str | None) -> None:
        super().__init__(description=(doc or "").partition("\n")[0])
        self.add_argument("--quick", action="store_true", help="toy sizes, seconds, no bars")

    def parse(self, **toy: Any) -> argparse.Namespace:
        """What was given; with `--quick`, flags left out have these values."""
        if self.parse_known_args()[0].quick:
            self.set_defaults(**toy)
        return self.parse_args()


def finish(figure: str, bars: Mapping[str, bool], is_quick: bool) -> int:
    """Prints the last line, and whether each bar is cleared; the exit status says it too."""
    if is_quick:
        print(f"{figure} (quick: toy sizes, no bars)", flush=True)
        return 0
    missed = [bar for bar, is_cleared in bars.items() if not is_cleared]
    cleared = [bar for bar in bars if bar not in missed]
    verdicts = {"bars cleared": cleared, "MISSED": missed}
    shown = [f"; {verdict}: {', '.join(some)}" for verdict, some in verdicts.items() if some]
    print(figure, *shown, sep="", flush=True)
    return 1 if missed else 0


def skip(reason: str) -> int:
    """Says why nothing can be measured here."""
    print(f"skipped: {reason}", flush=True)
    return 0
