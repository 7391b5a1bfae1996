"""Does every probe clear its bar, with the same answers? The whole table in one run.

    python benchmarks/probes.py                      full sizes, with bars
    python benchmarks/probes.py --only ridge,svm     some parts, each a file of `_probes`
    python benchmarks/probes.py --quick              toy sizes, no bars

Times are CPU seconds of one process with one BLAS thread on both sides. A rival whose time was
scaled from a part of its work says so in its row. MB: the largest sum of arrays that ours held
beyond its input, measured in a run of its own. Progress goes to stderr, the table to stdout. Exit
status 1 if a bar was missed or answers differ.
"""

from __future__ import annotations

import importlib
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import _features  # noqa: F401  (sets one thread before numpy loads)
from _quick import Flags
from _rows import Row, finish_table, note, watched

PARTS = ("ridge", "svm", "exemplar", "neighbours", "gradient", "asking", "kinds")


def load_rows(part: str) -> Callable[[bool], Iterable[Row]]:
    return importlib.import_module(f"_probes.{part}").rows  # type: ignore[no-any-return]


def all_rows(parts: list[str], is_quick: bool) -> Iterator[Row]:
    for part in parts:
        began = time.monotonic()
        note(f"— {part}")
        yield from watched(load_rows(part)(is_quick), is_quick)
        note(f"— {part}: {time.monotonic() - began:.0f} s by the clock")


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    given = flags.parse()
    asked = given.only.split(",")
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        flags.error(f"--only {','.join(unknown)} is not known: expected {','.join(PARTS)}.")
    rows = list(all_rows(asked, given.quick))
    print(f"probes; {platform.machine()}, one thread, CPU seconds\n")
    return finish_table("probes", rows, given.quick)


if __name__ == "__main__":
    sys.exit(main())
