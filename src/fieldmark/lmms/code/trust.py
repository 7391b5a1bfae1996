"""Trust: what stands for code in a task file, and from which folders may it come?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MARK = "fieldmark_task_"
"""how the names of modules of task code begin"""


@dataclass(frozen=True, slots=True)
class Function:
    """`!function module.name` as it was read: nothing is imported before somebody asks."""

    text: str
    """`utils.doc_to_text`: the last part is the object, the rest the module"""
    file: Path
    """the YAML file it stands in, whose folder is looked at first"""
    line: int = 0

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)

    def __str__(self) -> str:
        return f"!function {self.text}"


@dataclass(frozen=True, slots=True)
class Trust:
    """The folders the user named: tasks include and run only files that lie in them."""

    folders: tuple[Path, ...] = field(default=())
    """resolved"""

    @classmethod
    def of(cls, *folders: Path) -> Trust:
        return cls(tuple(dict.fromkeys(folder.resolve() for folder in folders)))

    def allows(self, path: Path) -> bool:
        """Links are followed first: one that leads out of a folder leads out of it."""
        try:
            real = path.resolve()
        except (OSError, RuntimeError, ValueError):  # a circle of links, a name no file can have
            return False
        return any(real.is_relative_to(folder) for folder in self.folders)

    def words(self) -> str:
        return ", ".join(map(str, self.folders)) or "none"
