"""Notes of parts: what did the fits of a run choose, are their probabilities true, how were photos
read, which were left out?

Parts note it as `fit`, `calibration`, `decode`, `bad_images` and `fewer_examples_because` of their
`info`; the first repeat
of a part carries what all of them chose, and where one probe learns all parts, every part does.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fieldmark.store.records import PartRecord

Value = str | float | bool


@dataclass(frozen=True, slots=True)
class _FitRecord:
    """What one part noted of its fits, as it is stored."""

    probe: str
    n_fits: int
    chosen: Mapping[str, Sequence[Value | None]]
    """by name, one value of each fit"""
    notes: Mapping[str, int]
    is_joint: bool = False
    """all parts share these fits"""
    tried: Sequence[Mapping[str, Sequence[Value | None]]] = ()


@dataclass(frozen=True, slots=True)
class FitSummary:
    """What the searches of some fits chose; `n_fits` is 0 where nothing was told."""

    probe: str = ""
    n_fits: int = 0
    chosen: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """by name, one value of each fit that told one"""
    notes: Mapping[str, int] = field(default_factory=dict)
    """what a reader should know, and of how many fits"""
    tried: Sequence[Mapping[str, Sequence[Value | None]]] = ()
    """of each fit that searched a grid: the settings as columns, and their held-out `score`"""

    @property
    def line(self) -> str:
        """The choices in one line; medians and ranges of several fits; "" if nothing was chosen."""
        names = sorted(self.chosen, key=lambda name: (name.endswith("score"), name))
        choices = [f"{name.replace('_', ' ')} {_spread(self.chosen[name])}" for name in names]
        several = f" ({self.n_fits} fits)" if self.n_fits > 1 else ""
        return f"{self.probe}: {', '.join(choices)}{several}" if choices else ""

    @property
    def note_lines(self) -> list[str]:
        """A sentence each, the most frequent first, with how many fits it is told of."""
        ordered = sorted(self.notes.items(), key=lambda pair: (-pair[1], pair[0]))
        if self.n_fits == 1:
            return [note for note, _ in ordered]
        return [f"{note} (in {n} of {self.n_fits} fits)" for note, n in ordered]

    def plain(self) -> dict[str, Any] | None:
        """For programs; None if nothing was told."""
        return asdict(self) if self.n_fits else None


def fit_summary(parts: Sequence[PartRecord]) -> FitSummary:
    """Of all fits of these parts, each counted once."""
    records: dict[str, _FitRecord] = {}
    for part in parts:
        if noted := (part.info or {}).get("fit"):
            record = _FitRecord(**noted)
            records.setdefault("" if record.is_joint else part.part, record)
    chosen: dict[str, list[Value]] = {}
    notes: Counter[str] = Counter()
    for record in records.values():
        notes.update(record.notes)
        for name, values in record.chosen.items():
            chosen.setdefault(name, []).extend(value for value in values if value is not None)
    return FitSummary(
        next((record.probe for record in records.values()), ""),
        sum(record.n_fits for record in records.values()),
        {name: values for name, values in chosen.items() if values},
        dict(notes),
        [columns for record in records.values() for columns in record.tried],
    )


def mean_calibration(parts: Sequence[PartRecord]) -> dict[str, float]:
    """Expected calibration error (`ece`) and log loss (`nll`), the mean over parts and fits; of
    probes without probabilities nothing.
    """
    fits = [fit for part in parts for fit in (part.info or {}).get("calibration") or ()]
    return {name: statistics.fmean(fit[name] for fit in fits) for name in (fits[0] if fits else ())}


def decode_noted(parts: Sequence[PartRecord]) -> str:
    """How the photos of these parts were read: reference, cpu or gpu; "" where that was not
    noted.
    """
    ways = {str((part.info or {}).get("decode") or "") for part in parts}
    return ", ".join(sorted(ways - {""}))


def bad_images(parts: Sequence[PartRecord]) -> dict[str, str]:
    """Every image that some part left out, and why it could not be read."""
    unreadable: dict[str, str] = {}
    for part in parts:
        unreadable |= (part.info or {}).get("bad_images") or {}
    return unreadable


_FEWER = {
    "pool": "there are no more training photos to show",
    "context": "the model's context is full",
    "pictures": "the model takes no more images (max_images)",
    "bytes": "a request may be no larger (max_request_bytes)",
}
"""what `fewer_examples_because` means, the most frequent reason told"""


def examples_words(shown: Sequence[int], n_asked: int, reasons: Mapping[str, int]) -> str:
    """
    >>> examples_words([7, 7], 10, {"pictures": 24})
    '7 of the 10 examples asked for are shown: the model takes no more images (max_images)'
    """
    n = f"{min(shown)}" if min(shown) == max(shown) else f"{min(shown)} to {max(shown)}"
    reason = max(reasons, key=lambda name: reasons[name])
    what = f"{n} of the {n_asked} examples asked for are shown"
    return f"{what}: {_FEWER.get(reason, reason)}"


def fewer_examples(parts: Sequence[PartRecord], n_asked: int | None) -> str:
    """How many examples prompts show where that is fewer than were asked for, and why; ""."""
    infos = [part.info for part in parts if part.info and "fewer_examples_because" in part.info]
    if not infos or not n_asked:
        return ""
    reasons: Counter[str] = Counter()
    for info in infos:
        reasons.update(info["fewer_examples_because"])
    shown = [n for info in infos for n in info.get("examples_shown") or ()]
    shown = shown or [part.n_train or 0 for part in parts]
    return examples_words(shown, n_asked, reasons)


def _spread(values: Sequence[Value]) -> str:
    """The value, or the median and range of several; words by how often they were chosen."""
    if any(isinstance(value, (str, bool)) for value in values):
        counts = Counter(map(str, values)).most_common()
        return counts[0][0] if len(counts) == 1 else ", ".join(f"{n} × {v}" for v, n in counts)
    low, middle, high = min(values), statistics.median_low(values), max(values)
    return f"{middle:.4g}" if low == high else f"{middle:.4g} ({low:.4g} to {high:.4g})"
