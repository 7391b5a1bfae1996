"""Labels of jobs (legend of a sweep): what tells a job from the others of its model and task?

Named are the method (`probe/svm`) and, among jobs of one method, every setting in which some of
them differ (`probe/svm, C=0.1`). A job that is the only one of its model and task, but for seeds
and numbers of training images, which are told anyway, has no label.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fieldmark.protocols import given, label_of, load_protocol

if TYPE_CHECKING:
    from fieldmark.experiments._grid import Job

_DRAW = ("n_test", "sampling", "repeats")
_LONGEST = 40
"""characters of a value"""


def label_jobs(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """The same jobs with their labels, in their order."""
    methods: dict[tuple[str, str], set[str]] = defaultdict(set)
    values: dict[tuple[str, ...], set[str]] = defaultdict(set)
    facts = [dict(_facts(job)) for job in jobs]
    for job, known in zip(jobs, facts, strict=True):
        methods[job.model, job.task_name].add(_method(job))
        for name, value in known.items():
            values[job.model, job.task_name, _method(job), name].add(value)
    labelled = []
    for job, known in zip(jobs, facts, strict=True):
        place = (job.model, job.task_name)
        own = [n for n in known if len(values[*place, _method(job), n]) > 1]
        settings = [f"{name}={known[name]}" for name in own]
        is_told = settings or len(methods[place]) > 1
        label = ", ".join([_method(job), *settings]) if is_told else ""
        labelled.append(replace(job, label=label))
    return tuple(labelled)


def _method(job: Job) -> str:
    return label_of(load_protocol(job.protocol), job.task)


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    block = job.task.block(job.protocol)
    if block is not None:
        yield from _flat(block.model_dump(mode="json"))
    yield from _flat(given(job.settings))
    yield from _flat({name: getattr(job.draw, name) for name in _DRAW})


def _flat(settings: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Names as users write them: a probe's own parameters stand without `params`."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
            continue
        text = str(value)
        yield name, text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
