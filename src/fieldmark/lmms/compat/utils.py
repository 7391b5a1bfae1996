"""Small helpers of `lmms_eval`: names and folders, the logger, ANLS of one document."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from typing import Any

from fieldmark.lmms.metrics import text


def _logger() -> Any:
    try:
        from loguru import logger
    except ImportError:
        return logging.getLogger("fieldmark.tasks")
    return logger


eval_logger = _logger()
levenshtein_distance = text.levenshtein


def resolve_cache_dir(cache_dir: str, base_dir: str | None = None) -> str:
    """The folder with variables and ~ filled in; a relative one starts at `base_dir`."""
    folder = os.path.expandvars(cache_dir)
    folder = os.path.expanduser(folder)  # noqa: PTH111  task code joins texts
    return folder if base_dir is None else os.path.join(base_dir, folder)  # noqa: PTH118


def sanitize_model_name(model_name: str, full_path: bool = False) -> str:
    """A name that can be a folder's: of a path its last two parts, unless all are wanted."""
    name = model_name if full_path else "/".join(model_name.split("/")[-2:])
    return re.sub(r'[<>:"/|\\?*\[\]]+', "__", name)


def anls(
    references: Sequence[str], predictions: Sequence[Any], thresh_hold: float = 0.5
) -> dict[str, float]:
    """`anls` of the metrics, in the form `lmms_eval.api.metrics` gives it."""
    first = predictions[0] if isinstance(predictions[0], str) else predictions[0][0]
    return {"anls": text.anls(references, [first], thresh_hold)}


MODEL_KEYS = (
    "peft",
    "delta",
    "pretrained",
    "model",
    "model_version",
    "model_name",
    "model_id",
    "path",
    "engine",
)
"""of model arguments that name the model, the first given one counts"""


class GeneralConfigTracker:
    @staticmethod
    def _get_model_name(model_args: str) -> str:
        """The model in `key=value,key=value`; "" when none of the keys is there."""
        pairs = (word.partition("=") for word in str(model_args or "").split(","))
        given = {key.strip(): value for key, _, value in pairs}
        return next((given[key] for key in MODEL_KEYS if key in given), "")
