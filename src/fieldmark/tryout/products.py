"""What `fieldmark try` leaves: a page, two tables, a figure, a methods paragraph and a model.

Everything is written from the verdict; nothing is measured here. No position (GPS) of a photo and
no metadata of it is in any of the files: thumbnails are encoded anew.
"""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark.charts import BLUE, render, themed
from fieldmark.data import MEMORY, Contents, ImageRef, load_image
from fieldmark.data.read.own_photos import LabelledPhotos
from fieldmark.errors import DataError, UsageError
from fieldmark.files import csv_text, write_file
from fieldmark.progress import Progress
from fieldmark.registry import app_version
from fieldmark.settings import Settings
from fieldmark.tryout.evaluate import Verdict, features_of, open_model
from fieldmark.tryout.fitted import ARRAYS, fit_model, save_model
from fieldmark.tryout.judge.findings import iterate_labels, worst_cell
from fieldmark.tryout.words import MOST, MOST_COLUMNS, tell_data, tell_methods

THUMB_PX, QUALITY = 160, 70
FILES = ("data.csv", "predictions.csv", "methods.txt", "index.html")
MOST_SHOWN = 12
"""photos of one finding on the page"""
MOST_CONFUSED = 24
"""labels against which answers are set"""
OTHERS = "another label"


def write_products(verdict: Verdict, out: Path, settings: Settings, progress: Progress) -> Path:
    """Writes all of it; the page is the last, so that it is there when everything is."""
    progress.start("writing the page and the model", 1)
    model = open_model(verdict.best.model, settings)
    x_nd = features_of(verdict.sample, model, settings, progress)
    contents = Contents(settings.cache / MEMORY, settings.n_threads)
    images = verdict.sample.table.get_column("image").to_list()
    content_of = contents.learn(verdict.sample.photos.root, images)
    keys = [content_of[image].key for image in images]
    save_model(fit_model(verdict, x_nd, model, keys), out / "model")
    columns = [*_PREDICTIONS, *label_columns(verdict.sample.labels)]
    write_table(out / "data.csv", _DATA, _data_rows(verdict))
    write_table(out / "predictions.csv", columns, _prediction_rows(verdict))
    write_file(out / "methods.txt", "".join(f"{s}\n" for s in tell_methods(verdict)).encode())
    chart = confusion_chart(verdict)
    for suffix in ("svg", "png"):
        write_file(out / f"confusion.{suffix}", render(chart, suffix))
    write_file(out / "index.html", _page(verdict).encode())
    progress.advance()
    return out / "index.html"


def refuse_others(out: Path, photos: LabelledPhotos) -> None:
    """Refuses to write over files about other photos, or of another kind, before any work."""
    if out.is_file():
        raise UsageError(f"{out} is a file: --out names a folder for all that is written.")
    if (out / "model" / ARRAYS).exists():  # what an earlier command has left
        before, now = _tried(out / "data.csv"), set(photos.table.get_column("image"))
        if before and 2 * len(before & now) < min(len(before), len(now)):
            raise UsageError(
                f"{out} contains the answer for other photos ({min(before)} and others): choose "
                "another folder with --out."
            )
        return
    if others := [name for name in FILES if (out / name).exists()]:
        raise UsageError(
            f"{out} has a file {others[0]} that `fieldmark try` has not written: choose another "
            "folder with --out."
        )


def _tried(path: Path) -> set[str]:
    """The photos of an earlier verdict; none where its table cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return {row["image"] for row in csv.DictReader(file)}
    except (OSError, ValueError, KeyError, csv.Error):
        return set()


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as data."""
    choice, sample, chat = verdict.choice, verdict.sample, verdict.chat
    names = ("difference", "low", "high")
    gain = {name: getattr(chat.gain, name) for name in names} if chat else {}
    limits = (choice.low, choice.high) if choice.has_interval else (None, None)
    return {
        "model": verdict.best.model,
        "head": verdict.best.head,
        "accuracy": choice.accuracy,
        "low": limits[0],
        "high": limits[1],
        "n_photos": len(sample.rows),
        "n_units": sample.n_units,
        "unit": sample.unit_word,
        "labels": list(sample.labels),
        "is_better_than_most_common_label": verdict.is_useful,
        "models": _models(verdict),
        "could_be_as_good": [rival.model for rival in verdict.rivals if rival.is_as_good],
        "chat": chat and {**dataclasses.asdict(chat), "gain": gain},
        "data": [{"kind": f.kind, "text": f.text} for f in sample.survey.audit.findings],
        "text": verdict.lines,
    }


def _models(verdict: Verdict) -> list[dict[str, Any]]:
    names, right = ("model", "head", "accuracy", "photos_per_s"), verdict.sample.accuracy
    values = ((one.model, one.head, right(one), one.images_per_s) for one in verdict.entries)
    return [dict(zip(names, row, strict=True)) for row in values]


# --- tables

_DATA = ("image", "label", "label_used", "unit", "status", "copy_group", "burst", "brightness")
_PREDICTIONS = ("image", "label", "best_guess", "probability", "is_right", "fold", "is_sure")


def label_columns(labels: Sequence[str]) -> list[str]:
    """A column for the probability of each label: whoever looks for one sorts by it."""
    return [f"p({label})" for label in labels] if len(labels) <= MOST_COLUMNS else []


def label_cells(prob_c: Sequence[float]) -> list[str]:
    return [f"{prob:.4f}" for prob in prob_c] if len(prob_c) <= MOST_COLUMNS else []


def write_table(
    path: Path, names: Sequence[str], rows: Iterable[Sequence[object]], encoding: str = "utf-8-sig"
) -> None:
    """A CSV that any spreadsheet reads: without its mark they guess the encoding wrong."""
    write_file(path, csv_text([names, *rows]).encode(encoding))


def _data_rows(verdict: Verdict) -> Iterable[Sequence[object]]:
    sample, survey = verdict.sample, verdict.sample.survey
    left_out = "left out: label cannot be tested"
    status = np.where(survey.is_ok_n, left_out, "unreadable").astype(object)
    status[survey.audit.is_spare_n] = "left out: copy of a photo of another unit"
    status[sample.rows] = "tested"
    names = survey.photos.table.select("image", "label", "unit").iter_rows()
    for row, (image, label, unit) in enumerate(names):
        groups = int(survey.audit.copy_n[row]), int(survey.audit.burst_n[row])
        brightness = f"{survey.looks.brightness_n[row]:.0f}" if survey.is_ok_n[row] else ""
        used = survey.audit.label_n[row]
        yield image, label, used, unit or "", status[row], *groups, brightness


def _prediction_rows(verdict: Verdict) -> Iterable[Sequence[object]]:
    held_out, sample = verdict.held_out, verdict.sample
    top_n = held_out.prob_nc.max(axis=1)
    for at, image in enumerate(sample.table.get_column("image")):
        yield (
            image,
            sample.labels[sample.code_n[at]],
            sample.labels[held_out.answer_n[at]],
            f"{top_n[at]:.4f}",
            int(held_out.is_right_n[at]),
            int(sample.fold_n[at]),
            int(top_n[at] >= verdict.threshold.at_least),
            *label_cells(held_out.prob_nc[at]),
        )


# --- figure and page


def _confusion(verdict: Verdict) -> dict[str, dict[str, float]]:
    """Label → answer → of 100 of the label's photos, how many got this answer."""
    held_out, labels = verdict.held_out, verdict.sample.labels
    # With hundreds of labels only those that the text names, and the hardest, can be read.
    named = [name for pair in verdict.mix_ups[:MOST] for name in (pair.first, pair.second)]
    hardest = (name for _, name, *_ in iterate_labels(held_out))
    order = dict.fromkeys([*named, *(worst_cell(held_out) or ())[:2], *hardest])
    shown = sorted(labels.index(name) for name in islice(order, MOST_CONFUSED))
    shares = {}
    for given in shown:
        n_c = np.bincount(held_out.answer_n[held_out.code_n == given], minlength=len(labels))
        share_c = 100 * n_c / n_c.sum()
        shares[labels[given]] = {labels[answer]: float(share_c[answer]) for answer in shown}
        if len(shown) < len(labels):
            shares[labels[given]][OTHERS] = float(100 - share_c[shown].sum())
    return shares


def confusion_chart(verdict: Verdict) -> dict[str, Any]:
    """Which label is taken for which; of each label's photos, in per cent."""
    share_of = _confusion(verdict)
    values = [
        {"label": label, "answer": answer, "share": share}
        for label, shares in share_of.items()
        for answer, share in shares.items()
    ]
    axis = {"type": "nominal", "sort": [*share_of, OTHERS]}
    scale = {"domain": [0, 100], "range": ["white", BLUE], "interpolate": "rgb"}
    colour = {"field": "share", "type": "quantitative", "scale": scale, "title": "of 100 photos"}
    encoding = {
        "y": {"field": "label", **axis, "title": "label"},
        "x": {"field": "answer", **axis, "title": "answer", "axis": {"labelAngle": -60}},
        "color": colour,
    }
    size = {"width": {"step": 18}, "height": {"step": 18}}
    return themed({"data": {"values": values}, **size, "mark": "rect", "encoding": encoding})


def _page(verdict: Verdict) -> str:
    from jinja2 import Environment, FileSystemLoader

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
    environment.filters["marked"] = _marked
    return environment.get_template("page.html").render(
        sentences=verdict.lines,
        data=list(tell_data(verdict.sample.survey)),
        models=_models(verdict),
        best=verdict.best,
        labels=_label_rows(verdict),
        has_units=bool(verdict.sample.photos.unit_from),
        unit_word=verdict.sample.unit_word,
        findings=list(_photo_groups(verdict)),
        confusion=_confusion(verdict),
        n_labels=len(verdict.sample.labels),
        heads={entry.head for entry in verdict.entries},
        chat=verdict.chat,
        methods=list(tell_methods(verdict)),
        version=app_version(),
    )


def _marked(line: str) -> str:
    """What stands between backticks is a command."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(line))))


def _label_rows(verdict: Verdict) -> list[dict[str, Any]]:
    """What the page says of each label, in photos of 100; the worst first."""
    held_out = verdict.held_out
    is_sure_n = held_out.prob_nc.max(axis=1) >= verdict.threshold.at_least
    rows = []
    for code, name, n, n_right in iterate_labels(held_out):
        search = verdict.searches[code]
        n_unsure = int((~is_sure_n)[held_out.code_n == code].sum())
        shares = {"right": n_right / n, "unsure": n_unsure / n, "look": search.share}
        shares["at_least"] = search.at_least
        row = {"name": name, "n": n, "n_units": search.n_units}
        rows.append(row | {key: 100 * share for key, share in shares.items()})
    return rows


_GROUPS = {
    "conflict": "One photo, two labels",
    "duplicate": "Copies",
    "elsewhere": "Copies at two places",
    "burst": "Near-identical photos",
}


def _photo_groups(verdict: Verdict) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Photos to look at: labels to check, mix-ups, conflicts, copies, bursts."""
    sample, suspects = verdict.sample, verdict.suspects
    labels, code_n, answer_n = sample.labels, sample.code_n, verdict.held_out.answer_n

    def shown(rows: Iterable[int], texts: Iterable[str]) -> list[dict[str, str]]:
        pairs = zip(rows, texts, strict=True)
        return [_thumbnail(verdict, int(row), text) for row, text in islice(pairs, MOST_SHOWN)]

    if suspects.rows:
        pairs = zip(suspects.rows, suspects.suggested, strict=True)
        texts = [f"{labels[code_n[row]]} → {labels[code]}?" for row, code in pairs]
        yield "Check these labels", shown(sample.rows[list(suspects.rows)], texts)
    for pair in verdict.mix_ups[:MOST]:
        codes = [labels.index(name) for name in (pair.first, pair.second)]
        ways = [(code_n == a) & (answer_n == b) for a, b in (codes, codes[::-1])]
        both = np.concatenate([np.flatnonzero(way)[: MOST_SHOWN // 2] for way in ways])
        texts = [f"labelled {labels[code_n[at]]}, called {labels[answer_n[at]]}" for at in both]
        yield f"Mixed up: {pair.first} and {pair.second}", shown(sample.rows[both], texts)
    seen = sample.survey.audit
    for kind, title in _GROUPS.items():
        groups = [group for f in seen.findings if f.kind == kind for group in f.groups]
        if rows := [row for group in groups[:4] for row in group[:4]]:
            yield title, shown(rows, map(str, seen.label_n[rows]))


def _thumbnail(verdict: Verdict, row: int, text: str) -> dict[str, str]:
    """A small WebP without metadata, inside the page."""
    photos = verdict.sample.photos
    image, crop = photos.table["image"][row], photos.table["crop"][row]
    small = io.BytesIO()
    try:
        ref = ImageRef(image, tuple(crop) if crop is not None else None)
        picture = load_image(photos.root, ref)
    except DataError:  # gone since it was looked at
        return {"source": "", "text": text, "name": image}
    picture.thumbnail((THUMB_PX, THUMB_PX), reducing_gap=2.0)
    picture.save(small, "WEBP", quality=QUALITY)
    data = base64.b64encode(small.getvalue()).decode()
    return {"source": f"data:image/webp;base64,{data}", "text": text, "name": image}
