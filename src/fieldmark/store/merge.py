"""Merging databases (sharding): how do the runs of other results files get into this one?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from fieldmark.store.records import PartResult, Predictions
from fieldmark.store.store import Store


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What merging brought into the store."""

    n_runs: int = 0
    """runs that entered, in whatever state"""
    n_parts: int = 0
    n_rows: int = 0
    """predictions"""
    n_before: int = 0
    """runs that stay as they were in the store"""
    faults: tuple[tuple[Path, str], ...] = ()
    """files that could not be read, and why, in one line: nothing of them is in the store"""


def merge_shards(
    main: Store, shards: Sequence[Path], replace_keys: Collection[str] = ()
) -> MergeCounts:
    """Takes the runs of these files into `main`; a file that is not there holds none."""
    n_runs = n_parts = n_rows = n_before = 0
    for shard in shards:
        with Store.open(shard, read_only=True) as source:
            for run in source.runs():
                if main.is_done(run.key) and run.key not in replace_keys:
                    n_before += 1
                    continue
                record = source.record(run.id)
                number = main.begin_run(run.spec, record, run.fingerprint, run.root, again=True)
                n_runs += 1
                for part in source.finished_parts(run.id):
                    rows = source.predictions(run.id, part.part)
                    rows = rows.filter(rows["repeat"] == part.repeat)
                    columns = [rows[name] for name in ("id", "target", "prediction", "score")]
                    more = [rows[name] for name in ("unit", "outcome", "info", "content")]
                    answers = Predictions(*columns, *more)
                    facts = (part.part, part.repeat, part.n_train, part.seconds, part.info)
                    main.write_part(number, PartResult(answers, *facts))
                    n_parts, n_rows = n_parts + 1, n_rows + part.n_items
                if run.state == "done":
                    main.finish_run(number, source.scores()[run.id])
                elif run.state == "failed":
                    main.fail_run(number, run.error or "")
    return MergeCounts(n_runs, n_parts, n_rows, n_before)


def adopt_shard(own: Store, earlier: Path) -> None:
    """Takes over what an earlier attempt at the same work holds, done and partly done."""
    merge_shards(own, [earlier])
