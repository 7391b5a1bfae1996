"""The 164 tasks of NeWT: what they are called, and what their labels mean in words.

`tasks.csv` has two rows a task: the class without the sign first (regular, not_adult, …), then
the one with it; for two species, by name. `text_label` is what the labels file says and is unique
only within its task; `class_name` is what a person or a language model is shown.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fieldmark.errors import UnknownName

LABELS_FILE = "newt2021_labels.csv"
IMAGE_FOLDER = "newt2021_images"
FILE_COLUMNS = (
    "id", "task_cluster", "task_subcluster", "task", "label", "text_label", "split", "height",
    "width",
)  # fmt: skip
AGE_PREFIX = "ml_age_"

# A public table of class names has the keys of another task here.
_ALIASES = {
    ("ml_tag_molting_waterfowl", "has_red_eyes"): "molting",
    ("ml_tag_molting_waterfowl", "not_red_eyes"): "not_molting",
}


@dataclass(frozen=True, slots=True)
class NewtTask:
    name: str
    cluster: str
    sub_cluster: str | None
    classes: tuple[tuple[str, str], ...]
    """(text_label, class_name), the class without the sign first"""

    @property
    def species(self) -> str | None:
        """The species whose age is asked for, in words: "Cooper's hawk"; None for other tasks."""
        if not self.name.startswith(AGE_PREFIX):
            return None
        return dict(self.classes)["adult"].removeprefix("adult ")


@cache
def newt_tasks() -> dict[str, NewtTask]:
    """All 164 by name, in the order of cluster, sub-cluster and name."""
    tasks: dict[str, NewtTask] = {}
    path = Path(__file__).with_name("tasks.csv")
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            former = tasks.get(row["task"])
            classes = (*(former.classes if former else ()), (row["text_label"], row["class_name"]))
            sub_cluster = row["sub_cluster"] or None
            tasks[row["task"]] = NewtTask(row["task"], row["cluster"], sub_cluster, classes)
    return tasks


def fold(text: str) -> str:
    """Text in which the kind of apostrophe and of case do not count: one task has a curly one."""
    return text.replace("’", "'").casefold()


@cache
def _names_by_fold() -> dict[str, str]:
    return {fold(name): name for name in newt_tasks()}


def canonical_name(text: str) -> str:
    """The task's name as this package spells it; names it does not know stay as they are."""
    return _names_by_fold().get(fold(text), text)


def task_name(text: str, where: str = "") -> str:
    """The task a user means; an unknown one is refused with the closest names."""
    name = canonical_name(text)
    if name not in newt_tasks():
        raise UnknownName("NeWT task", text, newt_tasks(), "fieldmark tasks newt", where)
    return name


def class_name(task: str, text_label: str) -> str:
    """A label of a task in words; of labels nobody has described, the label itself, readable."""
    task_here = newt_tasks().get(canonical_name(task))
    text_label = _ALIASES.get((task_here.name, text_label), text_label) if task_here else text_label
    names = {fold(label): words for label, words in task_here.classes} if task_here else {}
    return names.get(fold(text_label), text_label.replace("_", " "))
