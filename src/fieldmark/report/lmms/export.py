"""Results and samples files of lmms-eval and LM Evaluation Harness, for their viewers.

A folder per model: `<date>_results.json` with all tasks that were asked in one way, and a
`<date>_samples_<task>.jsonl` for each. The date is that of the last run, so the same store gives
the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.report.lmms.results import Scores, results_of
from fieldmark.report.lmms.samples import samples
from fieldmark.store import Run, Score, Store

if TYPE_CHECKING:
    from fieldmark.report.export import Chosen

HAS_PREDICTIONS = True


def export(chosen: Chosen) -> Iterator[tuple[str, Iterator[bytes]]]:
    scores: dict[int, list[Score]] = {}
    for row in chosen.rows:
        scores.setdefault(row.run.id, []).extend([] if row.score.part else [row.score])
    taken: set[str] = set()
    for runs in _sheets(chosen.runs()):
        folder, date = chosen.file_name(runs[0].spec.model), _date(runs)
        while f"{folder}/{date}" in taken:
            date = _later(date)
        taken.add(f"{folder}/{date}")
        yield f"{folder}/{date}_results.json", _results(chosen, runs, scores, date)
        for name, run in zip(_file_names(chosen, runs), runs, strict=True):
            yield f"{folder}/{date}_samples_{name}.jsonl", _lines(chosen.store, run)


def _results(chosen: Chosen, runs: Sequence[Run], scores: Scores, date: str) -> Iterator[bytes]:
    found = results_of(chosen, runs, scores, date)
    yield f"{json.dumps(found, indent=2, ensure_ascii=False)}\n".encode()


def _sheets(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that make one results file: of one model, asked in one way, each task once.

    The newest of each task stand together, as members of a group must, then those before them.
    """
    sheets: dict[tuple[Any, ...], list[dict[str, Run]]] = {}
    for run in sorted(runs, key=lambda run: (run.finished or "", run.id), reverse=True):
        spec, name = run.spec, run.spec.task_name
        way = (spec.model, spec.model_version, spec.protocol, spec.n_test, spec.seed, spec.repeats)
        mine = sheets.setdefault(way, [])
        free = next((sheet for sheet in mine if name not in sheet), None)
        if free is None:
            mine.append(free := {})
        free[name] = run
    found = [sheet for mine in sheets.values() for sheet in mine]
    return [[run for _, run in sorted(sheet.items())] for sheet in found]


def _date(runs: Sequence[Run]) -> str:
    """As both suites write it in names: colons would not do on every file system."""
    last = max(run.finished or run.started for run in runs)
    return f"{last.removesuffix('Z').replace(':', '-')}.000000"


def _later(date: str) -> str:
    """
    >>> _later("2026-11-15T09-00-00.000009")
    '2026-11-15T09-00-00.000010'
    """
    second, _, micro = date.rpartition(".")
    return f"{second}.{int(micro) + 1:06d}"


def _file_names(chosen: Chosen, runs: Sequence[Run]) -> list[str]:
    """Of the tasks; two that a file system cannot tell apart get a hash."""
    tasks = [run.spec.task_name for run in runs]
    names = [chosen.file_name(task) for task in tasks]
    return [
        name if names.count(name) == 1 else f"{name}-{draws.digest(task).hex()[:8]}"
        for name, task in zip(names, tasks, strict=True)
    ]


def _lines(store: Store, run: Run) -> Iterator[bytes]:
    for line in samples(store, run):
        yield f"{json.dumps(line, ensure_ascii=False)}\n".encode()
