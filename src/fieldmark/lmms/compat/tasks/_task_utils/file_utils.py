"""`lmms_eval.tasks._task_utils.file_utils`: where does a submission file go?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["generate_submission_file"]


def generate_submission_file(file_name: str, args: Any, subpath: str = "submissions") -> str:
    """The file's path under the output folder of `args`, else under this one; makes the folder."""
    out = getattr(args, "output_path", None)
    folder = Path() if out is None else Path(out)
    folder = (folder / subpath).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder / file_name)
