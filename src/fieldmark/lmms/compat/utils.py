"""`lmms_eval.utils`, as far as task code uses it."""

from __future__ import annotations

import logging
import os
import re
from typing import Any

__all__ = ["eval_logger", "resolve_cache_dir", "sanitize_model_name"]


def _logger() -> Any:
    try:
        from loguru import logger
    except ImportError:
        return logging.getLogger("fieldmark.tasks")
    return logger


eval_logger = _logger()


def resolve_cache_dir(cache_dir: str, base_dir: str | None = None) -> str:
    """The folder with variables and ~ filled in; a relative one starts at `base_dir`."""
    folder = os.path.expandvars(cache_dir)
    folder = os.path.expanduser(folder)  # noqa: PTH111  task code joins texts
    return folder if base_dir is None else os.path.join(base_dir, folder)  # noqa: PTH118


def sanitize_model_name(model_name: str, full_path: bool = False) -> str:
    """A name that can be a folder's: of a path its last two parts, unless all are wanted."""
    text = model_name if full_path else "/".join(model_name.split("/")[-2:])
    return re.sub(r'[<>:"/|\\?*\[\]]+', "__", text)
