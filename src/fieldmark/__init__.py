"""fieldmark measures how well any vision model does real biology, and says which one to use.

    import fieldmark
    result = fieldmark.evaluate("classical/colour", "beluga")
    print(result.score.value, result.score.low, result.score.high)

The names below are the public API; they are loaded when first used, so `import fieldmark` is free.
Packages whose modules need numpy, polars or torch offer their names the same way (`exports`):
`--help` and lists must start at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fieldmark.data import load_dataset, register_dataset
    from fieldmark.experiments import Evaluation, evaluate
    from fieldmark.lmms.metrics.registry import register_aggregation
    from fieldmark.metrics import load_metric, register_metric
    from fieldmark.models import load_model, register_model
    from fieldmark.probes import load_probe, register_probe
    from fieldmark.protocols import register_protocol
    from fieldmark.tasks import load_task, register_task
    from fieldmark.tryout import Verdict, try_photos

__all__ = [
    "Evaluation",
    "Verdict",
    "evaluate",
    "load_dataset",
    "load_metric",
    "load_model",
    "load_probe",
    "load_task",
    "register_aggregation",
    "register_dataset",
    "register_metric",
    "register_model",
    "register_probe",
    "register_protocol",
    "register_task",
    "try_photos",
]


def exports(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `homes` are modules (relative to it) and their names."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return load


__getattr__ = exports(
    __name__,
    {
        "data": ("load_dataset", "register_dataset"),
        "experiments": ("Evaluation", "evaluate"),
        "lmms.metrics.registry": ("register_aggregation",),
        "metrics": ("load_metric", "register_metric"),
        "models": ("load_model", "register_model"),
        "probes": ("load_probe", "register_probe"),
        "protocols": ("register_protocol",),
        "tasks": ("load_task", "register_task"),
        "tryout": ("Verdict", "try_photos"),
    },
)


def __dir__() -> list[str]:
    return __all__
