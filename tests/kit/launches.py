"""Commands in processes of their own that are killed at a chosen call, and start at once."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

LAUNCH, BOARD = "fieldmark.experiments.cluster.launch", "fieldmark.experiments.cluster.board"
GATHER, WORKER = "fieldmark.experiments.cluster.gather", "fieldmark.experiments.cluster.worker"
MOMENTS = {
    "with one of its steps written": (BOARD, "write_work", 2, False),
    "with its steps written and none submitted": (LAUNCH, "group_steps", 1, False),
    "with steps submitted and none noted down": (BOARD, "StepFolder.write_job", 1, False),
    "with one step submitted": (BOARD, "StepFolder.write_job", 1, True),
    "with the first step done": (BOARD, "StepFolder.write_job", 2, False),
    "in a run": ("fieldmark.store", "Store.write_part", 3, True),
    "in the last run": ("fieldmark.store", "Store.finish_run", 4, False),
    "before it merges": (GATHER, "merge_shards", 1, False),
    "before the steps are marked as merged": (GATHER, "merge_shards", 1, True),
    "with one step marked as merged": (BOARD, "StepFolder.mark_merged", 1, True),
}
"""where a process is killed: module, function, at which of its calls, and whether after it"""


def start(words: Sequence[str], kill: str = "", errors: str = "") -> ForkServerProcess:
    """A fieldmark command in a process of its own, with this one's folder and variables; standard
    error goes to the file `errors`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fieldmark.cli.run", LAUNCH, GATHER, "sklearn.linear_model"])
    process = context.Process(
        target=_run, args=(list(words), kill, errors, Path.cwd(), dict(os.environ))
    )
    process.start()
    return process


def _run(words: list[str], kill: str, errors: str, folder: Path, variables: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if errors:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT, 0o644), 2)
    if kill:
        _arm(kill)
    from fieldmark.cli import main

    sys.argv = ["fieldmark", *words]
    os._exit(main(words))


def _arm(moment: str) -> None:
    module, path, count, is_after = MOMENTS[moment]
    owner = importlib.import_module(module)
    *outer, last = path.split(".")
    for name in outer:
        owner = getattr(owner, name)
    original, calls = getattr(owner, last), itertools.count(1)

    def armed(*args: object, **named: object) -> object:
        number = next(calls)
        if number == count and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **named)
        if number == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, armed)
