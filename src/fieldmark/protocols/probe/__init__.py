"""Probe (linear evaluation, k-NN, SVM on frozen features): how is a backbone asked a task?

Features of the training images fit the normalisation and a light classifier, features of the test
images are predicted. Nothing of a test image ever reaches a fit.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from fieldmark.errors import CodeNotRun, FieldmarkError
from fieldmark.protocols._contract import Protocol, later
from fieldmark.registry import portable_name, short_name

if TYPE_CHECKING:
    from fieldmark.protocols._question import Question, Workspace


class Probe(Protocol):
    """a frozen backbone's features, a light classifier on top"""

    name = "probe"
    version = 2  # searches hold out whole units
    training = "needed"
    Block = later("fieldmark.protocols.probe.block:ProbeBlock")
    answer = later("fieldmark.protocols.probe.run:run")

    def problems(self, task: Any) -> list[str]:
        from fieldmark.probes import load_probe
        from fieldmark.protocols._score import known_metric

        block = task.block(self.name)
        try:
            probe = load_probe(block.classifier, block.params)
        except CodeNotRun:
            return []
        except FieldmarkError as error:
            return [f"{task.line_of('probe')}  {error}"]
        for name in (task.metric, *task.also):
            known = known_metric(name)  # None: told as a problem of the task
            if known is not None and known.uses == "score" and not hasattr(probe, "predict_score"):
                return [
                    f"{task.line_of('metric')}  metric {short_name(name)!r} needs the certainty "
                    "of each answer, and the probe has no predict_score."
                ]
        if block.reject and (task.traits or block.leave_one_out):
            return [
                f"{task.line_of('metric')}  `reject` is for tasks with one label and a separate "
                "training set."
            ]
        return []

    def why_not(
        self, task: Any, draw: Any, settings: Any, abilities: Collection[str]
    ) -> str | None:
        if self.reads(task) and task.block(self.name) is not None and draw.n_train == 0:
            return "n_train = 0: a probe cannot learn from 0 training images"
        return super().why_not(task, draw, settings, abilities)

    def prepare(self, task: Any, draw: Any, settings: Any, workspace: Workspace) -> Question:
        from fieldmark.embed import patch_fingerprint
        from fieldmark.protocols._question import table_question
        from fieldmark.protocols.probe.run import seen_by

        block = task.block(self.name)
        # An edited probe of the user's is another one.
        block_settings = block.model_dump(mode="json") | {
            "classifier": portable_name(block.classifier)
        }
        has_patches = block.features == "patches"
        return table_question(
            self,
            task,
            draw,
            settings,
            workspace,
            identity={self.name: block_settings},
            backbone=partial(seen_by, block),
            cache_name=lambda key: patch_fingerprint(key) if key and has_patches else key,
            needs_features_only=True,
        )


PROTOCOL = Probe()
