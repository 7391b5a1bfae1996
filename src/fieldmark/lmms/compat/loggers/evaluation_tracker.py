"""`lmms_eval.loggers.evaluation_tracker`: the name of the model, for names of files."""

from __future__ import annotations

__all__ = ["GeneralConfigTracker"]

KEYS = (
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
        pairs = (each.partition("=") for each in str(model_args or "").split(","))
        given = {key.strip(): value for key, _, value in pairs}
        return next((given[key] for key in KEYS if key in given), "")
