"""Scores of a run (model selection): which of its exported models did best on the suite?

Evaluations run beside the training; their scores come in when they come in and are kept in
`scores.json`, so that a run that goes on knows those of its past. A checkpoint whose evaluation is
still running is not thrown away. `best.json` names the checkpoint and the model with the highest
score.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fieldmark.build.train.export import ModelCard, can_export_two, export_model, export_two
from fieldmark.build.train.feed.index import TrainData, named_datasets
from fieldmark.build.train.network import ClipTrainingModel, make_clip_model
from fieldmark.build.train.recipe import check_export, recipe_toml
from fieldmark.build.train.record.checkpoint import (
    CheckpointFolder,
    checkpoint_name,
    network_digest,
)
from fieldmark.build.train.suite import TWO, SuiteScore, evaluate_in_background, primary_scores
from fieldmark.errors import DataError, UsageError
from fieldmark.files import json_bytes, remove_parts, small_json, write_file
from fieldmark.progress import Progress

SCORES, BEST, DATA = "scores.json", "best.json", "data.json"
EVALUATED, MODEL = "evaluated", "model"
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class StepScores:
    """Of the model of one step."""

    tasks: tuple[str, ...]
    """that it was evaluated on to the end"""
    scores: tuple[SuiteScore, ...]

    @property
    def named(self) -> dict[str, float]:
        """TASK@METRIC → score, of every task's own metric."""
        return {name: score.value for name, score in primary_scores(self.scores).items()}


def read_step_scores(run: Path) -> dict[int, StepScores]:
    """What `scores.json` holds; nothing where it cannot be read."""
    try:
        values = json.loads((run / SCORES).read_text(encoding="utf-8"))
        return {
            int(step): StepScores(
                tuple(scores_of_step["tasks"]),
                tuple(SuiteScore(**score) for score in scores_of_step["scores"]),
            )
            for step, scores_of_step in values.items()
        }
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return {}


class RunScores:
    """Exports and evaluations of one run; of the first process only."""

    def __init__(
        self,
        export: RunExport,
        step: int,
        store: Path | None,
        flags: Sequence[str],
        progress: Progress,
    ) -> None:
        """`step`: where the run goes on. Scores of later ones are of weights that are gone."""
        self.export, self.store, self.flags, self.progress = export, store, flags, progress
        self.run, self.checkpoints = export.run, export.checkpoints
        self.settings = self.checkpoints.recipe.evaluate
        self._running: dict[int, Any] = {}
        self.failed: set[int] = set()
        """steps of which scores are missing"""
        for folder in (*self.run.glob(f"{MODEL}*"), *self.run.glob(f"{EVALUATED}/step-*")):
            remove_parts(folder)
        before = read_step_scores(self.run)
        self.by_step = {past: scores for past, scores in before.items() if past <= step}
        if self.best_step is None:
            (self.run / BEST).unlink(missing_ok=True)
        self._keep()

    @property
    def rows(self) -> tuple[tuple[int, SuiteScore], ...]:
        """Steps and their scores."""
        return tuple(
            (step, score)
            for step, scores in sorted(self.by_step.items())
            for score in primary_scores(scores.scores).values()
        )

    @property
    def best_step(self) -> int | None:
        """The step with the highest score of `evaluate.best`; of equals the last one."""
        name = self.settings.best
        named = {step: scores.named for step, scores in self.by_step.items()}
        scored = [(scores[name], step) for step, scores in named.items() if name in scores]
        return max(scored)[1] if scored else None

    def start(self, step: int, folder: Path) -> None:
        """Exports the checkpoint of a step and has it evaluated, unless that is known."""
        before = self.by_step.get(step)
        is_known = before is not None and set(self.settings.tasks) <= set(before.tasks)
        if is_known and folder.exists():
            return
        self.export.write(step, folder, scores=before.scores if before else ())
        if not self.settings.tasks or is_known or step in self._running:
            return
        self._running[step] = evaluate_in_background(
            folder, self.settings.tasks, self.store, step, self.flags
        )
        self._keep()

    def wait(self, is_asked: Callable[[], bool]) -> None:
        """Until all evaluations have ended, or somebody asks for the end."""
        while self._running and not is_asked():
            self.collect()
            time.sleep(_PAUSE_S)

    def collect(self) -> None:
        """Takes in what has ended."""
        for step, evaluation in list(self._running.items()):
            if evaluation.is_done:
                del self._running[step]
                evaluation.result()
                if evaluation.problem:
                    self.failed.add(step)
                    self.progress.say(f"{evaluation.problem}.")
                if evaluation.scores:
                    self._note(step, evaluation)

    def _note(self, step: int, evaluation: Any) -> None:
        # What has failed is tried again by the next command.
        tasks = () if evaluation.problem else self.settings.tasks
        scores = self.by_step[step] = StepScores(tasks, tuple(evaluation.scores))
        for name, score in primary_scores(scores.scores).items():
            figures = f"{score.figures(score.value)} {score.interval}".strip()
            self.progress.say(f"step {step:,}: {name} {figures}")
        if (folder := self.folder(step)).name == MODEL:
            self.export.write(step, folder, scores=scores.scores)
        write_file(self.run / SCORES, json_bytes({k: asdict(v) for k, v in self.by_step.items()}))
        self._keep()
        if (best := self.best_step) is not None:
            folder = self.folder(best)
            about = {
                "step": best,
                "metric": self.settings.best,
                "score": self.by_step[best].named[self.settings.best],
                "model": str(folder.relative_to(self.run)),
                "checkpoint": str(self.checkpoints.path(best).relative_to(self.run)),
            }
            write_file(self.run / BEST, json_bytes(about))
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

    def __init__(
        self, run: Path, checkpoints: CheckpointFolder, clip_model: ClipTrainingModel
    ) -> None:
        self.run, self.checkpoints, self.clip_model = run, checkpoints, clip_model

    def write(
        self, step: int, folder: Path, projector: str = "", scores: Sequence[SuiteScore] = ()
    ) -> None:
        """The average of the weights where there is one. Two projectors go into FOLDER-two too."""
        state = self.checkpoints.read(step)
        weights = {**state["model"], **state.get("average", {})}
        card = self._card(step, scores)
        export_model(self.clip_model, weights, folder, projector, card)
        if can_export_two(self.clip_model):
            export_two(self.clip_model, weights, folder.with_name(f"{folder.name}{TWO}"), card)

    def _card(self, step: int, scores: Sequence[SuiteScore]) -> ModelCard:
        data = json.loads((self.run / DATA).read_text(encoding="utf-8"))
        return ModelCard(
            title=self.run.resolve().name,
            recipe=recipe_toml(self.checkpoints.recipe),
            n_shards=data["shards"],
            n_samples=data["samples"],
            caption_coverage=data["coverage"].get("caption", 0) / max(1, data["samples"]),
            caption_models=data.get("caption_models", ()),
            held_out=data.get("held_out", ""),
            datasets=named_datasets(data.get("datasets", {}), data["samples"]),
            data_digest=data["digest"],
            data_licence=self.checkpoints.recipe.data.licence,
            n_steps=step,
            n_pairs=step * self.checkpoints.recipe.train.batch,
            scores=[row for row in scores if row.interval],
        )


def read_data_facts(run: Path) -> dict[str, Any]:
    """What `write_data_facts` wrote; nothing where it cannot be read."""
    return small_json(run / DATA)


def write_data_facts(run: Path, data: TrainData) -> None:
    """What a model card says of the data."""
    about = {
        "shards": len(data.shards),
        "samples": data.n_samples,
        "coverage": dict(data.coverage),
        "caption_models": data.caption_models,
        "splits": data.main.facts.get("split", {}),
        "datasets": data.main.facts.get("dataset", {}),
        "held_out": data.held_out,
        "digest": data.digest,
    }
    write_file(run / DATA, json_bytes(about))


def export_run(
    run: Path, folder: Path, projector: str = "", say: Callable[[str], None] = lambda _: None
) -> int:
    """The model of a run's best checkpoint, or the newest where none was chosen, with one projector
    in the place of the network's; returns its step.
    """
    recipe = check_export(run, folder, projector)
    checkpoints = CheckpointFolder(run / "checkpoints", recipe, "")
    note = checkpoints.newest_whole(say, _best_step(run) if recipe.evaluate.best else None)
    if note is None:
        raise DataError(
            f"{run}  contains no whole checkpoint: train it first, with "
            f"`fieldmark train RECIPE --out {run}`."
        )
    clip_model = make_clip_model(recipe.model, recipe.loss.kind, recipe.train.seed, is_loaded=True)
    if note.recipe.get("network") != network_digest(clip_model):
        raise UsageError(
            f"{run}  was trained with another network: {recipe.model.architecture} has changed "
            "since. Put back the file that it was trained with."
        )
    former = read_step_scores(run).get(note.step)
    scores = former.scores if former else ()
    RunExport(run, checkpoints, clip_model).write(note.step, folder, projector, scores)
    return note.step


def _best_step(run: Path) -> int | None:
    try:
        return int(json.loads((run / BEST).read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
