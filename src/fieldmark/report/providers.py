"""Report provider (plug-in): what must a report know of runs whose answers are not labels?

A run answers with labels, and a metric of fieldmark's scores them: reports need no help with those.
Where a task values each answer by rules of its own (free text, ...), its protocol registers a
provider, which says how such runs are compared, described and grouped. A run is a provider's when
its settings hold the name that the provider is registered under. A provider is a module or an
object; it needs nothing of this package, and is imported when the first such run is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from fieldmark.errors import FieldmarkError
from fieldmark.registry import Registry
from fieldmark.store import Run, Score, Store

if TYPE_CHECKING:
    from fieldmark.metrics import Metric

Scores = Mapping[int, Sequence[Score]]
"""by run id"""


class GroupScores(Protocol):
    """One model's scores on a group of tasks, worked out from those of its members."""

    @property
    def group(self) -> str: ...
    @property
    def members(self) -> Sequence[Run]: ...
    @property
    def scores(self) -> Sequence[Score]: ...
    @property
    def notes(self) -> Sequence[str]:
        """What could not be averaged, a line each."""

    @property
    def words(self) -> str:
        """What was averaged, for the lines under a table."""


class ReportProvider(Protocol):
    """The hooks; all are asked only about the provider's own runs."""

    def value_metric(self, run: Run) -> str:
        """The metric whose value of each item is stored as its score; "": its score is no mean."""

    def pairing_metric(self, store: Store, run: Run, name: str) -> Metric | None:
        """What compares runs item by item by the metric of that name; None: nothing can."""

    def why_not_paired(self, name: str) -> str:
        """Why runs cannot be compared item by item by that metric, in words."""

    def item_values(
        self, store: Store, run: Run, name: str
    ) -> Mapping[tuple[str, int, str], float]:
        """What each answered item was worth by a metric, by part, repeat and item id."""

    def task_facts(self, store: Store, run: Run) -> Mapping[str, str]:
        """Of the run's task: `title`, `dataset` (its name) and `homepage`, as far as known."""

    def group_results(
        self, store: Store, runs: Sequence[Run], scores: Scores
    ) -> Iterable[GroupScores]:
        """The groups of tasks that these runs belong to, of each model, by name."""


PROVIDERS = Registry("report provider", "fieldmark.report_providers")
"""by the setting that marks a run"""


def register_report_provider(setting: str, provider: ReportProvider) -> None:
    """Makes a provider known for runs that have this setting."""
    PROVIDERS.register(setting, provider)


def provider_of(run: Run) -> ReportProvider | None:
    """None for a run that answers with labels."""
    setting = next((name for name in PROVIDERS if name in run.spec.settings), None)
    return None if setting is None else cast(ReportProvider, PROVIDERS.get(setting))


def is_valued(run: Run) -> bool:
    """Were the answers valued one by one by the task's own rules, and not as labels?"""
    return any(name in run.spec.settings for name in PROVIDERS)


def asked_noun(runs: Iterable[Run]) -> str:
    """What was asked, in a word: photos, or questions, of which one photo may have several."""
    return "question" if any(map(is_valued, runs)) else "photo"


def value_metric(run: Run) -> str:
    """The metric whose value of each item is stored; "" for labels, and where it is no mean."""
    provider = provider_of(run)
    return "" if provider is None else provider.value_metric(run)


def pairing_metric(store: Store, run: Run, name: str) -> Metric | None:
    """What compares runs item by item by the metric of that name; None: nothing can."""
    from fieldmark.metrics import load_metric

    provider = provider_of(run)
    return load_metric(name) if provider is None else provider.pairing_metric(store, run, name)


def metric_here(store: Store, run: Run, name: str) -> Metric | None:
    """The same; None too for a user's own metric whose file is not here any more."""
    try:
        return pairing_metric(store, run, name)
    except FieldmarkError:
        return None


def why_not_paired(run: Run, name: str) -> str:
    """Why nothing can, in words; "" for labels, which can always be compared."""
    provider = provider_of(run)
    return "" if provider is None else provider.why_not_paired(name)
