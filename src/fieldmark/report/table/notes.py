"""Notes under a table: what did fits choose, how true are probabilities, which images are left out?

Read from what the parts of a run noted; a run of another kind noted nothing, and nothing is said of
it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from fieldmark.report.chance import by_position, position_words
from fieldmark.report.rows import Row
from fieldmark.store import (
    PartRecord,
    Store,
    bad_images,
    fewer_examples,
    fit_summary,
    mean_calibration,
)

MOST_NAMED = 3
"""images named in a line; programs get them all"""


def fit_lines(store: Store, rows: Sequence[Row], width: int = 80) -> list[str]:
    """For a table: what each run chose, a line each, and which images were left out."""
    fits, by_letter, lost = [], [], dict[str, None]()
    for run, row in {row.run.id: row for row in rows}.items():
        lines, images = run_lines(store.finished_parts(run), row.run.spec.n_train)
        shares = position_words(by_position(store, row.run))
        if shares:
            by_letter.append(f"{row.name}, {row.heading}: {shares}")
        if lines:
            fits.append(f"{row.name}, {row.heading}: {'; '.join(lines)}")
        if images:  # the same for every model, as a rule
            lost[f"{row.heading}: {images}"] = None
    return [
        *_block("notes of the runs:", fits, width),
        *_block("right answers by position of the right option:", by_letter, width),
        *_block("left out because they cannot be read (--json names all):", lost, width),
    ]


def run_lines(parts: Sequence[PartRecord], n_train: int | None = None) -> tuple[list[str], str]:
    """What the fits chose and what is to know of it, a line each; and what was left out, or ""."""
    fit, bad, trust = fit_summary(parts), bad_images(parts), mean_calibration(parts)
    trusted = "calibration error {ece:.3f}, log loss {nll:.3g}".format(**trust) if trust else ""
    named = "; ".join(f"{image} ({why})" for image, why in list(bad.items())[:MOST_NAMED])
    more = "; ..." if len(bad) > MOST_NAMED else ""
    images = "image" if len(bad) == 1 else "images"
    lost = f"{len(bad):,} {images}: {named}{more}" if bad else ""
    fewer, cost = fewer_examples(parts, n_train), _cost_line(parts)
    return [line for line in (fit.line, trusted, cost, fewer, *fit.note_lines) if line], lost


def _cost_line(parts: Sequence[PartRecord]) -> str:
    """What the answers of a run cost, where that is known; the first repeat tells of all."""
    from fieldmark.chat import dollars

    infos = [part.info or {} for part in parts if part.repeat == 0]
    paid = [info for info in infos if "n_answers" in info]
    usd = [info.get("usd") for info in paid]
    n = sum(info["n_answers"] for info in paid)
    known = [value for value in usd if value is not None]
    if not n or not sum(known) or len(known) < len(usd):
        return ""
    return f"cost {dollars(sum(known))} for {n:,} answers"


def plain_fits(store: Store, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For programs, of each row: `fit` and `calibration` (of its part, if it has one), and all of
    `bad_images`.
    """
    parts = {
        row.run.id: [part for run in row.runs for part in store.finished_parts(run.id)]
        for row in rows
    }
    return [
        _plain(parts[row.run.id], row.score.part) | {"by_position": by_position(store, row.run)}
        for row in rows
    ]


def _plain(parts: Sequence[PartRecord], part: str) -> dict[str, Any]:
    part_records = [record for record in parts if part in ("", record.part)]
    notes = {"fit": fit_summary(part_records).plain(), "bad_images": bad_images(part_records)}
    return notes | {"calibration": mean_calibration(part_records) or None}


def _block(heading: str, lines: Iterable[str], width: int) -> list[str]:
    wrapped = [
        text
        for line in lines
        for text in textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")
    ]
    return [heading, *wrapped] if wrapped else []
