"""Steps of runs elsewhere (Slurm, local processes): which are meant, and how is each shown?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from fieldmark.cli._show import printable
from fieldmark.errors import DataError, UnknownName
from fieldmark.progress import duration

if TYPE_CHECKING:
    from fieldmark.experiments.cluster import Executors, JobFolder, StepFolder, StepStatus
    from fieldmark.settings import Settings

StepNames = Annotated[
    Positional[tuple[str, ...]], arg(metavar="[STEP|RUN…]", help_behavior_hint="")
]
ENDED = ("lost", "finished", "merged")


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step, how it stands, and what people and programs are shown of it."""

    step: StepFolder
    status: StepStatus

    @property
    def state(self) -> str:
        """finished: not in the results yet; done: in the results; failed: some of its runs did."""
        state: str = self.status.state
        if state not in ("finished", "merged"):
            return state
        outcome = self.step.outcome
        if outcome is not None and outcome.failures:
            return "failed"
        return "done" if state == "merged" else state

    def plain(self) -> dict[str, Any]:
        """All that is known, as JSON values."""
        step, record, job = self.step, self.step.record, self.step.job
        outcome = step.outcome
        return {
            "step": step.id,
            "kind": record.kind,
            "title": record.title,
            "runs": list(record.runs),
            "state": self.state,
            "reason": self.status.reason,
            "is_merged": step.is_merged,
            "executor": record.executor,
            "job": None if job is None else job.id,
            "after": list(record.after),
            "created": record.created,
            "request": dict(record.request),
            "progress": step.progress or None,
            "host": step.progress.get("host") or (outcome.host if outcome else None),
            "seconds": None if outcome is None else outcome.seconds,
            "n_embedded": None if outcome is None else outcome.n_embedded,
            "failures": [
                {"run": failure.title, "error": failure.error}
                for failure in (outcome.failures if outcome else ())
            ],
            "logs": [str(path) for path in step.logs],
        }

    def row(self) -> dict[str, Any]:
        """What fits on a screen."""
        from fieldmark.experiments.cluster import short_id

        step, record, job = self.step, self.step.record, self.step.job
        where = record.executor if job is None else f"{job.executor} {job.id}"
        host = step.progress.get("host", "")
        return {
            "step": short_id(step.id),
            "kind": record.kind,
            "what": _short(record.title),
            "state": self.state,
            "where": f"{where} on {host}" if host and self.state == "running" else where,
            "since": _since(record.created),
            "progress": self._progress(),
            "log": step.logs[-1].name if step.logs else None,
        }

    def _progress(self) -> str:
        progress = self.step.progress
        if self.state in ("pending", "silent"):
            return self.status.reason
        if self.state == "failed" and (outcome := self.step.outcome) is not None:
            return f"{len(outcome.failures)} of {len(self.step.record.runs)} failed"
        if self.state != "running" or not progress:
            return ""
        total = progress.get("n_total") or 0
        amount = f" {progress.get('n_done', 0):,}/{total:,}" if total else ""
        return f"{_short(str(progress.get('text', '')), 40)}{amount}"


def open_steps(settings: Settings) -> tuple[JobFolder, Executors]:
    """The job folder of the results; DataError where nothing was ever run elsewhere."""
    from fieldmark.experiments.cluster import Executors, JobFolder

    job_folder = JobFolder(settings.results)
    if not job_folder.steps():
        raise DataError(
            f"{job_folder.folder}  has no steps: `fieldmark run --on slurm` (or local) makes them."
        )
    return job_folder, Executors()


def look(steps: Sequence[StepFolder], executors: Executors) -> list[ShownStep]:
    statuses = executors.statuses(steps)
    return [ShownStep(step, statuses[step.id]) for step in steps]


def choose_steps(words: Sequence[str], steps: Sequence[StepFolder]) -> list[StepFolder]:
    """The steps that words stand for: an id or the end of one; else all that do a run whose title
    has the word in it, or whose key begins with it; else all whose own title has it.
    """
    chosen: dict[str, StepFolder] = {}
    for word in words:
        fitting = [step for step in steps if step.id == word or step.id.endswith(f"-{word}")]
        fitting = fitting or [step for step in steps if _does(step, word)]
        fitting = fitting or [step for step in steps if word in step.record.title]
        if not fitting:
            raise UnknownName("step or run", word, (), "fieldmark status --all")
        chosen |= {step.id: step for step in fitting}
    return list(chosen.values())


def log_text(path: Path, start: int = 0, end: int | None = None) -> str:
    """What was printed, from one place of the file to another, as a terminal may be given it."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(-1 if end is None else end - start)
    lines = data.decode("utf-8", "replace").split("\n")
    return "\n".join(map(printable, lines))


def _does(step: StepFolder, word: str) -> bool:
    if any(word in title for title in step.record.runs):
        return True
    outcome = step.outcome if len(word) >= 4 else None
    return outcome is not None and any(key.startswith(word.lower()) for key, _ in outcome.names)


def _since(created: str) -> str:
    """How long ago, in words."""
    try:
        then = datetime.strptime(created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return "-"
    return duration(max(0.0, (datetime.now(UTC) - then).total_seconds()))


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
