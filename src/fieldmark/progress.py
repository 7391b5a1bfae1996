"""Progress bar and log lines: how does long work tell how far it is?

One live region on a terminal; one log line every 30 s where there is none. All of it goes to
standard error, so that data on standard output stays clean.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Any, Protocol

from fieldmark.errors import readable
from fieldmark.words import printable

LINE_EVERY_S = 30.0


class Progress(Protocol):
    """What long work calls; the caller decides what a person sees."""

    def start(self, label: str, total: int) -> None:
        """A new stretch of work of `total` steps."""
        ...

    def advance(self, n: int = 1) -> None: ...

    def status(self, text: str) -> None:
        """What is going on just now, in a few words, until something else is: "GPU 81 % busy"."""
        ...

    def say(self, text: str) -> None:
        """One line worth keeping."""
        ...


class Lines:
    """A line on standard error now and then: for logs, Slurm and pipes."""

    def __init__(self, every_s: float = LINE_EVERY_S) -> None:
        self.every_s = every_s
        self.start("", 0)

    def start(self, label: str, total: int) -> None:
        self.label, self.total, self.done, self.doing = label, total, 0, ""
        self.began = self.told = time.monotonic()

    def advance(self, n: int = 1) -> None:
        self.done += n
        self._say_if_due()

    def status(self, text: str) -> None:
        self.doing = text
        self._say_if_due()

    def _say_if_due(self) -> None:
        now = time.monotonic()
        if now - self.told < self.every_s:
            return
        self.told = now
        speed = self.done / max(now - self.began, 1e-9)
        left = f"{duration((self.total - self.done) / speed)} left" if speed else ""
        parts = (f"{self.done}/{self.total}", rate(speed), left, self.doing)
        self.say(f"{self.label}: {', '.join(part for part in parts if part)}")

    def say(self, text: str) -> None:
        sys.stderr.write(_shown(text) + "\n")
        sys.stderr.flush()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Silent(Lines):
    """Shows nothing; what the Python API uses unless told otherwise."""

    done = 0

    def _say_if_due(self) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class Live:
    """A region that repaints itself: steps done, rate, time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            Task,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.table import Column
        from rich.text import Text

        class Label(ProgressColumn):
            """What gives way on a narrow screen: names do, numbers do not."""

            def render(self, task: Task) -> Text:
                return Text(task.description, no_wrap=True, overflow="ellipsis")

        class Rate(ProgressColumn):
            def render(self, task: Task) -> Text:
                return Text(rate(task.speed) if task.speed else "")

        fixed = Column(no_wrap=True)
        self._region: Any = Progress(
            Label(),
            BarColumn(bar_width=12, table_column=fixed),
            MofNCompleteColumn(table_column=fixed),
            Rate(table_column=fixed),
            TimeRemainingColumn(table_column=fixed),
            TextColumn("{task.fields[doing]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = None

    def start(self, label: str, total: int) -> None:
        if self._task is not None:
            self._region.remove_task(self._task)
        self._task = self._region.add_task(_shown(label), total=total, doing="")

    def advance(self, n: int = 1) -> None:
        self._region.advance(self._task, n)

    def status(self, text: str) -> None:
        if self._task is not None:
            self._region.update(self._task, doing=_shown(text))

    def say(self, text: str) -> None:
        self._region.console.print(_shown(text), markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Live:
        self._region.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._region.stop()


def for_people(quiet: bool = False) -> Lines | Live:
    """The progress that fits where standard error goes."""
    if quiet:
        return Silent()
    is_plain = os.environ.get("TERM") == "dumb" or "CI" in os.environ
    return Lines() if is_plain or not sys.stderr.isatty() else Live()


def _shown(text: str) -> str:
    """Names of files in it must not steer the terminal."""
    return readable("\n".join(map(printable, text.split("\n"))))


def rate(per_second: float) -> str:
    """
    >>> rate(7730.1), rate(42.31), rate(0.0521)
    ('7,730/s', '42.3/s', '0.0521/s')
    """
    return f"{per_second:,.0f}/s" if per_second >= 100 else f"{per_second:.3g}/s"


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(150), duration(8000)
    ('42 s', '2 min 30 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
