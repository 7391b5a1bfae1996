"""Probe (linear evaluation, k-NN, SVM on frozen features): how is a backbone asked a task?

Features of the training images fit the normalisation and a light classifier, features of the test
images are predicted. Nothing of a test image ever reaches a fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fieldmark.errors import CodeNotRun, FieldmarkError, UsageError
from fieldmark.probes import list_parameters, load_probe
from fieldmark.protocols._contract import Assignment, Protocol
from fieldmark.registry import is_file_reference, portable_name, resolve_reference, short_name

if TYPE_CHECKING:
    from pydantic import BaseModel

    from fieldmark.progress import Progress
    from fieldmark.protocols._predictions import PartPredictions
    from fieldmark.protocols._workspace import Workspace

KEPT = ("normalise", "leave_one_out")
"""keys of a block that hold for another classifier too"""


class Probe(Protocol):
    name = "probe"
    summary = "a frozen backbone's features, a light classifier on top"
    head = "classifier"
    learns = True
    needs_features_only = True

    def block(self) -> type[BaseModel]:
        from fieldmark.protocols.probe.block import ProbeBlock

        return ProbeBlock

    def changed_block(self, old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """Another classifier keeps none of the first one's parameters."""
        changed, before = dict(changes), dict(old)
        classifier = str(changes.get("classifier", ""))
        if is_file_reference(classifier):
            file, name = resolve_reference(classifier)
            changed["classifier"] = f"{file}:{name}"
        if changed.get("classifier", old["classifier"]) != old["classifier"]:
            before = {key: old[key] for key in KEPT}
        return before | changed

    def list_keys(self, changes: Mapping[str, Any]) -> Collection[str]:
        """What the classifier declares."""
        keys = set(super().list_keys(changes))
        with suppress(FieldmarkError):  # one that does not exist is told when it is loaded
            keys |= list_parameters(str(changes.get("classifier")))
        return keys

    def problems(self, task: Any) -> list[str]:
        from fieldmark.metrics import load_metric

        block = self.block_of(task)
        try:
            probe = load_probe(block.classifier, block.params)
        except CodeNotRun:
            return []
        except FieldmarkError as error:
            return [f"{task.place_of('probe')}  {error}"]
        for name in (task.metric, *task.also):
            try:
                uses = load_metric(name).uses
            except FieldmarkError:  # told as a problem of the task
                continue
            if uses == "score" and not hasattr(probe, "predict_score"):
                return [
                    f"{task.place_of('metric')}  metric {short_name(name)!r} needs the certainty "
                    "of each answer, and the probe has no predict_score."
                ]
        if block.reject and (task.traits or block.leave_one_out):
            return [
                f"{task.place_of('metric')}  `reject` is for tasks with one label and a separate "
                "training set."
            ]
        return []

    def why_not(
        self, task: Any, draw: Any, settings: Any, abilities: Collection[str]
    ) -> str | None:
        if self.block_of(task) is not None and draw.n_train == 0:
            return "n_train = 0: a probe cannot learn from 0 training images"
        return super().why_not(task, draw, settings, abilities)

    def label(self, task: Any) -> str:
        block = self.block_of(task)  # None: the job is refused, and named before that
        return f"probe/{short_name(block.classifier)}" if block else self.name

    def identity(self, assignment: Assignment) -> dict[str, Any]:
        """An edited probe of the user's is another one."""
        block = self.block_of(assignment.task)
        facts = block.model_dump(mode="json")
        return {"probe": facts | {"classifier": portable_name(block.classifier)}}

    def cache_fingerprint(self, task: Any, fingerprint: str) -> str:
        from fieldmark.embed import patch_fingerprint

        has_patches = fingerprint and self.block_of(task).features == "patches"
        return patch_fingerprint(fingerprint) if has_patches else fingerprint

    def backbone(self, task: Any, model: Any) -> Any:
        from fieldmark.protocols.probe.run import seen_by

        return seen_by(self.block_of(task), model)

    def answer(
        self,
        assignment: Assignment,
        wanted: Collection[str],
        model: Any,
        at: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        from fieldmark.protocols._features import embed_options
        from fieldmark.protocols.probe.run import run

        if self.block_of(assignment.task) is None:
            raise UsageError(f"task {assignment.task.task!r} has no `probe` block.")
        return run(assignment, wanted, model, embed_options(at), progress)


PROTOCOL = Probe()
