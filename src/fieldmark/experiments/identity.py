"""Run identity: what makes a run the same run, what makes it stale, and what does --force replace?

A run is known by its key, a hash of everything that can change a prediction:

    model      its version: code, weights, transform, precision, libraries
    task       name, variant, version, parts, metric, the block and version of its protocol
    draw       n_train, shots, n_test, sampling, seed, repeats
    data       ROWS-CONTENT: ids, labels, units and crops of all rows; and the bytes of every image
               (each frame of a clip) that the draw needs

What cannot change a prediction is in none of them: the order of rows, threads, batch size, device,
paths. A changed photo, label, weight or prompt so makes another run; no result goes stale in its
place, and nothing finished is deleted before its successor is complete. A finished run whose data
changed in the same folder is superseded (`Store.superseded`); `--force` fills a second run of the
same key, which takes the first one's place when it is done. A killed run is taken up again by a
command that has the same key, and so would have given the parts that are there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark import draws
from fieldmark.data import Content, Contents
from fieldmark.lmms import (
    DocumentPart,
    DocumentTask,
    code_digest,
    functions_of,
    mean_of,
    metric_names,
    plain_task,
)
from fieldmark.protocols import PROTOCOLS, AskSettings, Draw, PartItems
from fieldmark.registry import code_hash, short_name
from fieldmark.store import Run, RunSpec, canonical_json
from fieldmark.tasks import parse_name

if TYPE_CHECKING:
    from fieldmark.experiments._grid import Job

ROWS = ("id", "target", "unit", "class_kind")
"""columns of which every value counts, where a task has them"""


def task_outline(job: Job, parts: Sequence[PartItems], rows: str) -> RunSpec:
    """All that makes a run of one of our own tasks, but for the model and the content of images."""
    draw, task = job.draw, job.own
    settings: dict[str, Any] = {
        "parts": [part.name for part in parts],
        "metric": [_portable(name) for name in (task.metric, *task.also)],
        "score": task.primary or task.score,
        "protocol_version": PROTOCOLS.get(job.protocol).VERSION,
    }
    method = job.protocol
    if job.protocol == "probe" and task.probe is not None:
        classifier = task.probe.classifier
        block = task.probe.model_dump(mode="json")
        settings["probe"] = block | {"classifier": _portable(classifier)}
        method = f"probe/{short_name(classifier)}"
    if job.protocol == "ask" and task.ask is not None:
        settings["ask"] = task.ask.model_dump(mode="json", exclude_defaults=True)
        settings |= AskSettings.of(dict(job.ask)).changed()
    if draw.shots:
        settings["shots"] = draw.shots
    if task.test == "rest":
        settings["test"] = "rest"
    if draw.n_train >= 0:
        settings["sampling"] = draw.sampling
    return RunSpec(
        model=job.model,
        task=task.task,
        task_variant=parse_name(job.task_name).variant,
        task_version=str(task.version),
        protocol=method,
        settings=settings,
        n_train=None if draw.n_train < 0 else draw.n_train,
        n_test=None if draw.n_test < 0 else draw.n_test,
        seed=draw.seed,
        repeats=draw.repeats,
        data=rows,
    )


def document_outline(job: Job, task: DocumentTask, part: DocumentPart) -> RunSpec:
    """The file as resolved, the code behind it, the documents with their pictures."""
    mean, pipeline = mean_of(task)
    facts: dict[str, Any] = {
        "output_type": task.output_type,
        "mean_of": mean,
        "pipeline": pipeline,
        "digest": draws.digest(canonical_json(plain_task(task))).hex()[:16],
        "code": code_digest(functions_of(task), task.trust),
    }
    settings = {
        "parts": [""],
        "score": "pooled",
        "metric": metric_names(task),
        "protocol_version": PROTOCOLS.get("ask").VERSION,
        "documents": facts,
        **AskSettings.of(dict(job.ask)).given(),
    }
    return RunSpec(
        model=job.model,
        task=task.task,
        task_version=task.version,
        protocol="ask",
        settings=settings,
        n_train=job.draw.n_train,
        n_test=None if job.draw.n_test < 0 else job.draw.n_test,
        seed=job.draw.seed,
        repeats=1,
        data=part.digest,
    )


def complete(outline: RunSpec, model_version: str, content: str = "") -> RunSpec:
    """The spec of a run whose model and images are known."""
    data = f"{outline.data}-{content}" if content else outline.data
    return replace(outline, model_version=model_version, data=data)


def question_key(spec: RunSpec) -> str:
    """The same for runs that differ in their data only."""
    return replace(spec, data="").key


def why_again(wanted: RunSpec, former: Iterable[Run], root: Path) -> str:
    """Why a run is done although one that asks the same is there already; "" = none is."""
    rows = wanted.data.partition("-")[0]
    mine = [run for run in former if run.root == place_of(root)]
    if not mine:
        return ""
    if any(run.spec.data.partition("-")[0] == rows for run in mine):
        return "its images have changed since it was done"
    return "its items or labels have changed since it was done"


def place_of(root: Path) -> str:
    """The folder as it is recorded with a run; links in it are not followed."""
    return os.path.abspath(root)  # noqa: PTH100 - resolve() would follow links


def rows_digest(job: Job, parts: Sequence[PartItems]) -> str:
    """Changes when an item, a label (or what it is), a split, a unit or a crop of the parts does.

    Where a file lies does not count, nor the order of rows.
    """
    hasher = hashlib.blake2b(digest_size=8)
    also = PROTOCOLS.get(job.protocol).columns(job.own)
    for part in parts:
        hasher.update(canonical_json([part.name, part.groups]).encode())
        for rows in (part.train, part.test):
            names = [name for name in dict.fromkeys((*ROWS, *also)) if name in rows.columns]
            text = rows.select(
                *(pl.col(name).cast(pl.String) for name in names),
                pl.col("crop").list.eval(pl.element().cast(pl.String)).list.join(","),
            )
            hasher.update(text.sort("id").write_csv().encode())
    return hasher.hexdigest()


@dataclass(frozen=True, slots=True)
class Seen:
    """The content of every item of a run."""

    digest: str
    by_id: Mapping[str, bytes]
    """item id → its image's content, or one digest over the frames of a clip; ABSENT where it
    cannot be read"""
    broken: frozenset[str]
    """images that cannot be used"""


@dataclass(slots=True)
class Needs:
    """Which items a job needs and what they hold; worked out once for all models and seeds."""

    contents: Contents
    _rows: dict[tuple[object, ...], pl.DataFrame] = field(default_factory=dict)
    _seen: dict[tuple[object, ...], Seen] = field(default_factory=dict)

    def rows(
        self, job: Job, parts: Sequence[PartItems], broken: frozenset[str] = frozenset()
    ) -> pl.DataFrame:
        """id, image and crop of every row that the job needs, where these images are broken."""
        key = (*_asked_alike(job, parts), broken)
        if key not in self._rows:
            needed = PROTOCOLS.get(job.protocol).needed
            self._rows[key] = needed(job.own, parts, job.draw, dict(job.ask), broken)
        return self._rows[key]

    def seen(
        self,
        job: Job,
        parts: Sequence[PartItems],
        root: Path,
        on_unknown: Callable[[int], Callable[[], None]] | None = None,
    ) -> Seen:
        """The content of all items; files that are not known are read.

        `on_unknown` is told how many these are and gives what is called after each.
        """
        key = (*_asked_alike(job, parts), root)
        if key not in self._seen:
            self._seen[key] = self._look(job, parts, root, on_unknown)
        return self._seen[key]

    def _look(
        self,
        job: Job,
        parts: Sequence[PartItems],
        root: Path,
        on_unknown: Callable[[int], Callable[[], None]] | None,
    ) -> Seen:
        """Others may be needed in place of broken ones, which count all the same: mended, they
        would be used.
        """
        by_id: dict[str, bytes] = {}
        broken: frozenset[str] = frozenset()
        while True:
            rows = self.rows(job, parts, broken)
            named = dict(zip(rows["id"].to_list(), rows["image"].to_list(), strict=True))
            images = dict.fromkeys(_images_of(named.values()))
            found = self.contents.learn(root, images, on_unknown)
            by_id |= {each: _of_item(mine, found) for each, mine in named.items()}
            worse = broken | {image for image, content in found.items() if content.problem}
            if worse == broken:
                return Seen(_digest(by_id), by_id, broken)
            broken = worse


def _asked_alike(job: Job, parts: Sequence[PartItems]) -> tuple[object, ...]:
    """Equal for jobs that need the same rows; parts of one question are shared, see `Tables`."""
    return (id(parts), job.protocol, _needed_draw(job), job.ask if job.protocol == "ask" else ())


def _needed_draw(job: Job) -> Draw:
    """What of a draw decides which images are needed: all of them are, whatever the seed, where
    nothing is drawn.
    """
    draw, is_rest = job.draw, job.own.test == "rest"
    if draw.n_train < 0 and draw.n_test < 0 and not draw.shots and not is_rest:
        return Draw()
    return draw


def _images_of(named: Iterable[str | Sequence[str]]) -> Iterator[str]:
    for image in named:
        if isinstance(image, str):
            yield image
        else:
            yield from image


def _of_item(images: str | Sequence[str], found: Mapping[str, Content]) -> bytes:
    if isinstance(images, str):
        return found[images].key
    if len(images) == 1:
        return found[images[0]].key
    keys = b"".join(found[image].key for image in images)
    return hashlib.blake2b(keys, digest_size=16).digest()


def _digest(by_id: Mapping[str, bytes]) -> str:
    hasher = hashlib.blake2b(digest_size=8)
    for each in sorted(by_id):
        hasher.update(each.encode("utf-8", "surrogatepass") + b"\0" + by_id[each])
    return hasher.hexdigest()


def _portable(name: str) -> str:
    """The same on every machine; an edited file of the user's is another probe or metric."""
    code = code_hash(name)
    return f"{short_name(name)}#{code}" if code else name
