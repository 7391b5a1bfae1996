"""Signals (SIGTERM, SIGUSR1, Ctrl-C): what has whoever runs this asked for, since the last step?

Several processes save together or not at all, so they agree on it after every step: over gloo, on
the CPU, so that nothing waits for a GPU. torchrun kills 30 s after it has passed on a SIGTERM.
Slurm may send SIGTERM twice, by itself and through srun: only a second Ctrl-C is impatience.
"""

from __future__ import annotations

import contextlib
import signal
from types import FrameType
from typing import Any

import torch
from torch import distributed

from fieldmark.build.train.parallel import PATIENCE, Ranks

_ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopSignals:
    """Notes which signals came, for the loop to act on between two steps."""

    def __init__(self, ranks: Ranks) -> None:
        """Every process makes one."""
        self.agreed_end = 0
        """exit code that all processes end with after this step; 0 = they go on"""
        self._wanted_end = 0
        self._is_asked = False
        self._before: dict[int, Any] = {}
        self._group: Any = None
        if ranks.n_ranks > 1:
            self._group = distributed.new_group(backend="gloo", timeout=PATIENCE)

    @property
    def exit_code(self) -> int:
        """What this process is to end with as soon as it can; 0 = nobody wants the end."""
        return self.agreed_end or self._wanted_end

    def is_asked(self) -> bool:
        """Whether any process was asked for a checkpoint; all call it after every step.

        A signal that comes while they agree counts in the next step.
        """
        is_asked, self._is_asked = self._is_asked, False
        self.agreed_end = self._wanted_end if is_asked else 0
        if self._group is None:
            return is_asked
        flags = torch.tensor([float(is_asked), float(self.agreed_end)])
        distributed.all_reduce(flags, distributed.ReduceOp.MAX, group=self._group)
        self.agreed_end = int(flags[1])
        return bool(flags[0])

    def _note(self, number: int, _: FrameType | None) -> None:
        self._is_asked = True
        if number in _ENDS:
            self._wanted_end = _ENDS[signal.Signals(number)]
        if number == signal.SIGINT:
            signal.signal(number, self._before[number])  # a second one ends at once

    def __enter__(self) -> StopSignals:
        wanted = [*_ENDS, getattr(signal, "SIGUSR1", None)]
        with contextlib.suppress(ValueError):  # not in the main thread: whoever runs it decides
            for number in (number for number in wanted if number is not None):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
