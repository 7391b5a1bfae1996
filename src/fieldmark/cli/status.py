"""Show the steps of runs on Slurm or in local processes: state, place, progress and log of each.

Steps that are done are left out, unless asked for. silent: its job is gone, but its worker may
live. lost: it ended without a result; the `run` command again does its work. finished: the `run`
command again, or one that still waits, takes its results over.

examples:
  fieldmark status
  fieldmark status --watch           a digit shows the log of that line, q ends it
  fieldmark status --all --json
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, show_rows, talk
from fieldmark.cli._steps import (
    ENDED,
    ShownStep,
    StepNames,
    choose_steps,
    log_text,
    look,
    open_steps,
)

EVERY_S = 2.0
CLEAR = "\x1b[H\x1b[J"
DIGITS = "123456789"


@dataclass(frozen=True, slots=True)
class StatusArgs:
    steps: StepNames = ()
    """only these: an id of a step, or text in the title of a run [all that are not done]"""
    all: bool = False
    """done steps too"""
    watch: bool = False
    """show it anew every two seconds until nothing is waiting or running"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: StatusArgs) -> int:
    settings = args.common.settings()
    job_folder, executors = open_steps(settings)
    is_screen = args.watch and not args.json and sys.stdin.isatty() and sys.stdout.isatty()
    with _keys() if is_screen else contextlib.nullcontext():
        while True:
            steps = (
                choose_steps(args.steps, job_folder.steps()) if args.steps else job_folder.steps()
            )
            shown = look(steps, executors)
            is_over = all(one.status.state in ENDED for one in shown)
            if is_screen:
                print(CLEAR, end="")
            kept = _show(shown, args, is_screen)
            if not args.watch or (is_over and not is_screen):
                return 0
            if not is_screen:
                time.sleep(EVERY_S)
            elif not _answer(_key(EVERY_S), kept):
                return 0


def _show(shown: list[ShownStep], args: StatusArgs, is_screen: bool) -> list[ShownStep]:
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
    words = " · ".join(f"{n} {state}" for state, n in counts.items())
    talk(f"{counted(len(shown), 'step')}: {words}")
    if is_screen:
        talk("a digit shows the log of that line, q ends this; the steps go on.")
    elif kept:
        talk("`fieldmark logs STEP` shows what one printed, `fieldmark cancel STEP` ends it.")
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
        print(CLEAR, end="")
        print("\n".join(lines[-n_lines:]) or "it has printed nothing yet.")
        talk(f"step {one.step.id}: {one.step.record.title}; any key goes back.")
        _key(None)
    return key != "q"
