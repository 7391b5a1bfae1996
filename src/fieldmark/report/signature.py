"""Which line under a table tells exactly what was measured?

One per column, in the words of the command line: two tables with the same line show the same
experiment.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldmark import draws
from fieldmark.report.rows import Row
from fieldmark.store import RunSpec, canonical_json


def signatures(rows: Sequence[Row]) -> list[str]:
    """The lines of all columns, in their order; each names the versions its runs were made with."""
    apps: dict[str, set[str]] = {}
    for row in rows:
        apps.setdefault(signature(row.run.spec), set()).add(row.run.app)
    return [f"{line} app={','.join(sorted(found))}" for line, found in apps.items()]


def signature(spec: RunSpec) -> str:
    """All but the model and the version of fieldmark."""
    facts = {
        "task": spec.task_name,
        "version": spec.task_version,
        "data": spec.data,
        "protocol": spec.protocol,
        "settings": draws.digest(canonical_json(spec.settings)).hex()[:8],
        "n_train": "all" if spec.n_train is None else spec.n_train,
        "n_test": "all" if spec.n_test is None else spec.n_test,
        "seed": spec.seed,
        "repeats": spec.repeats,
    }
    is_default = {"n_test": "all", "repeats": 1, "version": "", "data": ""}
    return " ".join(f"{k}={v}" for k, v in facts.items() if v != is_default.get(k))
