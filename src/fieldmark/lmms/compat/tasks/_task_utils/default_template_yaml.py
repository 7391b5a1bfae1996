"""`lmms_eval.tasks._task_utils.default_template_yaml`: what does the template beside a file say?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["load_default_template_yaml"]


def load_default_template_yaml(task_file: str) -> Any:
    """The content of `_default_template_yaml` beside the file, without lines that name code."""
    import yaml

    template = Path(task_file).parent / "_default_template_yaml"
    lines = template.read_text(encoding="utf-8").splitlines()
    return yaml.safe_load("\n".join(each for each in lines if "!function" not in each))
