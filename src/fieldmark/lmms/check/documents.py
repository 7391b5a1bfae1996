"""Why can a task in lmms-eval's form not be run, as far as its file tells?"""

from __future__ import annotations

from itertools import chain

from fieldmark.lmms import DocumentTask, field_problems
from fieldmark.lmms.ask.run import why_not_run
from fieldmark.lmms.check.names import name_problems


def document_problems(task: DocumentTask) -> list[str]:
    """One line each, with its place; the data are not looked at and no code is run."""
    found = [
        each for each in chain(field_problems(task), name_problems(task)) if each.level == "error"
    ]
    told = [f"{each.place}  {each.text}" for each in found]
    return [*told, *why_not_run(task)]
