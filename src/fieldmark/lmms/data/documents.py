"""Which documents does a task ask about?

Opens the task's dataset with the `datasets` library and gives its splits, after the task's own
`process_docs`. Nothing is fetched unless asked, and nothing is decoded before somebody wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fieldmark.errors import DataError, UsageError, meant
from fieldmark.lmms.code.call import call, load_function, seeded
from fieldmark.lmms.data.library import fresh_transforms, quiet_datasets
from fieldmark.lmms.data.open import load
from fieldmark.lmms.data.sources import find_source, folders_of
from fieldmark.lmms.data.split import Split
from fieldmark.lmms.read.schema import DocumentTask

__all__ = ["Documents", "Split", "open_documents"]


def open_documents(task: DocumentTask, cache: Path, fetch: bool = False) -> Documents:
    """The task's documents. Prepared tables are kept below `cache`."""
    source = find_source(task, lambda function: load_function(function, task.trust))
    with quiet_datasets(is_online=fetch) as datasets:
        every = load(datasets, source, cache / "datasets", fetch)
    return Documents(task, every, source.notes)


class Documents:
    """The splits of a task; each is prepared by `process_docs` when it is first looked at."""

    def __init__(
        self, task: DocumentTask, every: Mapping[str, Any], notes: tuple[str, ...] = ()
    ) -> None:
        self.task, self.notes = task, notes
        self._every = every
        self._made: dict[str, Split] = {}

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(self._every)

    @cached_property
    def test(self) -> Split:
        """The split that is asked about: test, else validation."""
        key = "test_split" if self.task.test_split else "validation_split"
        name = self.task.eval_split
        if name is None:
            raise UsageError(
                f"{self.task.place_of('task')}  names neither test_split nor validation_split; "
                f"the dataset has {_listed(self._every)}."
            )
        made = self._split(name, key)
        if not len(made):
            raise DataError(f"{self.task.place_of(key)}  split {name!r} holds no documents.")
        return made

    @cached_property
    def fewshot(self) -> Split | None:
        """Where shots come from: the split named for it, else training, else validation.

        The split that is asked about only if the task says so, and then it is the same object: a
        document must not be its own shot.
        """
        if self.task.fewshot_split:
            return self._split(self.task.fewshot_split, "fewshot_split")
        for key in ("training_split", "validation_split"):
            name = getattr(self.task, key)
            if name and name != self.task.eval_split:
                return self._split(name, key)
        return None

    def _split(self, name: str, key: str) -> Split:
        if name not in self._made:
            self._made[name] = self._prepared(name, key)
        return self._made[name]

    def _prepared(self, name: str, key: str) -> Split:
        where = self.task.place_of(key)
        if name not in self._every:
            told = f"the dataset has no split {name!r}, it has {_listed(self._every)}."
            raise DataError(f"{where}  {told}{meant(name, self._every)}")
        data = self._every[name]
        if self.task.process_docs is not None:
            data = self._processed(data, name)
        return Split(data, name, where, folders_of(self.task, "dataset_kwargs"))

    def _processed(self, data: Any, name: str) -> Any:
        """Task code may draw: the same documents come out whatever ran before."""
        where = self.task.place_of("process_docs")
        function = load_function(self.task.process_docs, self.task.trust)  # type: ignore[arg-type]
        with (
            quiet_datasets(is_online=False) as datasets,
            fresh_transforms(datasets),
            seeded(0, self.task.task, name, "process_docs"),
        ):
            made = call(function, data, where=where)
        if not isinstance(made, datasets.Dataset):
            raise UsageError(
                f"{where}  {self.task.process_docs} gave a {type(made).__name__}: "
                "a datasets.Dataset is expected."
            )
        return made


def _listed(every: Mapping[str, Any]) -> str:
    return ", ".join(every) or "none"
