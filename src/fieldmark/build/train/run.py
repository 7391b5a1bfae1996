"""Training run: from a recipe and shards to a folder with a model, whatever interrupts it.

The loop takes batches, updates, logs, saves and evaluates. Under torchrun every process runs this;
the first one writes. The same call goes on where the last whole checkpoint ends, with the same
batches and, on a CPU, the same losses to the bit.

    SIGUSR1   a checkpoint, then on
    SIGTERM   a checkpoint, then the end with exit code 143: Slurm runs the job again (--requeue)
    SIGINT    the same with 130; a second one ends at once
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from fieldmark.build.train.feed.index import TrainData, open_data
from fieldmark.build.train.feed.loader import TrainBatch, open_loader
from fieldmark.build.train.network import (
    ClipTrainingModel,
    PairFlops,
    card_peak,
    make_clip_model,
    random_modules,
    recompute_blocks,
)
from fieldmark.build.train.optimiser import (
    LossGuard,
    StepNumbers,
    StepReport,
    Updater,
    autocast_type,
)
from fieldmark.build.train.parallel import Ranks, StopSignals, open_ranks, spread
from fieldmark.build.train.recipe import TrainRecipe, recipe_toml
from fieldmark.build.train.record.checkpoint import (
    CheckpointFolder,
    checkpoint_name,
    machine_facts,
    restore_state,
    training_state,
)
from fieldmark.build.train.record.log import FINISHED, GOES_ON, Row, RunLog, RunState
from fieldmark.build.train.record.scores import (
    EVALUATED,
    MODEL,
    RunExport,
    RunScores,
    write_data_facts,
)
from fieldmark.errors import Diverged, RunsFailed, UsageError
from fieldmark.files import try_lock, write_file
from fieldmark.progress import Progress, Silent, rate

MOST_NAMED = 20
"""unreadable samples that are named; the log counts all"""


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """What is trained, on what, and where to."""

    recipe: TrainRecipe
    """with the replay shards, if any"""
    shards: tuple[str, ...]
    captions: Path | None
    out: Path
    device: str = "auto"
    store: Path | None = None
    """results file that evaluations go into"""
    flags: tuple[str, ...] = ()
    """of `fieldmark run`, for evaluations: where data are"""
    data: TrainData | None = None
    """the samples, where the caller has opened them; None = the first process does"""


@dataclass(slots=True)
class TrainTotals:
    """What a run came to."""

    n_steps: int = 0
    first_step: int = 0
    step: int = 0
    loss: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    best_step: int | None = None
    exit_code: int = 0
    is_first: bool = True
    """of several processes this is the one that speaks"""


def train(plan: TrainPlan, progress: Progress | None = None) -> TrainTotals:
    """Trains to the end, or goes on with it; `plan.out` then holds the model."""
    with open_ranks(plan.device) as ranks, _only_one(plan.out, ranks):
        line = progress if progress is not None and ranks.is_first else Silent()
        return TrainRun(plan, ranks, line).run()


def first_network(recipe: TrainRecipe) -> ClipTrainingModel:
    """The network with the weights that training starts from, on the CPU.

    UsageError where rows are computed twice (a gradient cache) and would differ.
    """
    clip_model = make_clip_model(recipe.model, recipe.loss.kind, recipe.train.seed)
    names = random_modules(clip_model) if recipe.train.accumulate > 1 else []
    if names:
        raise UsageError(
            f"train.accumulate is {recipe.train.accumulate}, expected 1 for this network: "
            f"{names[0]} gives another result when a row is computed again (dropout or batch "
            "normalisation). Use train.recompute to save memory."
        )
    return clip_model


class TrainRun:
    """One process's part of a run."""

    def __init__(self, plan: TrainPlan, ranks: Ranks, progress: Progress) -> None:
        self.plan, self.recipe, self.ranks, self.progress = plan, plan.recipe, ranks, progress
        self.totals = TrainTotals(is_first=ranks.is_first)

    def run(self) -> TrainTotals:
        self.recipe.check_shares(self.ranks.n_ranks)
        data = self._open_data()
        n_steps = self.totals.n_steps = data.count_steps(self.recipe)
        if problem := self.recipe.warmup_problem(n_steps):
            self.progress.say(f"Warning: {problem}.")
        self._make_network(n_steps)
        machine = machine_facts(self.recipe, self.clip_model, self.ranks.device)
        self.checkpoints = CheckpointFolder(
            self.plan.out / "checkpoints", self.recipe, data.digest, machine
        )
        first_step = self.totals.first_step = self.totals.step = self._resume()
        self._open_log(first_step, data)
        try:
            with StopSignals(self.ranks) as signals:
                if self._is_evaluated(first_step):  # a run that ended before it knew the scores
                    self._evaluate(self.plan.out / EVALUATED / checkpoint_name(first_step))
                if first_step < n_steps:
                    self._steps(data, signals)
                if self.totals.step == n_steps:
                    self._finish(signals)
                else:
                    self._draw(f"stopped at step {self.totals.step:,}; {GOES_ON}")
                    self.ranks.wait()  # who leaves first may be what a cluster ends the others for
                self.totals.exit_code = self.totals.exit_code or signals.exit_code
        finally:
            if self.ranks.is_first:
                self.scores.stop()
        return self.totals

    # --- before the first step ---

    def _open_data(self) -> TrainData:
        """The first process writes the indexes, the others find them."""
        plan, folder = self.plan, self.plan.out / "index"
        if plan.data is not None:
            return plan.data
        if not self.ranks.is_first:
            self.ranks.wait()
        data = open_data(plan.shards, plan.captions, folder, self.recipe, self.progress)
        if self.ranks.is_first:
            self.ranks.wait()
        return data

    def _make_network(self, n_steps: int) -> None:
        recipe = self.recipe
        self.clip_model = first_network(recipe)
        self._flops = PairFlops(self.clip_model)
        recompute_blocks(self.clip_model, recipe.train.recompute)
        dtype = autocast_type(recipe.train.precision, self.ranks.device)
        self.network = spread(self.clip_model, self.ranks, recipe.train.parallel, dtype)
        self.updater = Updater(
            self.clip_model, self.network, recipe, self.ranks, n_steps, self.progress.say
        )

    def _resume(self) -> int:
        """The step that the run goes on from; 0 = from the beginning."""
        note = self.checkpoints.newest(self.progress.say) if self.ranks.is_first else None
        step: int = self.ranks.share(note.step if note else 0)
        if step:
            state = self.checkpoints.read(step)
            updater = self.updater
            restore_state(state, self.clip_model, updater.optimiser, updater.average, self.ranks)
            if step < self.totals.n_steps:
                self.progress.say(f"continuing after step {step:,}")
        return step

    def _open_log(self, step: int, data: TrainData) -> None:
        self._state = RunState(
            name=self.plan.out.name, n_steps=self.totals.n_steps, recipe=recipe_toml(self.recipe)
        )
        self._n_flops = self._n_named = 0
        """since the last rows of the log; unreadable samples that were named"""
        self._pending: list[StepReport] = []
        self._since = time.perf_counter()
        if self.ranks.is_first:
            write_data_facts(self.plan.out, data)
            write_file(self.plan.out / "recipe.toml", self._state.recipe.encode())
            self.log = RunLog(self.plan.out, step, self.progress.say)
            self.guard = LossGuard(self.recipe.guard, list(self.log.curves.losses))
            export = RunExport(self.plan.out, self.checkpoints, self.clip_model)
            self.scores = RunScores(export, step, self.plan.store, self.plan.flags, self.progress)

    # --- the loop ---

    def _steps(self, data: TrainData, signals: StopSignals) -> None:
        recipe, n_steps, start = self.recipe, self.totals.n_steps, self.totals.step
        self.progress.start("training", n_steps - start)
        loading = open_loader(
            data,
            recipe,
            self.clip_model.tokenise,
            self.ranks.device,
            image_size=self.clip_model.image_size,
            rank=self.ranks.rank,
            n_ranks=self.ranks.n_ranks,
            first_step=start,
            last_step=n_steps,
        )
        with loading as batches:
            for batch in batches:
                self._one_step(batch)
                if signals.is_asked():
                    self._save()
                    if signals.agreed_end:
                        return

    def _one_step(self, batch: TrainBatch) -> None:
        self._n_flops += len(batch.images) * self._flops.of(batch.tokens.shape[1])
        for name in batch.replaced[: MOST_NAMED - self._n_named]:
            self._n_named += 1
            self.progress.say(f"replaced by another sample: {name}")
        self._pending.append(self.updater.step(batch))
        step = self.totals.step = batch.step + 1
        self.progress.advance()
        is_evaluated = self._is_evaluated(step)
        if step % self.recipe.state.every_steps == 0 or step == self.totals.n_steps or is_evaluated:
            self._save()
        elif step % self.recipe.train.log_steps == 0:
            self._write_log()
        if is_evaluated:
            self._evaluate(self.plan.out / EVALUATED / checkpoint_name(step))
        if self.ranks.is_first:
            self.scores.collect()

    def _is_evaluated(self, step: int) -> bool:
        every = self.recipe.evaluate.every_steps
        return bool(every) and 0 < step < self.totals.n_steps and step % every == 0

    def _write_log(self) -> None:
        """Waits for the device; then the numbers of the steps since the last time are known."""
        reports, self._pending = self._pending, []
        numbers = self.updater.read_reports(reports)
        now, since = time.perf_counter(), self._since
        self._since = now
        if not numbers:
            return
        if not self.ranks.is_first:
            self._stop_if_bad("")
            return
        rows = self._rows(reports, numbers, max(now - since, 1e-9))
        self.log.write(rows)
        self.totals.loss = rows[-1]["loss"]
        problems = ((number.step, self.guard.problem(number)) for number in numbers)
        bad = next((f"step {step:,}: the {problem}" for step, problem in problems if problem), "")
        self._show(rows[-1])
        self._stop_if_bad(bad)
        self._draw("running", is_due=False)

    def _rows(
        self, reports: list[StepReport], numbers: list[StepNumbers], seconds: float
    ) -> list[Row]:
        speed = sum(report.n_pairs for report in reports) / seconds
        n_flops, self._n_flops, peak = self._n_flops, 0, card_peak(self.ranks.device)
        mfu = n_flops / seconds / peak if peak else None  # the other processes do as much
        shared = {
            "pairs_per_s": speed,
            "data_wait": min(1.0, sum(report.wait_s for report in reports) / seconds),
            "mfu": mfu,
            "time": round(time.time(), 3),
        }
        names = self.recipe.model.projectors
        return [
            {
                "step": number.step,
                "loss": number.loss,
                "loss_by_type": number.loss_by_type,
                "scales": dict(zip(names, number.scales, strict=True)),
                "lr": number.lr,
                "grad_norm": number.grad_norm,
                "n_pairs": report.n_pairs,
                "n_bad_images": number.n_bad_images,
                **shared,
            }
            for number, report in zip(numbers, reports, strict=True)
        ]

    def _show(self, row: Row) -> None:
        loss = "" if row["loss"] is None else f"loss {row['loss']:.3f}, "
        mfu = "" if row["mfu"] is None else f", MFU {100 * row['mfu']:.0f} %"
        speed = rate(row["pairs_per_s"]).replace("/s", " pairs/s")
        self.progress.status(f"{loss}{speed}, data wait {100 * row['data_wait']:.0f} %{mfu}")

    def _stop_if_bad(self, problem: str) -> None:
        """All processes stop together, and nothing is saved any more."""
        problem = self.ranks.share(problem)
        if not problem:
            return
        settings, notes = self.recipe.optimiser, self.checkpoints.notes()
        good = f"{self.checkpoints.path(notes[0].step)}" if notes else "there is none"
        self._draw(f"stopped: {problem}")
        raise Diverged(
            f"{problem}. Training has stopped; last good checkpoint: {good}. Try a lower "
            f"optimiser.lr (now {settings.lr:g}), more optimiser.warmup_steps (now "
            f"{settings.warmup_steps:,}) or optimiser.clip_norm=1 (now {settings.clip_norm:g}), "
            "in another --out."
        )

    # --- what is kept ---

    def _save(self) -> None:
        """A checkpoint of this moment, after its log: every process takes part."""
        self._write_log()
        updater, step = self.updater, self.totals.step
        state = training_state(self.clip_model, updater.optimiser, updater.average, self.ranks)
        problem = ""
        if self.ranks.is_first and not self.checkpoints.has(step):
            self.log.sync()
            try:
                self.checkpoints.save(step, state)
            except Diverged as error:
                problem = str(error).rstrip(".")
        self._stop_if_bad(problem)
        self._since = time.perf_counter()

    def _evaluate(self, folder: Path) -> None:
        if self.ranks.is_first:
            self.scores.start(self.totals.step, folder)
        self.ranks.wait()
        self._since = time.perf_counter()

    def _finish(self, signals: StopSignals) -> None:
        self._evaluate(self.plan.out / MODEL)
        if not self.ranks.is_first:
            return
        self.scores.wait(lambda: bool(signals.exit_code))
        last = self.scores.by_step.get(self.totals.step)
        self.totals.scores = last.named if last else {}
        self.totals.best_step = self.scores.best_step
        ending = ""
        if signals.exit_code:
            ending = f"; not evaluated yet, {GOES_ON}"
        elif self.totals.step in self.scores.failed:
            self.totals.exit_code = RunsFailed.exit_code
            ending = "; not all of it is evaluated"
        self._draw(f"{FINISHED}{ending}")

    def _draw(self, state: str, is_due: bool = True) -> None:
        if self.ranks.is_first:
            self.log.draw(replace(self._state, state=state, scores=self.scores.rows), is_due)


@contextlib.contextmanager
def _only_one(out: Path, ranks: Ranks) -> Iterator[None]:
    """Refuses a second run in one folder; the lock goes with the process, however it ends."""
    if not ranks.is_first:
        yield
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        file = (out / ".lock").open("wb")
    except OSError as error:
        raise UsageError(f"{out}  cannot be written: {error.strerror or error}.") from None
    with file:
        if try_lock(file) is False:
            raise UsageError(
                f"{out}  is in use by another training process: wait for it, stop it, or give "
                "another --out."
            )
        yield
