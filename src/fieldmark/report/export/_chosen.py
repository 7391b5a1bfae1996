"""Runs chosen for an export: which scores and predictions, and in which plain form?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from fieldmark import draws
from fieldmark.report.facts import TaskFacts, task_facts
from fieldmark.report.rows import (
    RATES,
    Row,
    Table,
    current_runs,
    join_runs,
    read_table,
    superseded_note,
)
from fieldmark.report.table.text import plain_rows
from fieldmark.store import Run, RunFilter, Store, decode_noted, nothing_stored
from fieldmark.words import marked_task

if TYPE_CHECKING:
    import polars as pl


OF_TABLES = (
    "model_label", "setup", "runs", "column", "is_counted", "tier", "chance",
    "chance_among", "majority", "is_best_told_from_majority", "is_tied_with_best",
    "answered_rate", "among_answered", *RATES, "n_failed", "n_refused", "n_length", "n_unparsed",
)  # fmt: skip
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
LONGEST = 120
"""bytes of a file's name, which leaves room for endings on every file system"""


class ExportFile(NamedTuple):
    """One file of an export."""

    name: str
    """relative; folders are made"""
    chunks: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The runs asked for with all their scores, and the open store they came from."""

    store: Store
    rows: tuple[Row, ...]
    """one per score: every metric, the whole run first, then its parts"""
    joined: tuple[Row, ...] = ()
    """one per score of several seeds together, as tables show it"""
    has_predictions: bool = False
    source: str = ""
    """where the full results can be seen"""
    left_out: list[str] = field(default_factory=list)
    """what the format could not say, one line each; formats add to it"""

    def runs(self) -> list[Run]:
        return list({row.run.id: row.run for row in self.rows}.values())

    def tasks(self) -> dict[str, TaskFacts]:
        """What is known of each task, by its column; one record is read for each."""
        run_of = {row.column: row.run for row in reversed(self.rows)}
        return {name: self._facts(name, run) for name, run in run_of.items()}

    def _facts(self, name: str, run: Run) -> TaskFacts:
        facts = task_facts(self.store, run, from_file=False)
        title, dataset = facts.title or name, facts.dataset or run.spec.task
        return replace(facts, name=name, title=title, dataset=dataset)

    @staticmethod
    def file_name(text: str) -> str:
        """A name that every file system takes.

        >>> Chosen.file_name("open-clip/hf-hub:imageomics/bioclip-2")
        'open-clip_hf-hub_imageomics_bioclip-2'
        """
        kept = "".join(letter if letter.isalnum() or letter in "-._@+=" else "_" for letter in text)
        kept = kept.strip(". ") or "_"
        if len(kept.encode()) <= LONGEST:
            return kept
        start = kept.encode()[: LONGEST - 9].decode(errors="ignore")
        return f"{start}-{draws.digest(text).hex()[:8]}"

    def real_models(self) -> dict[str, list[Row]]:
        """Those for pages that are about models: stand-ins are left out, and named."""
        every = self.models()
        marked = [model for model, rows in every.items() if rows[0].stand_in]
        if marked:
            self.left_out.append(f"stand-ins, which are not models: {', '.join(marked)}")
        return {model: rows for model, rows in every.items() if model not in marked}

    def models(self) -> dict[str, list[Row]]:
        """The rows of each model, by name; two versions are two models."""
        models: dict[str, list[Row]] = {}
        for row in sorted(self.rows, key=lambda row: row.model):
            models.setdefault(row.model, []).append(row)
        return models


def choose(
    store: Store,
    where: RunFilter | None = None,
    has_predictions: bool = False,
    source: str = "",
) -> Chosen:
    """All scores of the finished runs asked for; DataError where there are none."""
    # Checks names; the scores are read below.
    shown = read_table(store, where, compare=False, by_run=True).rows
    scores = store.scores(where or RunFilter())
    names = {row.run.id: row for row in shown}
    rows = [
        Row(
            row.run, score, row.model, marked_task(row.task_name, row.is_synthetic),
            row.data, row.is_counted, task=row.task, fewer=row.fewer,
        )
        for row in names.values()
        for score in scores[row.run.id]
    ]  # fmt: skip
    if not rows:
        raise nothing_stored(store.path)
    whole = [
        replace(row, score=score)
        for row in shown
        for score in scores[row.run.id]
        if not score.part and not has_predictions
    ]
    joined = tuple(row for row in join_runs(store, whole)[0] if len(row.runs) > 1)
    n_superseded = current_runs(store, where)[1]
    left_out = [note.removesuffix(".") for note in superseded_note(n_superseded)]
    return Chosen(store, tuple(rows), joined, has_predictions, source, left_out)


def plain_scores(chosen: Chosen) -> list[dict[str, Any]]:
    """One flat mapping of JSON values per score, without what depends on the others shown; with how
    photos were read. Several seeds together have no seed and no run, and as many repeats as draws.
    """
    store = chosen.store
    decodes = {run.id: decode_noted(store.finished_parts(run.id)) for run in chosen.runs()}
    rows = (*chosen.rows, *chosen.joined)
    return [
        {k: v for k, v in plain.items() if k not in OF_TABLES}
        | {"seeds": " ".join(map(str, plain["seeds"])), "decode": decodes[row.run.id]}
        | (_of_all(row) if len(row.runs) > 1 else {})
        for plain, row in zip(plain_rows(Table(rows)), rows, strict=True)
    ]


def _of_all(row: Row) -> dict[str, Any]:
    """What is not that of the newest run."""
    n_items, answered = zip(*((run.n_items, run.n_ok) for run in row.runs), strict=True)
    counts = {"repeats": row.n_draws, "n_items": sum(n_items), "n_answered": sum(answered)}
    return dict.fromkeys(("seed", "data", "seconds", "finished", "run", "key")) | counts


def predictions(chosen: Chosen) -> Iterator[pl.DataFrame]:
    """One frame per run: what was asked, then what was answered."""
    import polars as pl

    tasks = {row.run.id: row.task_name for row in chosen.rows}
    for run in chosen.runs():
        spec = run.spec
        constants = {
            "run": run.id,
            "model": spec.model,
            "model_version": spec.model_version,
            "task": tasks.get(run.id, spec.task_name),
            "protocol": spec.protocol,
            "n_train": spec.n_train,
            "seed": spec.seed,
            "data": spec.data,
        }
        types = {"n_train": pl.Int64}
        columns = [pl.lit(value, types.get(name)).alias(name) for name, value in constants.items()]
        frame = chosen.store.predictions(run.id)
        content = pl.col("content").bin.encode("hex")
        yield frame.select(*columns, *frame.columns[:-1], content)


def yaml_text(value: Any) -> str:
    """The mapping or list as YAML, keys in the order given, each text on its own line."""
    return str(yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=10**6))
