"""fieldmark measures how well any vision model does real biology, and says which one to use.

    import fieldmark
    result = fieldmark.evaluate("classical/colour", "beluga")
    print(result.score.value, result.score.low, result.score.high)

The names below are the public API; they are loaded when first used, so `import fieldmark` is free.
Packages whose modules need numpy, polars or torch offer their names the same way (`exports`):
`--help` and lists must start at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
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


_HOMES = re.compile(r"^    from (\S+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)
"""the lines of `if TYPE_CHECKING:`, as the formatter leaves them"""


def exports(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package (lazy loading, PEP 562): a name of its `__all__` comes from
    where the package's `if TYPE_CHECKING:` imports it, so that its home is written once.
    """

    @cache
    def homes() -> dict[str, str]:
        source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
        lines = ((home, many or one) for home, many, one in _HOMES.findall(source))
        return {name: home for home, names in lines for name in re.findall(r"\w+", names)}

    def load(name: str) -> Any:
        if name not in sys.modules[package].__all__ or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes()[name]), name)

    return load


__getattr__ = exports(__name__)


def __dir__() -> list[str]:
    return __all__
