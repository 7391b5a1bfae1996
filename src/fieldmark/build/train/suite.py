"""Evaluation during training: a model's folder is run on tasks, in a process of its own.

It is what a person would type (`fieldmark run --model open-clip/local-dir:FOLDER --task …`), so the
run stands in the store with its predictions and on the leaderboard beside all others. Whatever goes
wrong there is one line here and a log beside the folder: training does not wait and does not end.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.errors import DataError, FieldmarkError, RunsFailed, UsageError, first_line
from fieldmark.processes import Child
from fieldmark.registry import short_name
from fieldmark.store import RunFilter, Store
from fieldmark.words import score_words

if TYPE_CHECKING:
    from fieldmark.build.train.recipe import EvaluateRecipe
    from fieldmark.settings import Settings

TWO = "-two"
"""ending of the folder that holds both projectors, beside the one for every reader"""
_OF_TORCHRUN = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
)  # fmt: skip
_PATIENCE_S = 10
"""for a process that was asked to end"""
_PREFERRED = ("zero_shot", "retrieve", "rerank")
"""where a task is asked in several ways, its score is that of the first of these"""


@dataclass(frozen=True, slots=True)
class SuiteScore:
    """A score of a task, with its 95 % interval."""

    task: str
    protocol: str
    metric: str
    value: float
    low: float | None
    high: float | None
    n: int
    is_primary: bool
    is_fraction: bool = True
    is_synthetic: bool = False
    """fieldmark drew the photos"""

    @property
    def interval(self) -> str:
        """`[44.9, 48.0]`; "" where there is none."""
        if self.low is None or self.high is None:
            return ""
        return f"[{self.figures(self.low)}, {self.figures(self.high)}]"

    def figures(self, value: float) -> str:
        """A value of this score as `fieldmark table` shows it."""
        return score_words(value, self.is_fraction)

    @property
    def name(self) -> str:
        """`TASK@METRIC`, as `evaluate.best` has it."""
        return f"{self.task}@{self.metric}"


def primary_scores(scores: Iterable[SuiteScore]) -> dict[str, SuiteScore]:
    """`TASK@METRIC` → score, of every task's own metric, by the preferred protocol."""
    named: dict[str, SuiteScore] = {}
    for score in scores:
        if score.is_primary:
            named.setdefault(score.name, score)
    return named


class SuiteRun:
    """A running or finished evaluation of one folder."""

    def __init__(
        self,
        function: Callable[..., int],
        words: Sequence[str],
        title: str,
        where: tuple[str, Path],
        log: Path,
    ) -> None:
        """`where` its scores will be: the name of the model, and the results file."""
        self.log, self._title, self._where = log, title, where
        self.problem = ""
        """why there are no scores; known after `result`"""
        self.scores: tuple[SuiteScore, ...] = ()
        """all scores of the whole tasks; known after `result`"""
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        gone = (
            *_OF_TORCHRUN,
            *(("OMP_NUM_THREADS",) if "TORCHELASTIC_RUN_ID" in os.environ else ()),
        )
        environment = {key: text for key, text in os.environ.items() if key not in gone}
        self._child: Child | None = None
        try:
            self._child = Child(function, *words, log=log, environment=environment)
        except OSError as error:
            self.problem = f"{title} could not be started: {error.strerror or error}"

    @property
    def is_done(self) -> bool:
        return self._child is None or self._child.status is not None

    def result(self) -> Mapping[str, float]:
        """`TASK@METRIC` → score, of every task's own metric; waits for the end. Where some are
        missing, `problem` says why.
        """
        if self._child is None:
            return {}
        code = self._child.wait()
        if code:
            self.problem = f"{self._title} ended with {code} ({_last_line(self.log)}): {self.log}"
        if code not in (0, RunsFailed.exit_code):
            return {}
        try:
            self.scores = read_scores(*self._where)
        except FieldmarkError as error:
            self.problem = f"{self._title}: {first_line(error)}"
        if not self.scores and not self.problem:  # the store knows weights, not folders
            self.problem = (
                f"{self._title} found these weights evaluated before, in another folder: their "
                f"scores are in {self._where[1]} under that model's name"
            )
        return {name: score.value for name, score in primary_scores(self.scores).items()}

    def stop(self) -> None:
        """Ends it, when training has ended before it: the same command runs it again."""
        if self._child is not None:
            self._child.end(_PATIENCE_S)


def check_tasks(evaluate: EvaluateRecipe, settings: Settings, is_typed: bool) -> None:
    """Whether all of them can be evaluated on, before a training has run for days. `is_typed`: by
    --evaluate, not by the recipe.
    """
    from fieldmark.protocols import no_data, root_of
    from fieldmark.tasks import Task, load_task

    evaluate.check_best()
    best_task, _, metric = evaluate.best.rpartition("@")
    for name in evaluate.tasks:
        task = load_task(name)
        if not isinstance(task, Task):
            continue
        if name == best_task and metric != (own_metric := short_name(task.metric)):
            raise UsageError(
                f"evaluate.best names {metric!r}, but {name} is scored by {own_metric}: give "
                f"evaluate.best={name}@{own_metric}."
            )
        if not (root := root_of(task, settings)).exists():
            text = no_data(task.dataset, root)
            raise DataError(
                f"--evaluate {name}: {text}"
                if is_typed
                else f"the recipe evaluates {name}: {text} To train without evaluating, add "
                "--set 'evaluate.tasks=[]'."
            )


def model_name(folder: Path) -> str:
    """The name of an exported model in `fieldmark run`: of two folders that with both
    projectors. Paths below the working directory are relative, as a person types them.
    """
    two = folder.with_name(f"{folder.name}{TWO}")
    path = (two if two.is_dir() else folder).absolute()
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"open-clip/local-dir:{shown}"


def evaluate_in_background(
    folder: Path, tasks: Sequence[str], store: Path | None, step: int, flags: Sequence[str] = ()
) -> SuiteRun:
    """Starts the evaluation of an exported model. `store` is the results file, `flags` say where
    data are.
    """
    model = model_name(folder)
    store = store or Path("results") / "fieldmark.db"
    words = ["run", "--model", model]
    words += [word for task in tasks for word in ("--task", task)]
    words += ["--results", str(store.parent), *flags]
    log = folder.with_name(f"{folder.name}.log")
    return SuiteRun(_fieldmark, words, f"the evaluation of step {step:,}", (model, store), log)


def _fieldmark(*words: str) -> int:
    """What `python -m fieldmark WORDS` does."""
    sys.argv = ["fieldmark", *words]
    runpy.run_module("fieldmark", run_name="__main__")
    return 0


def setting_flags(settings: Settings, device: str = "") -> tuple[str, ...]:
    """Where files are, for a process that does not get the flags of this one. `device`: another."""
    flags = ["--data-root", str(settings.data_root), "--cache", str(settings.cache)]
    for name, folder in settings.data.items():
        flags += ["--data", f"{name}={folder}"]
    return (*flags, "--device", device or settings.device)


def read_scores(model: str, store: Path) -> tuple[SuiteScore, ...]:
    """The scores of a model's newest run on each task, those of the preferred protocol first."""
    where = RunFilter(models=(model,), states=("done",))
    with Store.open(store, read_only=True) as opened:
        runs = {
            (run.spec.task_name, run.spec.protocol): run
            for run in sorted(opened.runs(where), key=lambda run: run.id)
        }
        scores = opened.scores(where)
    return tuple(
        SuiteScore(
            task, protocol, one.metric, one.value, one.low, one.high, one.n, one.is_primary,
            one.is_fraction, run.marks.is_synthetic,
        )
        for (task, protocol), run in sorted(runs.items(), key=lambda item: _place(item[0]))
        for one in scores.get(run.id, ())
        if not one.part
    )  # fmt: skip


def _place(question: tuple[str, str]) -> tuple[str, int, str]:
    task, protocol = question
    name = protocol.partition("/")[0]
    return task, _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED), protocol


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1].strip()[:200] if lines else "no message"
