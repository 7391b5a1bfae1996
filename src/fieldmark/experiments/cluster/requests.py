"""Resource requests (time, memory, CPUs): what does a step ask of the machine?

What runs like these took before, times a margin; where nothing is known, more than most need.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fieldmark.experiments.cluster.work import StepKind
from fieldmark.experiments.plan import Planned
from fieldmark.progress import duration
from fieldmark.store import RunFilter, RunSpec, Store
from fieldmark.words import counted

MARGIN = 1.5
START_S = 300.0
"""to start, import and load"""
LEAST_S = 600.0
UNKNOWN_S = {"embed": 4 * 3600.0, "model": 4 * 3600.0, "runs": 3600.0, "chat": 24 * 3600.0}
"""of a step of which nothing is known; a run of `runs`"""
GIB = 1 << 30
LEAST_BYTES = {"embed": 8 * GIB, "model": 8 * GIB, "runs": 4 * GIB, "chat": 4 * GIB}
MOST_BYTES = 512 * GIB
CPUS = {"embed": 4, "model": 4, "runs": 2, "chat": 2}
NEWEST = 5
"""runs of a kind that are looked at"""
Kind = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What a step asks of the machine."""

    seconds: float
    memory_bytes: int
    cpus: int
    gpus: int


class PastUse:
    """What runs took before, by task, protocol and number of training images."""

    def __init__(self, path: Path) -> None:
        self._seconds: dict[Kind, list[float]] = defaultdict(list)
        self._peaks: dict[Kind, int] = defaultdict(int)
        self.model_peaks: dict[str, int] = defaultdict(int)
        """most bytes of memory of a model's runs; 0: not known"""
        with Store.open(path, read_only=True) as store:
            seen: dict[tuple[Kind, str], int] = defaultdict(int)
            runs = store.runs(RunFilter(states=("done",)))
            for run in sorted(runs, key=lambda run: -run.id):
                kind, model = _kind(run.spec), run.spec.model
                if run.seconds is not None:
                    self._seconds[kind].append(run.seconds)
                seen[kind, model] += 1
                if seen[kind, model] > NEWEST:
                    continue
                for part in store.finished_parts(run.id)[:1]:
                    peak = (part.info or {}).get("peak_mb")
                    if isinstance(peak, int):
                        self._peaks[kind] = max(self._peaks[kind], peak << 20)
                        self.model_peaks[model] = max(self.model_peaks[model], peak << 20)

    def seconds(self, planned: Planned) -> float | None:
        """Of the run alone; None where no run like it is known."""
        seconds = sorted(self._seconds[_kind_of(planned)])
        return seconds[len(seconds) // 2] if seconds else None

    def peak_bytes(self, planned: Planned) -> int:
        """The most memory of runs like it; 0 where none is known."""
        return self._peaks[_kind_of(planned)]


def _kind(spec: RunSpec) -> Kind:
    return spec.task, spec.protocol, spec.n_train


def _kind_of(planned: Planned) -> Kind:
    assert planned.spec is not None
    return _kind(planned.spec)


def request_for(
    kind: StepKind,
    runs: Sequence[Planned],
    past: PastUse,
    n_shards: int = 1,
    speed: float = 0.0,
) -> StepRequest:
    """What a step of that kind with these runs should ask for; `speed` in images a second."""
    model = runs[0].job.model
    n_images = -(-sum(run.n_missing for run in runs) // n_shards)
    run_seconds = [past.seconds(run) for run in runs]
    alone = sum(seconds for seconds in run_seconds if seconds is not None)
    if kind == "embed":
        seconds = n_images / speed if speed else UNKNOWN_S[kind] / MARGIN
        peak = past.model_peaks[model]
    else:
        embedding = (n_images / speed if speed else None) if kind == "model" and n_images else 0.0
        is_known = None not in run_seconds and embedding is not None and kind != "chat"
        seconds = alone + (embedding or 0.0) if is_known else UNKNOWN_S[kind] / MARGIN
        peak = max(past.peak_bytes(run) for run in runs)
    return StepRequest(
        max(seconds * MARGIN + START_S, LEAST_S),
        min(max(int(peak * MARGIN), LEAST_BYTES[kind]), MOST_BYTES),
        CPUS[kind],
        0,
    )


def describe_request(request: StepRequest) -> str:
    """
    >>> describe_request(StepRequest(5400, 8 << 30, 4, 1))
    '1 h 30 min, 8 GB, 4 CPUs, 1 GPU'
    """
    memory, gpus = -(-request.memory_bytes // GIB), request.gpus
    parts = [duration(request.seconds), f"{memory} GB", counted(request.cpus, "CPU")]
    return ", ".join([*parts, counted(gpus, "GPU")] if gpus else parts)
