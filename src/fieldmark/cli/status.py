"""Show the steps of runs on Slurm or in local processes: state, place, progress and log of each.

Steps that are done are left out, unless asked for. silent: its job is gone, but its worker may
live. lost: it ended without a result; the `run` command again does its work. finished: the `run`
command again, or one that still waits, takes its results over.

examples:
  fieldmark status
  fieldmark status --watch
  fieldmark status --all --json
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, show_rows, talk
from fieldmark.cli._steps import ENDED, ShownStep, StepNames, choose_steps, look, open_steps

EVERY_S = 2.0
CLEAR = "\x1b[H\x1b[J"


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
    import sys

    settings = args.common.settings()
    board, places = open_steps(settings)
    while True:
        steps = choose_steps(args.steps, board.steps()) if args.steps else board.steps()
        shown = look(steps, places)
        is_over = all(one.standing.state in ENDED for one in shown)
        if args.watch and sys.stdout.isatty():
            print(CLEAR, end="")
        _show(shown, args)
        if not args.watch or is_over:
            return 0
        time.sleep(EVERY_S)


def _show(shown: list[ShownStep], args: StatusArgs) -> None:
    if args.json:
        print_json([one.plain() for one in shown])
        return
    kept = [one for one in shown if args.all or args.steps or one.state != "done"]
    show_rows([one.row() for one in kept], False)
    counts = Counter(one.state for one in shown)
    words = " · ".join(f"{n} {state}" for state, n in counts.items())
    talk(f"{counted(len(shown), 'step')}: {words}")
    if kept:
        talk("`fieldmark logs STEP` shows what one printed, `fieldmark cancel STEP` ends it.")
