"""Why is this job skipped, and what would running the others cost?

Looks, and touches nothing: no folder is made, no store written, no model loaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fieldmark.chat import Estimate
from fieldmark.data import ImageRef
from fieldmark.embed import Contents, ModelCache, cached_models, count_missing, patch_name
from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.experiments._documents import why_not_documents
from fieldmark.experiments._grid import Job
from fieldmark.experiments._prepare import MissingData, Prepared, Tables, prepare
from fieldmark.models import load_chat_model
from fieldmark.protocols import (
    PROTOCOLS,
    AskSettings,
    content_of,
    estimate_documents,
    items_of,
)
from fieldmark.settings import Settings
from fieldmark.store import Run, RunFilter, Store
from fieldmark.tasks.lmms import DocumentTask

Status = Literal["run", "done", "claimed", "no data", "no code", "refused"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A job, whether it will run, and what that takes."""

    job: Job
    status: Status
    why: str = ""
    prepared: Prepared | None = None
    n_images: int = 0
    """distinct images it needs"""
    n_missing: int = 0
    """of these, the ones whose features must be computed (jobs before it counted in)"""
    n_parts: int = 0
    is_redo: bool = False
    """it was done, with images that have changed since"""
    seconds: float | None = None
    """None: nothing measured yet to judge by"""
    n_bytes: int | None = None
    """features to be written; None: the model's size is not known before it is loaded"""
    error: FieldmarkError | None = None
    """why it cannot run, as what a command would raise"""
    cost: Estimate | None = None
    """of a chat model: requests, tokens, and money where the price is known"""


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: tuple[Planned, ...]

    @property
    def to_run(self) -> tuple[Planned, ...]:
        return tuple(each for each in self.jobs if each.status == "run")

    @property
    def seconds(self) -> float | None:
        known = [each.seconds for each in self.to_run if each.seconds is not None]
        return sum(known) if known and len(known) == len(self.to_run) else None

    @property
    def cost(self) -> Estimate | None:
        """Of all chat models together; its money is None where a price is unknown."""
        known = [each.cost for each in self.to_run if each.cost is not None]
        if not known:
            return None
        usd = [each.usd for each in known]
        total = None if None in usd else sum(each for each in usd if each is not None)
        tokens = (sum(each.tokens_in for each in known), sum(each.tokens_out for each in known))
        return Estimate(sum(each.n for each in known), *tokens, total)

    @property
    def n_bytes(self) -> int | None:
        known = [each.n_bytes for each in self.to_run if each.n_bytes is not None]
        return sum(known) if len(known) == len(self.to_run) else None


def make_plan(jobs: Sequence[Job], settings: Settings, force: bool = False) -> Plan:
    """What would happen. Reads tables, the store and files that changed; never a weight."""
    tables = Tables(settings)
    caches: dict[str, ModelCache] = {each.model: each for each in cached_models(settings.cache)}
    counted: set[tuple[str, Path, ImageRef]] = set()
    contents = Contents(settings.cache)
    with Store.open(settings.store, read_only=True) as store:
        history = store.runs(RunFilter(states=("done",)))
        claims = store.claims()
        done = store.done_keys()
        planned, keys = [], set()
        for job in jobs:
            first = _judge(job, tables)
            if first.prepared is not None and first.status == "run":
                key = first.prepared.spec.key
                if key in keys:  # the same question of the same data, from another file
                    continue
                keys.add(key)
                is_done = key in done and not force
                if is_done and not _is_stale(first.prepared, store, contents):
                    first = Planned(job, "done", "in the store already", first.prepared)
                elif key in claims:
                    holder = claims[key]
                    first = Planned(job, "claimed", f"by process {holder.pid} on {holder.host}")
                else:
                    first = _measure(first, contents, caches, history, counted)
                    if is_done:
                        why = "its images have changed since it was done"
                        first = replace(first, why=why, is_redo=True)
            planned.append(first)
    return Plan(tuple(planned))


def _is_stale(prepared: Prepared, store: Store, contents: Contents) -> bool:
    """Do the images hold something else than when the run was done? Unknown ones are trusted."""
    job, run = prepared.job, store.run(prepared.spec.key)
    assert run is not None
    then = {each.part: (each.info or {}).get("content") for each in store.finished_parts(run.id)}
    for part in prepared.parts:
        keys = contents.keys(prepared.root, items_of(job.own, [part], job.draw))
        now = content_of(job.own, part, job.draw, keys)
        if now and then.get(part.name) and now != then[part.name]:
            return True
    return False


def disk_left(settings: Settings) -> int:
    folder = settings.cache
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _judge(job: Job, tables: Tables) -> Planned:
    if job.protocol not in PROTOCOLS:
        return _refused(
            job, "no code", UsageError(f"this version has no `{job.protocol}` protocol.")
        )
    if isinstance(job.task, DocumentTask):
        why = why_not_documents(job)
    else:
        why = PROTOCOLS.get(job.protocol).why_not(job.task, job.draw)
    if why:
        return _refused(job, "refused", UsageError(f"{why}."))
    try:
        return Planned(job, "run", prepared=prepare(job, tables))
    except MissingData as error:
        return _refused(job, "no data", error)
    except FieldmarkError as error:
        return _refused(job, "refused", error)


def _refused(job: Job, status: Status, error: FieldmarkError) -> Planned:
    return Planned(job, status, str(error), error=error)


def _measure(
    planned: Planned,
    contents: Contents,
    caches: dict[str, ModelCache],
    history: Sequence[Run],
    counted: set[tuple[str, Path, ImageRef]],
) -> Planned:
    prepared, job = planned.prepared, planned.job
    assert prepared is not None
    if job.protocol == "ask":
        return _asked(planned, prepared)
    refs = items_of(job.own, prepared.parts, job.draw)
    name = _feature_name(job)
    fresh = [ref for ref in refs if (name, prepared.root, ref) not in counted]
    counted.update((name, prepared.root, ref) for ref in refs)
    cache = caches.get(name)
    n_missing = count_missing(contents, cache, prepared.root, fresh)
    n_bytes = n_missing * (cache.dim * 4 + 24) if cache else (None if fresh else 0)
    return Planned(
        job,
        "run",
        _note(prepared),
        prepared,
        n_images=len(refs),
        n_missing=n_missing,
        n_parts=len(prepared.parts),
        seconds=_seconds(prepared, n_missing, cache, history),
        n_bytes=n_bytes,
    )


def _asked(planned: Planned, prepared: Prepared) -> Planned:
    """A chat model embeds nothing: what counts is what its answers cost."""
    from fieldmark.protocols.ask import estimate_cost

    job = prepared.job
    settings = AskSettings.of(dict(job.ask))
    try:
        model = load_chat_model(job.model)
        if prepared.documents is not None:
            cost = estimate_documents(prepared.documents, model, job.draw, settings)
        else:
            cost = estimate_cost(job.own, prepared.parts, model, prepared.root, job.draw, settings)
    except FieldmarkError as error:
        return _refused(job, "refused", error)
    n_parts = len(prepared.part_names)
    return replace(planned, why=_note(prepared), n_parts=n_parts, n_bytes=0, cost=cost)


def _feature_name(job: Job) -> str:
    """What the job's features are called in the cache."""
    block = job.own.probe if job.protocol == "probe" else None
    is_patches = block is not None and block.features == "patches"
    return patch_name(job.model) if is_patches else job.model


def _note(prepared: Prepared) -> str:
    task, wanted = prepared.job.task, prepared.job.draw.n_train
    if isinstance(task, DocumentTask) and task.output_type == "generate_until_multi_round":
        return "requests of the first round: how many follow depends on the answers"
    short = [len(part.train) for part in prepared.parts if len(part.train) < wanted]
    if not short:
        return ""
    where = f" in {len(short)} of {len(prepared.parts)} parts" if len(prepared.parts) > 1 else ""
    return f"fewer than {wanted} training images{where} (fewest: {min(short)}): all are used"


def _seconds(
    prepared: Prepared, n_missing: int, cache: ModelCache | None, history: Sequence[Run]
) -> float | None:
    """Embedding at the speed seen before, and the probe's time in earlier runs of the task."""
    alike = [
        run.seconds
        for run in history
        if run.spec.task == prepared.spec.task
        and run.spec.protocol == prepared.spec.protocol
        and run.spec.n_train == prepared.spec.n_train
        and run.seconds is not None
    ]
    speed = cache.images_per_s if cache else None
    if not alike or (n_missing and not speed):
        return None
    return sorted(alike)[len(alike) // 2] + (n_missing / speed if speed else 0.0)
