"""Scores of a run (model selection): which of its exported models did best on the suite?

Evaluations run beside the training; their scores come in when they come in and are kept in
`scores.json`, so that a run that goes on knows them. A checkpoint whose evaluation is still running
is not thrown away. `best.json` names the checkpoint and the model with the highest score.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldmark.build.train.record.checkpoint import CheckpointFolder, checkpoint_name
from fieldmark.build.train.export import export_model
from fieldmark.build.train.recipe import load_recipe
from fieldmark.build.train.suite import evaluate_in_background
from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.files import write_file
from fieldmark.progress import Progress

SCORES, BEST, EVALUATED, MODEL = "scores.json", "best.json", "evaluated", "model"


class RunScores:
    """Exports and evaluations of one run; of the first process only."""

    def __init__(
        self,
        run: Path,
        checkpoints: CheckpointFolder,
        store: Path | None,
        flags: Sequence[str],
        progress: Progress,
    ) -> None:
        self.run, self.checkpoints, self.store, self.flags = run, checkpoints, store, flags
        self.settings, self.progress = checkpoints.recipe.evaluate, progress
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
        export_run(self.run, folder, step=step)
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
                self._note(step, scores)

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


def export_run(run: Path, folder: Path, projector: str = "", step: int | None = None) -> None:
    """The model of a run's newest checkpoint, or of that of a step, with one projector baked in."""
    if not (run / "recipe.toml").is_file():
        raise UsageError(f"{run}  is no folder of a training run: expected recipe.toml in it.")
    recipe = load_recipe(run / "recipe.toml")
    projector = projector or recipe.model.projectors[0]
    if projector not in recipe.model.projectors:
        raise UnknownName("projector", projector, recipe.model.projectors)
    checkpoints = CheckpointFolder(run / "checkpoints", recipe, "")
    steps = [note.step for note in checkpoints.notes()] if step is None else [step]
    if not steps:
        raise DataError(f"{run}  holds no checkpoint yet.")
    state = checkpoints.read(steps[0])
    export_model({**state["model"], **state.get("average", {})}, recipe, folder, projector)


def _json(values: object) -> bytes:
    return (json.dumps(values, indent=1) + "\n").encode()
