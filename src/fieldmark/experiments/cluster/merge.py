"""Merging (one writer): how do the results of finished steps get into the store?

Whoever holds the lease `merge` of the job folder does it; everything here may be done twice, and a
process that dies half-way leaves what the next one does again. Files come first, then the store,
and the mark that a step is merged last.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fieldmark.data import MEMORY, absorb_contents
from fieldmark.errors import StoreError
from fieldmark.experiments.cluster.job_folder import JobFolder, StepFolder, short_id
from fieldmark.experiments.cluster.work import OUTCOME
from fieldmark.files import copy_file
from fieldmark.leases import LeaseFolder
from fieldmark.settings import Settings
from fieldmark.store import RunName, Store, merge_shards

STORE = "fieldmark.db"


@dataclass(frozen=True, slots=True)
class Merged:
    """What one round of merging brought."""

    steps: tuple[StepFolder, ...] = ()
    """that are merged now"""
    damaged: tuple[tuple[StepFolder, str], ...] = ()
    """whose results cannot be read, and why: they were put aside and count as lost"""
    put_off: tuple[tuple[StepFolder, str], ...] = ()
    """whose results cannot be read now, and why: they stay for another try"""

    @property
    def lines(self) -> dict[str, str]:
        """What people are told, by step; nothing of those that are merged."""
        lost, late = "are damaged and were put aside", "cannot be read now and are tried again"
        return {
            step.id: f"the results of step {short_id(step.id)} {what}: {why}"
            for faults, what in ((self.damaged, lost), (self.put_off, late))
            for step, why in faults
        }


def merge_ready(job_folder: JobFolder, settings: Settings, leases: LeaseFolder) -> Merged:
    """Merges all steps that are finished; nothing while another process is merging."""
    ready = [step for step in job_folder.steps() if not step.is_merged and step.is_finished]
    lease = leases.claim("merge") if ready else None
    if lease is None:
        return Merged()
    try:
        ready = [step for step in ready if not step.is_merged]
        damaged, put_off = _merge(ready, settings)
        lease.check()
        for step, _ in damaged:
            step.shard.rename(step.path / f"damaged-{os.urandom(2).hex()}")
        late = {step for step, _ in put_off}
        merged = [step for step in ready if step.is_finished and step not in late]
        for step in merged:
            step.mark_merged()
        job_folder.drop_contents()
    finally:
        leases.give_up(lease, is_done=True)
    return Merged(tuple(merged), tuple(damaged), tuple(put_off))


_Faults = list[tuple[StepFolder, str]]


def _merge(steps: Sequence[StepFolder], settings: Settings) -> tuple[_Faults, _Faults]:
    """The steps whose results are damaged, those whose results cannot be read now, and why."""
    broken = [(step, fault) for step in steps if (fault := _fault_of(step))]
    whole = [step for step in steps if step not in {step for step, _ in broken}]
    by_file = {step.shard / STORE: step for step in whole if (step.shard / STORE).is_file()}
    faults: list[tuple[StepFolder, StoreError]] = []
    again: set[RunName] = set()
    for step in whole:
        outcome = step.outcome
        again.update(outcome.again if outcome is not None else ())
        _move(step.shard / "files", settings.results / "files", is_newer=True)
        _move(step.shard / "models", settings.results / "models", is_newer=False)
    if by_file:
        with Store.open(settings.store) as main:
            counts = merge_shards(main, list(by_file), replaced=again)
            faults = [(by_file[path], error) for path, error in counts.faults]
    memories = [step.shard / MEMORY for step in whole if (step.shard / MEMORY).is_file()]
    absorb_contents(settings.cache / MEMORY, memories)
    damaged = [(step, str(error)) for step, error in faults if not error.may_pass]
    return [*broken, *damaged], [(step, str(error)) for step, error in faults if error.may_pass]


def _fault_of(step: StepFolder) -> str:
    """What a disk that failed has left of a finished step; "" = both of its files are there."""
    if step.outcome is None:
        return f"{step.shard / OUTCOME}  is missing or damaged."
    store = step.shard / STORE
    if step.record.kind != "embed" and not (store.is_file() and store.stat().st_size):
        return f"{store}  is missing or empty."
    return ""


def _move(source: Path, target: Path, is_newer: bool) -> None:
    """Moves the files of a folder to where they would be after a run of one process; those that are
    there already are replaced only where these are newer.
    """
    for folder, _, names in os.walk(source):
        inner = target / Path(folder).relative_to(source)
        for name in names:
            if is_newer or not (inner / name).exists():
                inner.mkdir(parents=True, exist_ok=True)
                _replace(Path(folder) / name, inner / name)


def _replace(source: Path, target: Path) -> None:
    """Moves a file; where the job folder is on another file system, it is copied."""
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy_file(source, target)
