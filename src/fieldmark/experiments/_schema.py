"""Schema of an experiment file (TOML): what may stand in it?

fieldmark's own grids, and the files of small-data-metrics as they are: `[[models]]` with method,
org and ckpt, `newt_data`, `[newt]` filters. Any list is an axis of the grid.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, create_model

from fieldmark.protocols import Setting, has_block, protocols, settings_of
from fieldmark.registry import PROTOCOLS
from fieldmark.slurm.options import SlurmOptions
from fieldmark.tasks import Strict


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Sampling = Literal["balanced", "uniform"]
Ints = Annotated[list[StrictInt], BeforeValidator(_as_list), Field(min_length=1)]
Counts = Annotated[
    list[Annotated[StrictInt, Field(ge=-1)]], BeforeValidator(_as_list), Field(min_length=1)
]
Texts = Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1)]

NO_EFFECT = (
    "debug",
    "graph",
    "graph_to",
    "log_to",
    "report_to",
    "batch_size",
    "n_workers",
    "device",
)
"""keys of small-data-metrics that say how, not what: flags and `fieldmark.toml` decide here"""
INSTEAD = {
    "parallel": "type `fieldmark run … --concurrency {0}`",
    "slurm": "type `fieldmark run … --on slurm`, or write a table [slurm]",
    "slurm_acct": 'write `account = "{0}"` in a table [slurm], then `fieldmark run … --on slurm`',
    "ssl": "let certificates be checked: SSL_CERT_FILE names your own authority's",
}
"""keys of small-data-metrics that a run must not pass over in silence → what to do instead"""


class ModelTable(Strict):
    """`[[models]]` of small-data-metrics."""

    method: Literal["cvml", "mllm"]
    org: str
    ckpt: str

    @property
    def model(self) -> str:
        if self.method == "mllm":
            return f"chat/{self.org}/{self.ckpt}"
        family = {"timm-vit": "timm"}.get(self.org, self.org)
        return f"{family}/{self.ckpt}"


class NewtFilters(Strict):
    """`[newt]`: which of its 164 tasks to run."""

    tasks: list[str] | None = None
    include_clusters: list[str] | None = None
    include_subclusters: list[str] | None = None
    exclude_tasks: list[str] | None = None
    exclude_clusters: list[str] | None = None
    exclude_subclusters: list[str] | None = None


class Experiment(Strict):
    """A grid of runs."""

    models: Annotated[list[str | ModelTable], BeforeValidator(_as_list), Field(min_length=1)]
    tasks: Texts | None = None
    """names as on the command line; without it `newt`, when the file speaks of NeWT"""
    n_train: Counts | None = None
    n_test: Counts | None = None
    sampling: Annotated[list[Sampling], BeforeValidator(_as_list)] | None = None
    seed: Ints | None = None
    repeats: (
        Annotated[list[Annotated[StrictInt, Field(ge=1)]], BeforeValidator(_as_list)] | None
    ) = None
    protocol: str = ""
    """how models are asked; without it all ways that a task and a model both can"""
    data: dict[str, str] = Field(default_factory=dict)
    """dataset → folder, relative to this file"""
    slurm: SlurmOptions | bool | None = None
    """how jobs are submitted where the runs are done on Slurm; true or false, as in files of
    small-data-metrics, says nothing here"""
    newt: NewtFilters | None = None
    newt_data: str = ""
    newt_root: str = ""

    # Accepted for the sake of existing files; `NO_EFFECT` says so to the user.
    debug: Any = None
    graph: Any = None
    graph_to: Any = None
    log_to: Any = None
    report_to: Any = None
    slurm_acct: Any = None
    ssl: Any = None
    batch_size: Any = None
    n_workers: Any = None
    device: Any = None
    parallel: Any = None


def experiment_schema() -> type[Experiment]:
    """`Experiment` with the settings of every protocol, and a table `[NAME]` of changes to the
    blocks of that protocol in the tasks' files; several tables, or lists inside one, are axes.
    """
    return _with_protocols(tuple(PROTOCOLS.names()))


@cache
def _with_protocols(names: tuple[str, ...]) -> type[Experiment]:
    fields: dict[str, Any] = {}
    for protocol in (protocols()[name] for name in names):
        if has_block(protocol):
            fields[protocol.name] = (str | dict[str, Any] | list[dict[str, Any]] | None, None)
        for setting in settings_of(protocol.Settings):
            one = Annotated[Any, AfterValidator(_checked(setting))]
            many = Annotated[list[one], BeforeValidator(_as_list), Field(min_length=1)]
            fields[setting.name] = ((many if setting.changes_answers else one) | None, None)
    return create_model("Experiment", __base__=Experiment, **fields)


def _checked(setting: Setting) -> Any:
    def check(value: Any) -> Any:
        if expected := setting.problem(value):
            raise ValueError(f"expected {expected}")
        return float(value) if setting.type is float else value

    return check
