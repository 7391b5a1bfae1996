"""List, read or cancel what runs on Slurm or in local processes."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from fieldmark.cli.flags import Common, ResultsFlags
from fieldmark.cli.show import counted, print_json, show, show_rows, steer, talk
from fieldmark.errors import DataError, UnknownName, UsageError, join_problems
from fieldmark.progress import duration

if TYPE_CHECKING:
    from fieldmark.experiments.cluster import Executors, JobFolder, StepFolder, StepStatus
    from fieldmark.settings import Settings

StepNames = Annotated[Positional[tuple[str, ...]], arg(metavar="STEP|RUN…", help_behavior_hint="")]
ENDED = ("lost", "finished", "merged")
SCREEN_S, LOG_S = 2.0, 0.5
"""seconds between two looks"""
CLEAR = "\x1b[H\x1b[J"
DIGITS = "123456789"


# --- ls ---


@dataclass(frozen=True, slots=True)
class JobsLsArgs:
    """List the steps of runs on Slurm or in local processes.

    Steps that are done are left out unless you give --all. silent: the job is gone, but its worker
    may still live. lost: it ended without a result. finished: its results are not merged yet. For
    lost and finished steps, run the same `run` command again.

    examples:
      fieldmark jobs
      fieldmark jobs --watch
      fieldmark jobs ls --all --json
    """

    steps: StepNames = ()
    """only these: the id of a step, or text in the title of a run [all that are not done]"""
    all: bool = False
    """list steps that are done too"""
    watch: bool = False
    """refresh every two seconds until nothing is waiting or running"""
    json: bool = False
    """print JSON"""
    common: ResultsFlags = Common()


def ls(args: JobsLsArgs) -> int:
    settings = args.common.settings()
    job_folder, executors = open_steps(settings)
    is_screen = args.watch and not args.json and sys.stdin.isatty() and sys.stdout.isatty()
    with _keys() if is_screen else contextlib.nullcontext():
        while True:
            steps = job_folder.steps()
            steps = choose_steps(args.steps, steps) if args.steps else steps
            shown = look(steps, executors)
            is_over = all(one.status.state in ENDED for one in shown)
            if is_screen:
                steer(CLEAR)
            kept = _show(shown, args, is_screen)
            if not args.watch or (is_over and not is_screen):
                return 0
            if not is_screen:
                time.sleep(SCREEN_S)
            elif not _answer(_key(SCREEN_S), kept):
                return 0


def _show(shown: list[ShownStep], args: JobsLsArgs, is_screen: bool) -> list[ShownStep]:
    """The steps that are on the screen now."""
    if args.json:
        print_json([one.plain() for one in shown])
        return shown
    kept = [one for one in shown if args.all or args.steps or one.state != "done"]
    rows = [one.row() for one in kept]
    if is_screen:
        keys = [*DIGITS, *[""] * len(rows)]
        rows = [{"key": key} | row for key, row in zip(keys, rows, strict=False)]
    show_rows(rows, False)
    counts = Counter(one.state for one in shown)
    text = " · ".join(f"{n} {state}" for state, n in counts.items())
    talk(f"{counted(len(shown), 'step')}: {text}")
    if is_screen:
        talk("Press a digit to see the log of that line, or q to leave. The steps continue.")
    elif kept:
        talk("`fieldmark jobs logs STEP` shows its log, `fieldmark jobs cancel STEP` ends it.")
    return kept


# --- keys ---


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Keys come one by one and are not shown; afterwards the terminal is as it was."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _key(wait_s: float | None) -> str:
    """The key that is pressed; "" = none in that time. A terminal that is gone wants the end."""
    ready, _, _ = select.select([sys.stdin], [], [], wait_s)
    if not ready:
        return ""
    return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") or "q"


def _answer(key: str, kept: Sequence[ShownStep]) -> bool:
    """Does what a key asks for; False for the one that ends it."""
    if key in DIGITS and key and int(key) <= len(kept):
        one = kept[int(key) - 1]
        n_lines = shutil.get_terminal_size().lines - 3
        lines = [line for path in one.step.logs for line in log_text(path).splitlines()]
        steer(CLEAR)
        show("\n".join(lines[-n_lines:]) or "it has printed nothing yet.")
        talk(f"step {one.step.id}: {one.step.record.title}; any key goes back.")
        _key(None)
    return key != "q"


# --- logs ---


@dataclass(frozen=True, slots=True)
class JobsLogsArgs:
    """Show what the worker of a step printed.

    A traceback of each failed run comes last.

    examples:
      fieldmark jobs logs ab12-0003
      fieldmark jobs logs "classical/colour · beluga"
      fieldmark jobs logs ab12-0003 --follow
    """

    step: Annotated[Positional[str], arg(metavar="STEP|RUN")]
    """an id of a step, or text in the title of a run (`fieldmark jobs --all` lists them)"""
    follow: bool = False
    """keep showing new lines until the step ends"""
    common: ResultsFlags = Common()


def logs(args: JobsLogsArgs) -> int:
    from fieldmark.experiments.cluster import short_id

    job_folder, executors = open_steps(args.common.settings())
    steps = choose_steps([args.step], job_folder.steps())
    if len(steps) > 1 and len({step.record.title for step in steps}) > 1:
        shown = ", ".join(f"{short_id(s.id)} ({s.record.kind})" for s in steps[-5:])
        raise UsageError(f"{len(steps)} steps fit {args.step!r}; the latest are {shown}.")
    step = steps[-1]
    talk(f"step {step.id}: {step.record.title}")
    _print(step, executors, args.follow)
    outcome = step.outcome
    for failure in () if outcome is None else outcome.failures:
        show(f"\nfailed: {failure.title}\n{failure.trace or failure.error}")
    return 0


def _print(step: StepFolder, executors: Executors, is_followed: bool) -> None:
    """The files of the step, and what is added to them while it lives."""
    read: dict[Path, int] = {}
    while True:
        is_over = not is_followed or look([step], executors)[0].status.state in ENDED
        for path in step.logs:
            size = path.stat().st_size
            show(log_text(path, read.get(path, 0), size), end="")
            read[path] = size
        sys.stdout.flush()
        if is_over:
            break
        time.sleep(LOG_S)
    if not any(read.values()):
        talk("it has printed nothing yet.")


# --- cancel ---


@dataclass(frozen=True, slots=True)
class JobsCancelArgs:
    """Cancel steps that run or wait. Finished work is kept.

    A step may hold several runs: all of them end. Run the same `run` command to do the rest.

    examples:
      fieldmark jobs cancel ab12-0003
      fieldmark jobs cancel classical/colour
      fieldmark jobs cancel --all
    """

    steps: StepNames = ()
    """the id of a step, or text in the title of a run, which may match several steps"""
    all: bool = False
    """cancel every step that runs or waits"""
    json: bool = False
    """print JSON"""
    common: ResultsFlags = Common()


def cancel(args: JobsCancelArgs) -> int:
    if bool(args.steps) == args.all:
        raise UsageError("give steps or runs (`fieldmark jobs` lists them), or --all.")
    job_folder, executors = open_steps(args.common.settings())
    steps = job_folder.steps() if args.all else choose_steps(args.steps, job_folder.steps())
    if any(step.job is None for step in steps):
        # Steps may have jobs that their launcher did not live to note down, or be on their way.
        from fieldmark.experiments.cluster import recover_steps
        from fieldmark.leases import LeaseFolder

        with LeaseFolder(job_folder.folder) as leases, leases.turn("launch"):
            recover_steps(steps, executors)
    living = [one.step for one in look(steps, executors) if one.status.state not in ENDED]
    by_executor = defaultdict(list)
    for step in living:
        by_executor[step.record.executor if step.job is None else step.job.executor].append(step)
    problems = []
    for name, steps_of_executor in by_executor.items():
        try:
            executors[name].cancel(steps_of_executor)
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError(join_problems(problems, "the others were cancelled"))
    if args.json:
        print_json([step.id for step in living])
    talk(f"{counted(len(living), 'step')} cancelled, {len(steps) - len(living)} had ended before.")
    return 0


# --- steps ---


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
            raise UnknownName("step or run", word, (), "fieldmark jobs --all")
        chosen |= {step.id: step for step in fitting}
    return list(chosen.values())


def log_text(path: Path, start: int = 0, end: int | None = None) -> str:
    """What was printed, from one place of the file to another."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(-1 if end is None else end - start)
    return data.decode("utf-8", "replace")


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
