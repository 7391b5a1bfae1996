"""What may stand in an experiment file?

fieldmark's own grids, and the files of small-data-metrics as they are: `[[models]]` with method,
org and ckpt, `newt_data`, `[newt]` filters. Any list is an axis of the grid.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Sampling = Literal["balanced", "uniform"]
Ints = Annotated[list[StrictInt], BeforeValidator(_as_list), Field(min_length=1)]
Counts = Annotated[
    list[Annotated[StrictInt, Field(ge=-1)]], BeforeValidator(_as_list), Field(min_length=1)
]
Bools = Annotated[list[StrictBool], BeforeValidator(_as_list), Field(min_length=1)]
Texts = Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1)]

NO_EFFECT = (
    "debug",
    "graph",
    "graph_to",
    "log_to",
    "report_to",
    "slurm",
    "slurm_acct",
    "ssl",
    "batch_size",
    "n_workers",
    "device",
    "parallel",
)
"""keys of small-data-metrics that say how, not what: flags and `fieldmark.toml` decide here"""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelTable(_Strict):
    """`[[models]]` of small-data-metrics."""

    method: Literal["cvml", "mllm"]
    org: str
    ckpt: str

    @property
    def protocol(self) -> str:
        return "probe" if self.method == "cvml" else "ask"

    @property
    def model(self) -> str:
        if self.method == "mllm":
            return f"chat/{self.org}/{self.ckpt}"
        family = {"timm-vit": "timm"}.get(self.org, self.org)
        return f"{family}/{self.ckpt}"


class NewtFilters(_Strict):
    """`[newt]`: which of its 164 tasks to run."""

    tasks: list[str] | None = None
    include_clusters: list[str] | None = None
    include_subclusters: list[str] | None = None
    exclude_tasks: list[str] | None = None
    exclude_clusters: list[str] | None = None
    exclude_subclusters: list[str] | None = None


class Experiment(_Strict):
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
    probe: dict[str, Any] | list[dict[str, Any]] | None = None
    """changes to the tasks' probe blocks; several tables, or lists inside one, are axes"""
    data: dict[str, str] = {}
    """dataset → folder, relative to this file"""
    newt: NewtFilters | None = None
    newt_data: str = ""
    newt_root: str = ""

    # How multimodal models are asked.
    temp: (
        Annotated[
            list[Annotated[float, Field(ge=0, le=2)]],
            BeforeValidator(_as_list),
            Field(min_length=1),
        ]
        | None
    ) = None
    prompting: (
        Annotated[list[Literal["single", "multi"]], BeforeValidator(_as_list), Field(min_length=1)]
        | None
    ) = None
    cot_enabled: Bools | None = None
    circular: Bools | None = None
    shared_prefix: Bools | None = None
    json_answers: Bools | None = None
    prompts_for: Texts | None = None

    # Accepted for the sake of existing files; `NO_EFFECT` says so to the user.
    debug: Any = None
    graph: Any = None
    graph_to: Any = None
    log_to: Any = None
    report_to: Any = None
    slurm: Any = None
    slurm_acct: Any = None
    ssl: Any = None
    batch_size: Any = None
    n_workers: Any = None
    device: Any = None
    parallel: Any = None
