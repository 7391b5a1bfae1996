"""Does every probe clear its bar, with the same answers? The whole table in one run.

    python benchmarks/probes.py                      full sizes, with bars
    python benchmarks/probes.py --quick              smaller sizes: ratios are smaller, most bars
                                                     do not apply
    python benchmarks/probes.py --only ridge,svm     some parts

Times are CPU seconds of one process with one BLAS thread on both sides. A rival whose time was
scaled from a part of its work says so in its row. MB: the largest sum of arrays that ours held
beyond its input, measured in a run of its own. Progress goes to stderr, the table to stdout. Exit
status 1 if a bar was missed or answers differ.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import _features  # noqa: F401  (sets one thread before numpy loads)
from _rows import Row, note, show, watched

PARTS = {
    "ridge": "probes_ridge",
    "svm": "probes_svm",
    "exemplar": "probes_exemplar",
    "neighbours": "probes_neighbours",
    "gradient": "probes_gradient",
    "asking": "probes_asking",
    "bootstrap": "probes_bootstrap",
}


def load_rows(module: str) -> Callable[[bool], Iterable[Row]]:
    return importlib.import_module(module).rows  # type: ignore[no-any-return]


def all_rows(parts: list[str], is_quick: bool) -> Iterator[Row]:
    for part in parts:
        began = time.monotonic()
        note(f"— {part}")
        yield from watched(load_rows(PARTS[part])(is_quick))
        note(f"— {part}: {time.monotonic() - began:.0f} s by the clock")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under 5 minutes")
    parser.add_argument("--only", default="", help=f"some of {','.join(PARTS)}")
    given = parser.parse_args()
    here = Path(__file__).parent
    present = [part for part, module in PARTS.items() if (here / f"{module}.py").exists()]
    asked = given.only.split(",") if given.only else present
    unknown = [part for part in asked if part not in present]
    if unknown:
        parser.error(f"--only {','.join(unknown)} is not known: expected {','.join(present)}.")
    began, found = time.monotonic(), list[Row]()
    try:
        for row in all_rows(asked, given.quick):
            found.append(row)
    finally:
        size = "quick: reduced sizes" if given.quick else "full sizes"
        print(f"probes, {size}; {platform.machine()}, one thread, CPU seconds\n")
        show(found)
    missed = [row.what for row in found if row.verdict in ("below", "DIFFERS")]
    minutes = (time.monotonic() - began) / 60
    print(f"\n{len(found)} rows in {minutes:.1f} minutes; missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
