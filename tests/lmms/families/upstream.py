"""lmms-eval's own classes from the checkout, without the packages they need for running models.

Only for a process of its own: stand-ins for torch and others would disturb everything else.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from lmms.families.kit import TASKS

_BARE = ("torch", "transformers", "evaluate", "pytz", "torch.nn", "torch.nn.functional")


class _Anything(types.ModuleType):
    """Has whatever is imported from it: classes that can be subclassed and nothing else."""

    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Once:
    """Takes the place of rules for trying again."""

    def __init__(self, *_: Any) -> None:
        pass

    def __or__(self, _: Any) -> _Once:
        return self


def load_upstream() -> tuple[Any, Any]:
    """The modules `lmms_eval.utils` and `lmms_eval.api.task`."""
    import datasets  # noqa: F401 - looks for the real packages before their stand-ins are there

    for name in _BARE:
        sys.modules[name] = _Anything(name)
    retries = _put("tenacity", retry=lambda **_: lambda function: function)
    for name in ("stop_after_attempt", "stop_after_delay", "wait_fixed"):
        setattr(retries, name, _Once)
    _put("accelerate", Accelerator=type("Accelerator", (), {"is_main_process": True}))
    for name in ("lmms_eval", "lmms_eval.tasks", "lmms_eval.api", "lmms_eval.caching"):
        parts = name.split(".")[1:]
        _put(name, __path__=[str(TASKS.parent.joinpath(*parts))])
    _put("lmms_eval.caching.cache", load_from_cache=lambda **_: None, save_to_cache=None)
    import lmms_eval.api.metrics  # noqa: F401 - metrics register when imported
    import lmms_eval.api.task as task
    import lmms_eval.utils as utils
    from loguru import logger

    logger.remove()
    for name in _BARE:
        del sys.modules[name]  # others look here to learn whether torch is in use
    return utils, task


def _put(name: str, **having: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    for key, value in having.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module
