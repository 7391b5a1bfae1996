"""Which documents does a task in lmms-eval's form ask about?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.errors import DataError
from fieldmark.lmms import Documents, DocumentTask, open_documents
from fieldmark.protocols import Draw


@dataclass(frozen=True, slots=True, eq=False)
class DocumentPart:
    """The documents of a run; there is one part."""

    task: DocumentTask
    documents: Documents
    rows: tuple[int, ...]
    """of the split that is asked about"""
    k: int = 0
    """examples shown with each"""
    memberships: tuple[dict[str, Any], ...] = ()
    """the groups it was asked for with"""

    name = ""
    """there is one part"""

    def document(self, row: int, media: bool = False) -> dict[str, Any]:
        return self.documents.test.document(row, media=media)

    @property
    def digest(self) -> str:
        """Changes when a document that is asked about, or one that may be shown, changes."""
        return self._digest()

    def refuse_changed(self) -> None:
        """Raises where a document, or a picture it names, is not what it was when this began."""
        if self._digest(anew=True) != self.digest:
            raise DataError(
                f"{self.task.place_of('task')}  documents were changed while they were asked "
                "about: run the same command again (answers are kept)."
            )

    def _digest(self, anew: bool = False) -> str:
        own = self.documents.test.digest(self.rows, anew)
        shown = self.documents.fewshot if self.k else None
        return own if shown is None else f"{own}+{shown.digest(range(len(shown)), anew)}"


def open_part(task: DocumentTask, draw: Draw, cache: Path, fetch: bool) -> DocumentPart:
    """Reads the dataset."""
    return draw_part(task, open_documents(task, cache, fetch), draw)


def draw_part(task: DocumentTask, documents: Documents, draw: Draw) -> DocumentPart:
    """A sample of documents depends on seed and row, not on their order."""
    every = [str(row) for row in range(len(documents.test))]
    kept = draws.sample(every, draw.n_test, draw.seed, task.task, "documents")
    return DocumentPart(task, documents, tuple(map(int, kept)), draw.n_train)
