"""Live results: what does the page that is served show now?

The store is opened read-only for each look, and looked at anew only when its file has changed.
Photos are found by the hash in their thumbnail's name: no path ever comes from an address.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Any

from fieldmark.errors import FieldmarkError
from fieldmark.report.facts import task_facts
from fieldmark.report.rows import Table, read_table
from fieldmark.report.site.build import RowComparisons, samples_of
from fieldmark.report.site.images import CHANGED, ItemPhoto, Photos, photos_note, thumbnail
from fieldmark.report.site.pages import data_script, receive_script
from fieldmark.report.site.predictions import (
    ColumnData,
    asked_alike,
    others_note,
    pack,
    pack_replies,
    read_column,
)
from fieldmark.report.site.summary import chart_specs, columns_of, leader, public_table, summarise
from fieldmark.settings import Settings
from fieldmark.store import Run, RunFilter, Store

N_THUMBNAILS = 2_000
"""kept in memory: 20 MB or so"""


class LiveResults:
    """The results as they are now; safe to be asked from several threads."""

    def __init__(self, settings: Settings, where: RunFilter, with_images: bool = True) -> None:
        self.settings, self.where, self.with_images = settings, where, with_images
        self._lock = Lock()
        self._seen: str | None = None
        self._table = Table(())
        self._summary: dict[str, Any] = {}
        self._photos = Photos(settings)
        self._known: dict[str, ItemPhoto] = {}
        self._thumbnail = lru_cache(maxsize=N_THUMBNAILS)(self._make_thumbnail)

    def version(self) -> str:
        """Another text whenever the store's file has changed."""
        stamps = []
        for suffix in ("", "-wal"):
            path = self.settings.store.with_name(self.settings.store.name + suffix)
            if path.exists():
                stat = path.stat()
                stamps.append(f"{stat.st_mtime_ns:x}.{stat.st_size:x}")
        return "-".join(stamps)

    def summary(self) -> dict[str, Any]:
        with self._lock:
            version = self.version()
            if version != self._seen:
                with self._open() as store:
                    table = read_table(store, self.where)
                    self._table = public_table(table)
                    self._summary = self._summarise(store)
                self._seen = version
            return self._summary

    def summary_file(self) -> bytes:
        return receive_script("summary", self.summary())

    def charts_file(self) -> bytes:
        self.summary()
        with self._open() as store:
            charts = chart_specs(store, self._table)
        return receive_script("charts", charts)

    def column_file(self, name: str) -> bytes | None:
        """The predictions of a column; None for one that is not known."""
        self.summary()
        rows = columns_of(self._table).get(name.removesuffix("-replies"))
        if rows is None:
            return None
        with self._open() as store:
            rows = asked_alike(store, rows)
            data = read_column(store, rows, store.scores(self.where))
            if name.endswith("-replies"):
                return data_script(name, pack_replies(store, rows, data))
            thumbs, _ = self._thumbs(store, rows[0].run, data)
        return data_script(name, pack(data, thumbs))

    def comparison_file(self, name: str) -> bytes | None:
        """The comparisons of a row; None for one that is not known."""
        self.summary()
        with self._open() as store:
            comparisons = RowComparisons(store, self._table)
            row = comparisons.files().get(name)
            return None if row is None else receive_script(name, comparisons.of_row(row))

    def data_file(self, name: str) -> bytes | None:
        """A file of the folder data/, beside summary and charts."""
        return self.column_file(name) or self.comparison_file(name)

    def thumbnail(self, name: str) -> bytes | None:
        """A photo by its hash; None where it is not one of a task's, or cannot be read."""
        return self._thumbnail(name) if name in self._known else None

    def progress(self) -> dict[str, Any]:
        """How far the runs are, for the line at the top of the page."""
        with self._open() as store:
            runs = store.runs(self.where)
            going = [_standing(store, run) for run in runs if run.state == "running"]
        states = [run.state for run in runs]
        return {
            "done": states.count("done"),
            "failed": states.count("failed"),
            "running": going,
            "usd": sum(run["usd"] for run in going),
        }

    def _open(self) -> Store:
        return Store.open(self.settings.store, read_only=True)

    def _summarise(self, store: Store) -> dict[str, Any]:
        summary = summarise(store, self._table)
        columns = columns_of(self._table)
        rows_of = {rows[0].run.spec.task: rows for rows in reversed(columns.values())}
        for task, rows in zip(summary["tasks"], reversed(rows_of.values()), strict=True):
            every, rows = rows, asked_alike(store, rows)
            data = read_column(store, rows, {})
            thumbs, n_changed = self._thumbs(store, rows[0].run, data)
            lost = photos_note({CHANGED: n_changed} if n_changed else {})
            task |= {
                "samples": samples_of(data, thumbs, leader(rows)),
                "n_images": len(thumbs),
                "photos_note": " ".join(filter(None, [lost, others_note(every, rows)])),
            }
        summary["charts"] = sorted(chart_specs(store, self._table)) if self._table.rows else []
        return summary

    def _thumbs(self, store: Store, run: Run, data: ColumnData) -> tuple[dict[str, str], int]:
        """Item id → thumbnail's name, for the photos that are here, and how many are others now."""
        if not self.with_images:
            return {}, 0
        photos = self._photos.of_run(store, run, task_facts(store, run))
        chosen = {item: photos[item] for item in data.ids if item in photos}
        same = self._photos.without_changed(chosen)
        self._known |= {photo.name: photo for photo in same.values()}
        return {item: photo.name for item, photo in same.items()}, len(chosen) - len(same)

    def _make_thumbnail(self, name: str) -> bytes | None:
        try:
            return thumbnail(self._known[name])
        except FieldmarkError:  # a photo that cannot be read has no thumbnail
            return None


def _standing(store: Store, run: Run) -> dict[str, Any]:
    parts = store.finished_parts(run.id)
    n_parts = len(run.spec.settings.get("parts", [""])) * run.spec.repeats
    return {
        "model": run.spec.model,
        "task": run.spec.task,
        "parts_done": len(parts),
        "parts": n_parts,
        "usd": sum(float((part.info or {}).get("usd") or 0.0) for part in parts),
    }
