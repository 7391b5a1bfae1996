"""Scores of a run (model selection): which of its exported models did best on the suite?

Evaluations run beside the training; their scores come in when they come in and are kept in
`scores.json`, so that a run that goes on knows them. A checkpoint whose evaluation is still running
is not thrown away. `best.json` names the checkpoint and the model with the highest score.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldmark.build.train.export import (
    CardScore,
    ModelCard,
    can_export_two,
    export_model,
    export_two,
)
from fieldmark.build.train.index import TrainData
from fieldmark.build.train.network import Trainee, make_trainee
from fieldmark.build.train.recipe import load_recipe, recipe_toml
from fieldmark.build.train.record.checkpoint import CheckpointFolder, checkpoint_name
from fieldmark.build.train.suite import TWO, SuiteScore, evaluate_in_background
from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.files import write_file
from fieldmark.progress import Progress

SCORES, BEST, DATA = "scores.json", "best.json", "data.json"
EVALUATED, MODEL = "evaluated", "model"


class RunScores:
    """Exports and evaluations of one run; of the first process only."""

    def __init__(
        self,
        export: RunExport,
        store: Path | None,
        flags: Sequence[str],
        progress: Progress,
    ) -> None:
        self.export, self.store, self.flags, self.progress = export, store, flags, progress
        self.run, self.checkpoints = export.run, export.checkpoints
        self.settings = self.checkpoints.recipe.evaluate
        self._running: dict[int, Any] = {}
        self.by_step = self._read()
        self._keep()

    def _read(self) -> dict[int, dict[str, float]]:
        try:
            values = json.loads((self.run / SCORES).read_text(encoding="utf-8"))
            return {int(step): dict(scores) for step, scores in values.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    @property
    def rows(self) -> tuple[tuple[int, str, float], ...]:
        """Step, TASK@METRIC, score."""
        return tuple(
            (step, name, score)
            for step, scores in sorted(self.by_step.items())
            for name, score in scores.items()
        )

    @property
    def best_step(self) -> int | None:
        """The step with the highest score of `evaluate.best`; of equals the last one."""
        name = self.settings.best
        scored = [(scores[name], step) for step, scores in self.by_step.items() if name in scores]
        return max(scored)[1] if scored else None

    def start(self, step: int, folder: Path) -> None:
        """Exports the checkpoint of a step and has it evaluated, unless that is known."""
        if step in self.by_step and folder.exists():
            return
        self.export.write(step, folder)
        if not self.settings.tasks or step in self.by_step or step in self._running:
            return
        self._running[step] = evaluate_in_background(
            folder, self.settings.tasks, self.store, step, self.flags
        )
        self._keep()

    def collect(self, is_waiting: bool = False) -> None:
        """Takes in what has ended; `is_waiting`: and waits for the rest."""
        for step, evaluation in list(self._running.items()):
            if is_waiting or evaluation.is_done:
                del self._running[step]
                scores = evaluation.result()
                if evaluation.problem:
                    self.progress.say(f"{evaluation.problem}.")
                    continue  # it is tried again by the next command
                self._note(step, scores)
                if (folder := self.folder(step)).name == MODEL:
                    self.export.write(step, folder, scores=evaluation.scores)

    def _note(self, step: int, scores: Mapping[str, float]) -> None:
        for name, score in scores.items():
            self.progress.say(f"step {step:,}: {name} {score:.3f}")
        self.by_step[step] = dict(scores)
        write_file(self.run / SCORES, _json(self.by_step))
        self._keep()
        if (best := self.best_step) is not None:
            folder = self.folder(best)
            facts = {
                "step": best,
                "metric": self.settings.best,
                "score": self.by_step[best][self.settings.best],
                "model": str(folder.relative_to(self.run)),
                "checkpoint": str(self.checkpoints.path(best).relative_to(self.run)),
            }
            write_file(self.run / BEST, _json(facts))
        self._prune()

    def _keep(self) -> None:
        best = self.best_step
        self.checkpoints.kept = {*self._running, *({best} if best is not None else ())}

    def folder(self, step: int) -> Path:
        """Where the model of a step is exported to: `model` for the last one."""
        inner = self.run / EVALUATED / checkpoint_name(step)
        return inner if inner.exists() else self.run / MODEL

    def _prune(self) -> None:
        """Exported models stay as long as their checkpoints."""
        kept = {checkpoint_name(step) for step in self.checkpoints.kept}
        kept |= {note.name for note in self.checkpoints.notes()}
        for folder in (self.run / EVALUATED).glob("step-*"):
            if folder.is_dir() and not folder.name.startswith(tuple(kept)):
                shutil.rmtree(folder, ignore_errors=True)

    def stop(self) -> None:
        """Ends evaluations that nobody waits for any more."""
        for evaluation in self._running.values():
            evaluation.stop()


class RunExport:
    """Models of a run's checkpoints, as folders that open_clip loads."""

    def __init__(self, run: Path, checkpoints: CheckpointFolder, trainee: Trainee) -> None:
        self.run, self.checkpoints, self.trainee = run, checkpoints, trainee

    def write(
        self, step: int, folder: Path, projector: str = "", scores: Sequence[SuiteScore] = ()
    ) -> None:
        """The average of the weights where there is one. Two projectors go into FOLDER-two too."""
        state = self.checkpoints.read(step)
        weights = {**state["model"], **state.get("average", {})}
        card = self._card(step, scores)
        export_model(self.trainee, weights, folder, projector, card)
        if can_export_two(self.trainee):
            export_two(self.trainee, weights, folder.with_name(f"{folder.name}{TWO}"), card)

    def _card(self, step: int, scores: Sequence[SuiteScore]) -> ModelCard:
        facts = json.loads((self.run / DATA).read_text(encoding="utf-8"))
        rows = [
            CardScore(one.task, one.metric, one.value, one.low, one.high, one.n)
            for one in scores
            if one.low is not None and one.high is not None
        ]
        return ModelCard(
            title=self.run.resolve().name,
            recipe=recipe_toml(self.checkpoints.recipe),
            n_shards=facts["shards"],
            n_samples=facts["samples"],
            caption_coverage=facts["coverage"].get("caption", 0) / max(1, facts["samples"]),
            data_digest=facts["digest"],
            data_licence="",
            n_steps=step,
            n_pairs=step * self.checkpoints.recipe.train.batch,
            scores=rows,
        )


def write_data_facts(run: Path, data: TrainData) -> None:
    """What a model card says of the data."""
    facts = {
        "shards": len(data.shards),
        "samples": data.n_samples,
        "coverage": dict(data.coverage),
        "digest": data.digest,
    }
    write_file(run / DATA, _json(facts))


def export_run(
    run: Path, folder: Path, projector: str = "", say: Callable[[str], None] = lambda _: None
) -> int:
    """The model of a run's newest whole checkpoint, with one projector in the place of the
    network's; returns its step.
    """
    if not (run / "recipe.toml").is_file():
        raise UsageError(f"{run}  is no folder of a training run: expected recipe.toml in it.")
    recipe = load_recipe(run / "recipe.toml")
    if projector and projector not in recipe.model.projectors:
        raise UnknownName("projector", projector, recipe.model.projectors)
    checkpoints = CheckpointFolder(run / "checkpoints", recipe, "")
    note = checkpoints.newest_whole(say)
    if note is None:
        raise DataError(
            f"{run}  holds no whole checkpoint: train it first, with "
            f"`fieldmark train RECIPE --out {run}`."
        )
    trainee = make_trainee(recipe.model, recipe.loss.kind, recipe.train.seed)
    RunExport(run, checkpoints, trainee).write(note.step, folder, projector)
    return note.step


def _json(values: object) -> bytes:
    return (json.dumps(values, indent=1) + "\n").encode()
