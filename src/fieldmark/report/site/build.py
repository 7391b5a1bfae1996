"""Static site: how does a store become a folder that can be mailed?

Everything is written beside the folder first and takes its place in the end: a kill leaves what
was there. The same store gives the same bytes.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.errors import DataError
from fieldmark.progress import Progress, Silent
from fieldmark.report.compare.models import ComparedTask, RowComparison
from fieldmark.report.compare.pairs import AllPairs
from fieldmark.report.compare.text import training_notes, verdict
from fieldmark.report.facts import TaskFacts, task_facts
from fieldmark.report.rows import Row, Table, read_table
from fieldmark.report.site.images import (
    UNKNOWN,
    ItemPhoto,
    Photos,
    choose_images,
    photos_note,
    write_thumbnails,
)
from fieldmark.report.site.pages import (
    data_script,
    index_page,
    is_site,
    page_files,
    receive_script,
)
from fieldmark.report.site.predictions import (
    ColumnData,
    asked_alike,
    others_note,
    pack,
    pack_replies,
    read_column,
)
from fieldmark.report.site.summary import (
    chart_specs,
    columns_of,
    leader,
    public_table,
    row_key,
    summarise,
    task_of,
    vega_script,
)
from fieldmark.report.table.ranking import rank_rows
from fieldmark.settings import Settings
from fieldmark.store import Run, RunFilter, Score, Store, nothing_stored

N_SAMPLES = 12
"""photos on a task's page"""


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """What goes into a site."""

    where: RunFilter = RunFilter()
    max_images: int = 300
    """per task; 0 = none, for data that must not leave the machine"""


def build_site(
    store: Store,
    out: Path,
    settings: Settings,
    options: SiteOptions | None = None,
    progress: Progress | None = None,
) -> Path:
    """Writes the site; gives the path of its first page."""
    options, progress = options or SiteOptions(), progress or Silent()
    check_place(out)
    table = public_table(read_table(store, options.where))
    if not table.rows:
        raise nothing_stored(store.path)
    making = _beside(out, "making")
    try:
        _remove(making)
        (making / "data").mkdir(parents=True)
        _write(_SiteBuild(store, making, settings, options, progress, Photos(settings)), table)
        aside = _beside(out, "before")
        _remove(aside)
        if out.exists():
            out.rename(aside)
        making.rename(out)
        _remove(aside)
    except OSError as error:
        raise DataError(
            f"{out}  cannot be written ({error.strerror or error}): choose another folder."
        ) from error
    finally:
        _remove(making)
    return out / "index.html"


def check_place(out: Path) -> None:
    """Refuses a folder that holds anything but a site; brings back one a kill left aside."""
    aside = _beside(out, "before")
    if not out.exists() and is_site(aside):
        aside.rename(out)
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}  is a file: name a folder for the site.")
    if out.exists() and any(out.iterdir()) and not is_site(out):
        raise DataError(
            f"{out}  contains other files than a fieldmark site: name an empty or a new folder."
        )


@dataclass(frozen=True, slots=True)
class _SiteBuild:
    store: Store
    folder: Path
    settings: Settings
    options: SiteOptions
    progress: Progress
    photos: Photos


def _write(job: _SiteBuild, table: Table) -> None:
    summary = summarise(job.store, table)
    scores = job.store.scores(job.options.where)
    by_task: dict[tuple[str, bool], dict[str, list[Row]]] = {}
    for name, rows in columns_of(table).items():
        by_task.setdefault(task_of(rows[0]), {})[name] = rows
    for task, columns in zip(summary["tasks"], by_task.values(), strict=True):
        task |= _write_task(job, columns, scores)
    _write_comparisons(job, table)
    job.progress.start("charts", 1)
    charts = chart_specs(job.store, table)
    summary["charts"] = sorted(charts)
    (job.folder / "data" / "summary.js").write_bytes(receive_script("summary", summary))
    if charts:
        (job.folder / "data" / "charts.js").write_bytes(receive_script("charts", charts))
        (job.folder / "vega.js").write_bytes(vega_script())
    for file, content in page_files().items():
        (job.folder / file).write_bytes(content)
    (job.folder / "index.html").write_bytes(index_page(summary))


def _write_comparisons(job: _SiteBuild, table: Table) -> None:
    comparisons = RowComparisons(job.store, table)
    files = comparisons.files()
    job.progress.start("comparisons", len(files))
    for file, name in files.items():
        content = receive_script(file, comparisons.of_row(name))
        (job.folder / "data" / f"{file}.js").write_bytes(content)
        job.progress.advance()


def _write_task(
    job: _SiteBuild, columns: Mapping[str, Sequence[Row]], scores: Mapping[int, list[Score]]
) -> dict[str, Any]:
    """The predictions and thumbnails of a task; what the summary says of them."""
    facts = task_facts(job.store, next(iter(columns.values()))[0].run)
    job.progress.start(f"{facts.name}: predictions", len(columns))
    data, kept = {}, {name: asked_alike(job.store, rows) for name, rows in columns.items()}
    for name, rows in kept.items():
        data[name] = read_column(job.store, rows, scores)
        job.progress.advance()
    runs = {name: rows[0].run for name, rows in kept.items()}
    thumbs, lost = _write_photos(job, facts, runs, data)
    for name, column in data.items():
        (job.folder / "data" / f"{name}.js").write_bytes(
            data_script(name, pack(column, thumbs[name]))
        )
        if replies := pack_replies(job.store, kept[name], column):
            content = data_script(f"{name}-replies", replies)
            (job.folder / "data" / f"{name}-replies.js").write_bytes(content)
    notes = [others_note(rows, kept[name]) for name, rows in columns.items()]
    for note in filter(None, [lost, *notes]):
        job.progress.say(f"{facts.name}: {note}")
    leading = next(iter(data))
    n_images = len({name for thumb_names in thumbs.values() for name in thumb_names.values()})
    return {
        "samples": samples_of(data[leading], thumbs[leading], leader(kept[leading])),
        "n_images": n_images,
        "photos_note": " ".join(filter(None, [lost, *notes])),
    }


def _write_photos(
    job: _SiteBuild, facts: TaskFacts, runs: Mapping[str, Run], data: Mapping[str, ColumnData]
) -> tuple[dict[str, dict[str, str]], str]:
    """Item id → thumbnail's name for each column, and what to say of photos that are not shown."""
    is_document = all(column.judged for column in data.values())
    if is_document or not job.options.max_images:
        note = "This page does not show the pictures of lmms-eval tasks." if is_document else ""
        return {name: {} for name in data}, note
    photos_of = {name: job.photos.of_run(job.store, run, facts) for name, run in runs.items()}
    photos: dict[str, ItemPhoto] = {}
    wrong: dict[str, int] = {}
    for name, column in data.items():
        for item, n in column.times_wrong().items():
            if (photo := photos_of[name].get(item)) is not None:
                photos[photo.name] = photo
                wrong[photo.name] = wrong.get(photo.name, 0) + n
    chosen = choose_images(wrong, photos, job.options.max_images, facts.name)
    job.progress.start(f"{facts.name}: photos", len(chosen))
    done, lost = write_thumbnails(
        {name: photos[name] for name in chosen}, job.folder, job.settings.n_threads, job.progress
    )
    if not photos:
        lost = {UNKNOWN: len({item for column in data.values() for item in column.ids})}
    thumbs = {
        name: {item: photo.name for item, photo in item_photos.items() if photo.name in done}
        for name, item_photos in photos_of.items()
    }
    return thumbs, photos_note(lost)


def samples_of(data: ColumnData, thumbs: Mapping[str, str], best: int) -> list[list[str]]:
    """Thumbnails with their labels and what the best model said ("": nothing), for the task's page
    and the strip of photos on the first one.
    """
    labels = ["", *data.labels]
    columns = (data.arrays[name].tolist() for name in ("id", "target", f"answer {best}"))
    label_pairs = {
        number: (labels[target], labels[answer])
        for number, target, answer in zip(*columns, strict=True)
    }
    shown = {thumbs[item]: label_pairs[at] for at, item in enumerate(data.ids) if item in thumbs}
    frame = pl.DataFrame(
        {"name": list(shown), "label": [label for label, _ in shown.values()]},
        schema={"name": pl.String, "label": pl.String},
    )
    # Spread over the labels: the first of each label, then the second of each, ...
    turns = frame.sort("label", "name").with_columns(turn=pl.int_range(pl.len()).over("label"))
    names = turns.sort("turn", "label").head(N_SAMPLES)["name"]
    return [[name, *shown[name]] for name in names]


def _beside(out: Path, word: str) -> Path:
    whole = out.absolute()
    return whole.with_name(f".{whole.name}.{word}")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


# --- Comparisons of all pairs of rows, for the page: what does `fieldmark compare` say of each?
#
# One file per row, loaded when asked for, with all rows that stand below it in the table. The
# page turns a pair round where it is asked for the other way; it works out nothing.


TASK = (
    "column", "difference", "low", "high", "p", "p_corrected", "side", "visible", "n", "units",
    "draws", "discordant",
)  # fmt: skip
"""what stands at which place of a compared task; side: 1 the first is better, -1 the second, 0:
too close to call"""


class RowComparisons:
    """The comparisons of the rows of a public table, in its order."""

    def __init__(self, store: Store, table: Table) -> None:
        self.names = rank_rows(table).names
        self.columns = {
            rows[0].column_key: number for number, rows in enumerate(columns_of(table).values())
        }
        order = {name: number for number, name in enumerate(self.names)}
        self.pairs = AllPairs(store, sorted(table.rows, key=lambda row: order[row.name]))

    def files(self) -> dict[str, str]:
        """Name of each file → the row it is about."""
        return {f"compare-{row_key(name)}": name for name in self.names}

    def of_row(self, name: str) -> dict[str, Any]:
        """What the file holds."""
        order = {other: number for number, other in enumerate(self.names)}
        return {
            "task": TASK,
            "pairs": {
                str(order[pair.b]): _plain(pair, self.columns) for pair in self.pairs.of_row(name)
            },
        }


def _plain(pair: RowComparison, columns: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    lead, more = verdict(pair)
    return {
        "verdict": lead,
        "more": more,
        "note": "; ".join(training_notes(pair)),
        "methods": list(dict.fromkeys(task.comparison.method for task in pair.tasks)),
        "tasks": [_task(task, columns[task.a.column_key]) for task in pair.tasks],
    }


def _task(task: ComparedTask, column: int) -> Sequence[Any]:
    one = task.comparison
    numbers = (one.difference, one.low, one.high, one.p, task.p_corrected)
    side = {"a": 1, "b": -1, "tie": 0}[task.verdict]
    return [
        column, *map(_short, numbers), side, _short(one.detectable), one.n, one.n_units,
        one.n_repeats, one.n_discordant,
    ]  # fmt: skip


def _short(value: float) -> float | None:
    """Six figures; None for what JSON has no number for."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
