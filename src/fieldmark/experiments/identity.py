"""Run identity: what makes a run the same run, what makes it stale, and what does --force replace?

A run has one key, a hash of everything but content that can change a prediction, and beside it one
content digest; both together are its name in the store (`RunSpec.name`).

    key        the model's version: code, weights, transform, precision, libraries;
               the task: name, variant, version, parts, metric; its protocol with version and block;
               the draw: n_train, shots, n_test, sampling, seed, repeats
    content    ROWS-IMAGES: ids, labels, units and crops of all rows; and the bytes of every image
               (each frame of a clip) that the draw needs

What cannot change a prediction is in neither: the order of rows, threads, batch size, device,
paths. A changed photo, label, weight or prompt so makes another run; no result goes stale in its
place, and nothing finished is deleted before its successor is complete. A finished run of the same
key and folder whose content was another is superseded (`Store.superseded`); `--force` fills a
second run of the same name, which takes the first one's place when it is done. A killed run is
taken up again by a command that gives it the same name, and so would have given the parts that are
there. A process claims a key before it reads images, and holds it until the run is done.

Here is what a run is; whether it is done already is decided from that in `plan.py`
(`_existing_run`), and once more when its turn comes in `execute.py` (`_JobRunner.do`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark.data import Content
from fieldmark.protocols import PROTOCOLS, Draw, Question, Workspace, label_of, load_protocol
from fieldmark.registry import portable_name
from fieldmark.store import Run, RunSpec
from fieldmark.tasks import parse_name

if TYPE_CHECKING:
    from fieldmark.experiments._grid import Job


def prepare(job: Job, workspace: Workspace) -> Question:
    """The job's question, made once for all models; what cannot be made is not tried again."""
    task, protocol = job.task, load_protocol(job.protocol)
    workspace.once(("task", id(task)), lambda: task)  # held, so that no other task gets its `id`
    key = ("question", id(task), job.protocol, job.draw, job.settings)
    question: Question = workspace.once(
        key, lambda: protocol.prepare(task, job.draw, job.settings, workspace)
    )
    return question


def identify(job: Job, question: Question) -> RunSpec:
    """All that makes a run, but for the model's version and what images hold."""
    draw, task, protocol = job.draw, job.task, load_protocol(job.protocol)
    settings: dict[str, Any] = {
        "parts": question.part_names,
        "metric": [portable_name(name) for name in question.metrics],
        "score": question.rule,
    }
    if draw.shots:
        settings["shots"] = draw.shots
    if getattr(task, "test", None) == "rest":
        settings["test"] = "rest"
    if draw.n_train >= 0:
        settings["sampling"] = draw.sampling
    settings |= {"protocol_version": protocol.version, **question.identity}
    if code := PROTOCOLS.code_of(job.protocol):
        settings["protocol_code"] = code
    return RunSpec(
        model=job.model,
        task=task.task,
        task_variant=parse_name(job.task_name).variant,
        task_version=str(task.version),
        protocol=label_of(protocol, task),
        settings=settings,
        n_train=None if draw.n_train < 0 else draw.n_train,
        n_test=None if draw.n_test < 0 else draw.n_test,
        seed=draw.seed,
        repeats=draw.repeats,
        data=question.digest,
    )


def with_content(spec: RunSpec, model_version: str, content: str = "") -> RunSpec:
    """The spec of a run whose model, and whose images where given, are known."""
    data = f"{spec.data}-{content}" if content else spec.data
    return replace(spec, model_version=model_version, data=data)


def joined_name(spec: RunSpec) -> str:
    """The name as one word, by which steps of a cluster know a run before its images are read."""
    return "-".join(spec.name)


def why_again(spec: RunSpec, former: Iterable[Run], root: Path) -> str:
    """Why a run is done although a finished one has its key already; "" = none of that folder."""
    rows = spec.data.partition("-")[0]
    in_folder = [run for run in former if run.root == recorded_path(root)]
    if not in_folder:
        return ""
    if any(run.spec.data.partition("-")[0] == rows for run in in_folder):
        return "its images have changed since it was done"
    return "its photos or labels have changed since it was done"


def recorded_path(root: Path) -> str:
    """The folder as it is recorded with a run; links in it are not followed."""
    return os.path.abspath(root)  # noqa: PTH100 - resolve() would follow links


@dataclass(frozen=True, slots=True)
class ContentDigests:
    """The content of every item of a run."""

    digest: str
    by_id: Mapping[str, bytes]
    """item id → its image's content, or one digest over the frames of a clip; ABSENT where it
    cannot be read"""
    broken: frozenset[str]
    """images that cannot be used"""


def required_rows(
    question: Question, workspace: Workspace, broken: frozenset[str] = frozenset()
) -> pl.DataFrame | None:
    """id, image and crop of every row that is needed, where these images are broken; None where
    the question's own digest holds what its items are. Worked out once for all models and seeds.
    """
    key = ("required rows", *_asked_alike(question), broken)
    rows: pl.DataFrame | None = workspace.once(key, lambda: question.needed(broken))
    return rows


def unread_rows(question: Question, workspace: Workspace) -> pl.DataFrame | None:
    """The rows that are needed, where what some of them hold is not known; else None."""
    rows = required_rows(question, workspace)
    if rows is None:
        return None
    images = dict.fromkeys(_images_of(rows["image"].to_list()))
    is_known = len(workspace.contents.known(question.root, images)) == len(images)
    return None if is_known else rows


def read_content(
    question: Question,
    workspace: Workspace,
    on_unknown: Callable[[int], Callable[[], None]] | None = None,
) -> ContentDigests:
    """The content of all items; files that are not known are read.

    `on_unknown` is told how many these are and gives what is called after each. Others may be
    needed in place of broken ones, which count all the same: mended, they would be used.
    """

    def look() -> ContentDigests:
        by_id: dict[str, bytes] = {}
        broken: frozenset[str] = frozenset()
        while True:
            rows = required_rows(question, workspace, broken)
            if rows is None:
                return ContentDigests("", {}, frozenset())
            named = dict(zip(rows["id"].to_list(), rows["image"].to_list(), strict=True))
            images = dict.fromkeys(_images_of(named.values()))
            contents = workspace.contents.learn(question.root, images, on_unknown)
            by_id |= {item: _of_item(item_images, contents) for item, item_images in named.items()}
            worse = broken | {image for image, content in contents.items() if content.problem}
            if worse == broken:
                hasher = hashlib.blake2b(digest_size=8)
                for item in sorted(by_id):
                    hasher.update(item.encode("utf-8", "surrogatepass") + b"\0" + by_id[item])
                return ContentDigests(hasher.hexdigest(), by_id, broken)
            broken = worse

    content: ContentDigests = workspace.once(_content_key(question), look)
    return content


def known_content(question: Question, workspace: Workspace) -> ContentDigests | None:
    """As above, of what was looked at before; reads nothing."""
    content = workspace.shared.get(_content_key(question))
    return content if isinstance(content, ContentDigests) else None


def _content_key(question: Question) -> tuple[object, ...]:
    return ("content", *_asked_alike(question), question.root)


def _asked_alike(question: Question) -> tuple[object, ...]:
    """Equal for questions that need the same rows: parts are shared, and all rows are needed,
    whatever the seed, where nothing is drawn.
    """
    draw, is_rest = question.draw, getattr(question.task, "test", "") == "rest"
    if draw.n_train < 0 and draw.n_test < 0 and not draw.shots and not is_rest:
        draw = Draw()
    return (id(question.parts), question.protocol, draw, question.settings)


def _images_of(named: Iterable[str | Sequence[str]]) -> Iterator[str]:
    for image in named:
        if isinstance(image, str):
            yield image
        else:
            yield from image


def _of_item(images: str | Sequence[str], contents: Mapping[str, Content]) -> bytes:
    if isinstance(images, str):
        return contents[images].key
    if len(images) == 1:
        return contents[images[0]].key
    keys = b"".join(contents[image].key for image in images)
    return hashlib.blake2b(keys, digest_size=16).digest()
