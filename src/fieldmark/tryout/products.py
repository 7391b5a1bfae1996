"""What `fieldmark try` leaves: a page, two tables, a figure, a methods paragraph and a model.

Everything is written from the verdict; nothing is measured here. No position (GPS) of a photo and
no metadata of it is in any of the files: thumbnails are encoded anew.
"""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark.charts import BLUE, render, themed
from fieldmark.data import ImageRef, load_image
from fieldmark.errors import DataError
from fieldmark.files import write_file
from fieldmark.progress import Progress
from fieldmark.registry import app_version
from fieldmark.settings import Settings
from fieldmark.tryout.evaluate import Verdict, features_of, open_model
from fieldmark.tryout.fitted import fit_model, save_model
from fieldmark.tryout.judge.findings import iterate_labels
from fieldmark.tryout.words import tell, tell_data, tell_methods

THUMB_PX, QUALITY = 160, 70
MOST_SHOWN = 12
"""photos of one finding on the page"""


def write_products(verdict: Verdict, out: Path, settings: Settings, progress: Progress) -> Path:
    """Writes all of it; the page is the last, so that it is there when everything is."""
    progress.start("writing the page and the model", 1)
    model = open_model(verdict.best.model, settings)
    x_nd = features_of(verdict.sample, model, settings, progress)
    save_model(fit_model(verdict, x_nd, model), out / "model")
    write_table(out / "data.csv", _DATA, _data_rows(verdict))
    write_table(out / "predictions.csv", _PREDICTIONS, _prediction_rows(verdict))
    write_file(out / "methods.txt", "\n".join(tell_methods(verdict)).encode())
    chart = confusion_chart(verdict)
    for suffix in ("svg", "png"):
        write_file(out / f"confusion.{suffix}", render(chart, suffix))
    write_file(out / "index.html", _page(verdict).encode())
    progress.advance()
    return out / "index.html"


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as data."""
    choice, sample = verdict.choice, verdict.sample
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
        "models": [
            {
                "model": entry.model,
                "head": entry.head,
                "accuracy": float((entry.answer_n == sample.code_n).mean()),
                "photos_per_s": entry.images_per_s,
            }
            for entry in verdict.entries
        ],
        "could_be_as_good": [rival.model for rival in verdict.rivals if rival.is_as_good],
        "chat": verdict.chat and dataclasses.asdict(verdict.chat),
        "data": [{"kind": f.kind, "text": f.text} for f in sample.survey.audit.findings],
        "text": list(tell(verdict)),
    }


# --- tables

_DATA = ("image", "label", "label_used", "unit", "status", "copy_group", "burst", "brightness")
_PREDICTIONS = ("image", "label", "answer", "probability", "is_right", "fold", "is_sure")


def write_table(
    path: Path, names: Sequence[str], rows: Iterable[Sequence[object]], encoding: str = "utf-8-sig"
) -> None:
    """A CSV that any spreadsheet reads: without its mark they guess the encoding wrong."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    write_file(path, target.getvalue().encode(encoding))


def _data_rows(verdict: Verdict) -> Iterable[Sequence[object]]:
    sample = verdict.sample
    table, seen = sample.photos.table, sample.survey.audit
    place = {int(row): at for at, row in enumerate(sample.rows)}
    status = np.where(
        sample.survey.is_ok_n, "left out: label cannot be tested", "unreadable"
    ).astype(object)
    status[sample.rows] = "tested"
    columns = [table.get_column(name).to_list() for name in ("image", "label", "unit")]
    for row, (image, label, unit) in enumerate(zip(*columns, strict=True)):
        at = place.get(row)
        brightness = "" if at is None else f"{sample.looks.brightness_n[at]:.0f}"
        groups = int(seen.copy_n[row]), int(seen.burst_n[row])
        yield image, label, seen.label_n[row], unit or "", status[row], *groups, brightness


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
        )


# --- figure and page


def confusion_chart(verdict: Verdict) -> dict[str, Any]:
    """Which label is taken for which; of each label's photos, in per cent."""
    held_out, labels = verdict.held_out, verdict.sample.labels
    answer_n = held_out.answer_n
    # With hundreds of labels only those that are mistaken most often can be read.
    shown = sorted(code for code, *_ in islice(iterate_labels(held_out), 24))
    values = [
        {
            "label": labels[a],
            "answer": labels[b],
            "share": round(100 * float((answer_n[held_out.code_n == a] == b).mean()), 1),
        }
        for a in shown
        for b in shown
    ]
    order = [labels[code] for code in shown]
    axes = {
        "y": {"field": "label", "type": "nominal", "sort": order, "title": "label"},
        "x": {
            "field": "answer",
            "type": "nominal",
            "sort": order,
            "title": "answer",
            "axis": {"labelAngle": -60},
        },
    }
    scale = {"domain": [0, 100], "range": ["white", BLUE], "interpolate": "rgb"}
    colour = {"field": "share", "type": "quantitative", "scale": scale, "title": "of 100 photos"}
    return themed(
        {
            "data": {"values": values},
            "width": {"step": 18},
            "height": {"step": 18},
            "mark": {"type": "rect"},
            "encoding": {**axes, "color": colour},
        }
    )


def _page(verdict: Verdict) -> str:
    from jinja2 import Environment, FileSystemLoader

    loader = FileSystemLoader(Path(__file__).parent)
    template = Environment(loader=loader, autoescape=True, trim_blocks=True).get_template(
        "page.html"
    )
    answer, *rest = tell(verdict)
    return template.render(
        answer=answer,
        sentences=rest,
        data=list(tell_data(verdict.sample.survey)),
        models=_model_rows(verdict),
        labels=_label_rows(verdict),
        findings=_photo_groups(verdict),
        confusion=base64.b64encode(render(confusion_chart(verdict), "svg")).decode(),
        methods=list(tell_methods(verdict)),
        version=app_version(),
    )


def _model_rows(verdict: Verdict) -> list[dict[str, Any]]:
    rows = [
        {
            "name": entry.model,
            "head": entry.head,
            "accuracy": 100 * float((entry.answer_n == verdict.sample.code_n).mean()),
            "speed": entry.images_per_s,
            "is_best": entry is verdict.best,
        }
        for entry in verdict.entries
    ]
    return sorted(rows, key=lambda row: -row["accuracy"])


def _label_rows(verdict: Verdict) -> list[dict[str, Any]]:
    held_out = verdict.held_out
    is_sure_n = held_out.prob_nc.max(axis=1) >= verdict.threshold.at_least
    rows = []
    for search, (code, name) in zip(
        verdict.searches, enumerate(verdict.sample.labels), strict=True
    ):
        mine = held_out.code_n == code
        rows.append(
            {
                "name": name,
                "n": int(mine.sum()),
                "n_units": search.n_units,
                "right": 100 * float(held_out.is_right_n[mine].mean()),
                "unsure": 100 * float((~is_sure_n)[mine].mean()),
                "look": 100 * search.share,
                "at_least": 100 * search.at_least,
            }
        )
    return sorted(rows, key=lambda row: row["right"])


def _photo_groups(verdict: Verdict) -> list[dict[str, Any]]:
    """Findings with photos: labels to check, mix-ups, conflicts, copies, bursts."""
    sample = verdict.sample
    show = partial(_thumbnail, verdict)
    groups = []
    suspects = verdict.suspects
    if suspects.rows:
        photos = [
            show(
                int(sample.rows[row]),
                f"{sample.labels[sample.code_n[row]]} → {sample.labels[code]}?",
            )
            for row, code in zip(suspects.rows, suspects.suggested, strict=True)
        ]
        groups.append({"title": "Check these labels", "photos": photos[:MOST_SHOWN]})
    for pair in verdict.mix_ups[:3]:
        codes = [sample.labels.index(name) for name in (pair.first, pair.second)]
        wrong = np.flatnonzero(
            np.isin(sample.code_n, codes)
            & np.isin(verdict.held_out.answer_n, codes)
            & ~verdict.held_out.is_right_n
        )
        photos = [
            show(int(sample.rows[row]), f"is {sample.labels[sample.code_n[row]]}")
            for row in wrong[:MOST_SHOWN]
        ]
        title = f"Mixed up: {pair.first} and {pair.second}"
        groups.append({"title": title, "photos": photos})
    for finding in sample.survey.audit.findings:
        rows = [row for group in finding.groups[:4] for row in group[:4]]
        if rows and finding.kind in ("conflict", "leak", "burst", "duplicate"):
            photos = [show(row, str(sample.survey.audit.label_n[row])) for row in rows[:MOST_SHOWN]]
            groups.append({"title": finding.text, "photos": photos})
    return groups


def _thumbnail(verdict: Verdict, row: int, text: str) -> dict[str, str]:
    """A small WebP without metadata, inside the page."""
    photos = verdict.sample.photos
    image, crop = photos.table["image"][row], photos.table["crop"][row]
    try:
        picture = load_image(
            photos.root, ImageRef(image, tuple(crop) if crop is not None else None)
        )
    except DataError:  # gone since it was looked at
        return {"source": "", "text": text, "name": image}
    picture.thumbnail((THUMB_PX, THUMB_PX), reducing_gap=2.0)
    small = io.BytesIO()
    picture.save(small, "WEBP", quality=QUALITY)
    data = base64.b64encode(small.getvalue()).decode()
    return {"source": f"data:image/webp;base64,{data}", "text": text, "name": image}
