"""A step that a test writes down: what a worker does, in little, without models and images.

`script.json` of its folder says how many units of work there are, how long one takes, for which
file to wait and how the worker ends; `trace.txt` gets a line for every start and unit. A unit that
was done is not done again. Imports nothing but what every job needs.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class ScriptTask:
    """Picklable, and with a checkpoint, as the real one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self) -> int:
        folder = Path(self.folder)
        script = json.loads((folder / "script.json").read_text())
        self._say("start", os.environ.get("SLURM_RESTART_COUNT", "0"))
        for name in script.get("show", ()):
            self._say("show", name, os.environ.get(name, "-"))
        done = (folder / "trace.txt").read_text().count("unit ")
        for number in range(done, script.get("units", 1)):
            time.sleep(script.get("unit_s", 0.0))
            self._say("unit", str(number))
        while "until" in script and not Path(script["until"]).exists():
            time.sleep(0.05)
        if script.get("status", 0):
            return int(script["status"])
        self._say("end", str(os.getpid()))
        (folder / "shard").mkdir()
        return 0

    def checkpoint(self) -> Any:
        from submitit.helpers import DelayedSubmission

        self._say("checkpoint")
        return DelayedSubmission(self)

    def _say(self, *words: str) -> None:
        with (Path(self.folder) / "trace.txt").open("a") as file:
            file.write(f"{' '.join(words)} {time.time():.3f}\n")
