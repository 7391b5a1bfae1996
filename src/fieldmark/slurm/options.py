"""Slurm options (sbatch): what may the table `[slurm]` of an experiment or a recipe say?"""

from __future__ import annotations

import datetime
import re
import shlex
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B)?", re.IGNORECASE)
_WORD = re.compile(r"[^\s'\"\\]*")


def minutes_of(value: object) -> int:
    """Minutes of a number or of Slurm's `HH:MM:SS`, `D-HH:MM:SS`, `D-HH`; parts of one count full.

    >>> minutes_of("1-02:30:00"), minutes_of("00:10:01"), minutes_of(90)
    (1590, 11, 90)
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, datetime.time):  # TOML has times of the day: 04:00:00 without quotes
        value = value.isoformat("seconds")
    match = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        days, *parts = (int(part) if part else 0 for part in match.groups())
        if match[1] is not None or match[4] is not None:  # hours come first
            seconds = days * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2]
        else:  # MM or MM:SS
            seconds = parts[0] * 60 + parts[1]
        if seconds > 0:
            return -(-seconds // 60)
    raise ValueError(f"{value!r} is not a time: expected minutes, as 90, or a text as '01:30:00'")


def bytes_of(value: str) -> int:
    """
    >>> bytes_of("1.5G")
    1610612736
    """
    match = _MEMORY.fullmatch(value.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"{value!r} is not an amount of memory: expected text as '32G' or '900M'")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _memory(value: str) -> str:
    if value:
        bytes_of(value)
    return value


def _word(value: str) -> str:
    if not _WORD.fullmatch(value):
        raise ValueError(f"{value!r} has spaces or quotes in it, which no name of Slurm has")
    return value


def _gpus(value: int | str) -> int | str:
    if isinstance(value, str) and not re.fullmatch(r"(?:[\w.-]+:)?\d+", value):
        raise ValueError(f"{value!r} is not a number of GPUs: expected 1, or a text as 'a100:1'")
    if isinstance(value, int) and value < 0:
        raise ValueError(f"{value} is not a number of GPUs: expected 0 or more")
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"{name!r} is not a name of an environment variable")
    return value


def _setup(value: object) -> object:
    return value.splitlines() if isinstance(value, str) else value


Word = Annotated[str, AfterValidator(_word)]
SignalDelay = Annotated[int, Field(ge=1, le=3600)]


class JobOptions(BaseModel):
    """What any job is submitted with. What is left out, the cluster decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    account: Word = ""
    partition: Word = ""
    qos: Word = ""
    constraint: str = ""
    time: Annotated[int, BeforeValidator(minutes_of)] | None = None
    """minutes, or "HH:MM:SS": no job asks for more; one that needs more goes on in a next one"""
    gpus: Annotated[int | str, AfterValidator(_gpus)] = 0
    """of a job that runs a network, on each node; "a100:1" asks for a type"""
    cpus: Annotated[int, Field(ge=0)] = 0
    """of a process; 0 = as fieldmark sees fit"""
    memory: Annotated[str, AfterValidator(_memory)] = ""
    """of a node, as "32G"; empty = as fieldmark sees fit"""
    setup: Annotated[tuple[str, ...], BeforeValidator(_setup)] = ()
    """lines of shell before the work starts, as "module load cuda" """
    environment: Annotated[dict[str, str], AfterValidator(_environment)] = {}
    """variables that are set before these lines"""
    signal_delay: SignalDelay = 90
    """seconds before the end of its time at which a job is told, and put back into the queue"""

    @property
    def n_gpus(self) -> int:
        return int(str(self.gpus).rpartition(":")[2])

    @property
    def exports(self) -> list[str]:
        """Lines of shell that set the variables."""
        return [f"export {name}={shlex.quote(v)}" for name, v in self.environment.items()]

    def notice_s(self, minutes: int | None) -> int:
        """Seconds before the end at which a job of so many minutes is told."""
        return min(self.signal_delay, 15 * minutes) if minutes else self.signal_delay


class SlurmOptions(JobOptions):
    """What every job of an experiment is submitted with."""

    cpu_partition: Word = ""
    """of jobs without a GPU, where that is another one"""
    array_parallelism: Annotated[int, Field(ge=1)] = 256
    """jobs of one array that run at once, at most"""

    @property
    def time_s(self) -> float:
        """0 = no limit is known."""
        return 60.0 * (self.time or 0)

    @property
    def memory_bytes(self) -> int:
        """0 = as past runs needed."""
        return bytes_of(self.memory) if self.memory else 0
