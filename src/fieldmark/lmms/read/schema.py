"""Schema: what may stand in a task file in lmms-eval's form?

All 42 fields of its task configuration, read as its authors meant them; `!function` stays a mark
(`Function`) until it is needed. Keys that have no effect upstream are accepted, and told by
`DocumentTask.notes`. What is rendered, sent and scored is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    StrictInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.source_lines import Located

if TYPE_CHECKING:
    from fieldmark.tasks.split import Draw

OutputType = Literal[
    "generate_until",
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
    "generate_until_multi_round",
    "generate_until_agentic",
    "generate_visual_cot",
]
NOT_RUN = {
    "generate_until_agentic": "asks for a model that acts through tools",
    "generate_visual_cot": "asks for a model that draws pictures",
}
"""output types that are read and checked, but not run → why"""
_USUAL_METRICS = {
    "multiple_choice": ("acc", "acc_norm"),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}
_FIRST_RESPONSE = {"name": "none", "filter": [{"function": "take_first"}]}
NO_EFFECT = {
    "batch_size": "belongs to the model, not the task",
    "doc_to_audio": "is not a field of lmms-eval: doc_to_visual gives sounds too",
    "full_docs": "is never read",
    "group_alias": "has a meaning in group files only",
    "should_decontaminate": "does not change a score",
    "doc_to_decontamination_query": "does not change a score",
    "use_prompt": "is never read",
}
"""keys that are accepted and change nothing → why"""
GROUP_KEYS = frozenset(("group", "group_alias", "task", "aggregate_metric_list", "metadata"))
"""keys that are a group's own; any other is put onto its members"""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict) else (() if value is None else value)


def _as_names(value: Any) -> Any:
    return [value] if isinstance(value, str) else ([] if value is None else value)


def _is_function(value: Any) -> Function:
    if isinstance(value, Function):
        return value
    raise ValueError("expected `!function` with a file and a name in it")


Code = Annotated[Function, PlainValidator(_is_function)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class _WithOptions(BaseModel):
    """Keys that are not listed are options."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class MetricItem(_WithOptions):
    """One entry of `metric_list`; further keys are options of the metric."""

    metric: str | Code
    aggregation: str | Code | None = None
    higher_is_better: bool | None = None

    @property
    def name(self) -> str:
        """What the metric is called in results."""
        return self.metric if isinstance(self.metric, str) else self.metric.text.rpartition(".")[2]


class FilterStep(_WithOptions):
    """One step of a pipeline; further keys are its options."""

    function: str | Code


class Pipeline(_StrictModel):
    """A named way from raw responses to what is scored."""

    name: str
    filter: tuple[FilterStep, ...]


class DocumentTask(_StrictModel):
    """A task in lmms-eval's form, with everything it includes in place."""

    task: Annotated[str, Field(min_length=1)]
    task_alias: str | None = None
    tag: Names = ()
    group: Names = ()
    """an old word for `tag`, inside tasks"""
    group_alias: str | None = None
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] | None = None
    training_split: str | None = None
    validation_split: str | None = None
    test_split: str | None = None
    fewshot_split: str | None = None
    full_docs: bool = False
    process_results_use_image: bool = False
    process_docs: Code | None = None
    doc_to_visual: str | Code | None = None
    doc_to_text: str | StrictInt | Code | None = None
    doc_to_target: str | StrictInt | list[Any] | Code | None = None
    doc_to_choice: str | list[Any] | dict[Any, Any] | Code | None = None
    doc_to_messages: Code | None = None
    doc_to_audio: Any = None
    process_results: Code | None = None
    use_prompt: str | None = None
    description: str | Code = ""
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    fewshot_config: dict[str, Any] | None = None
    num_fewshot: Annotated[int, Field(ge=0)] | None = None
    metric_list: tuple[MetricItem, ...] | None = None
    output_type: OutputType = "generate_until"
    generation_kwargs: dict[str, Any] | None = None
    repeats: Annotated[int, Field(ge=1)] = 1
    filter_list: tuple[Pipeline, ...] | None = None
    should_decontaminate: bool = False
    doc_to_decontamination_query: str | None = None
    cluster_key: str | None = None
    score_key: str = "score"
    metadata: Any = None
    lmms_eval_specific_kwargs: dict[str, Any] | None = None
    model_specific_generation_kwargs: dict[str, Any] | None = None
    model_specific_target_kwargs: dict[str, Any] | None = None
    reasoning_tags: Any = None
    auto_strip_thinking: bool = False
    batch_size: Any = None

    _origin: Located | None = PrivateAttr(default=None)
    _trust: Trust = PrivateAttr(default_factory=Trust)
    _notes: tuple[str, ...] = PrivateAttr(default=())

    @field_validator("group")
    @classmethod
    def _one_word_for_tags(cls, group: Names, info: ValidationInfo) -> Names:
        if group and info.data.get("tag"):
            raise ValueError("expected `tag` only: group is an old word for it, inside tasks")
        return group

    @property
    def metrics(self) -> tuple[MetricItem, ...]:
        """The file's own list, else what is usual for its kind of output."""
        names = _USUAL_METRICS.get(self.output_type, ("exact_match",))
        return self.metric_list or tuple(MetricItem(metric=name) for name in names)

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        return self.filter_list or (Pipeline.model_validate(_FIRST_RESPONSE),)

    @property
    def n_repeats(self) -> int:
        """How often each question is asked; once where likelihoods or rounds are."""
        return self.repeats if self.output_type == "generate_until" else 1

    @property
    def tags(self) -> tuple[str, ...]:
        """What it can be called by, together with others."""
        return self.tag or self.group

    @property
    def trust(self) -> Trust:
        return self._trust

    @property
    def origin(self) -> Located | None:
        """The file with what it includes, and where each key stands."""
        return self._origin

    def renamed(self, name: str) -> DocumentTask:
        """The same task under another name."""
        return self if name == self.task else self.model_copy(update={"task": name})

    @property
    def notes(self) -> tuple[str, ...]:
        """What was accepted and has no effect, one line each."""
        return self._notes

    @property
    def version(self) -> str:
        """`metadata.version`, where metadata is a mapping or a list of them."""
        blocks = self.metadata if isinstance(self.metadata, list) else [self.metadata]
        versions = [
            block["version"] for block in blocks if isinstance(block, dict) and "version" in block
        ]
        return str(versions[0]) if versions else ""

    @property
    def functions(self) -> list[Function]:
        """Every piece of code it names, in the order it stands in."""
        return functions_of(self)

    def block(self, protocol: str) -> None:  # noqa: ARG002 - as of a task of our own
        """It has none: it writes its own prompts."""
        return

    def cell(
        self,
        learns: bool,  # noqa: ARG002 - as of a task of our own
        n_train: int | None = None,
        n_test: int | None = None,
        seed: int = 0,
        repeats: int | None = None,
        **_: Any,
    ) -> tuple[DocumentTask, Draw]:
        """`num_fewshot` of the file holds unless another number is asked for; an exact 0 holds
        always, as its authors mean it: the task takes no examples. Nor does one that writes its own
        messages.
        """
        from fieldmark.tasks.split import Draw

        n_of_file = 0 if self.doc_to_messages is not None else self.num_fewshot or 0
        n_shown = n_of_file if n_train is None or self.num_fewshot == 0 else n_train
        repeated = self.model_copy(update={"repeats": repeats}) if repeats else self
        return repeated, Draw(n_train=n_shown, n_test=-1 if n_test is None else n_test, seed=seed)

    def plain(self) -> dict[str, Any]:
        """The keys that differ from their defaults, as JSON; code by its name."""
        given = {
            name: getattr(self, name)
            for name, about in type(self).model_fields.items()
            if getattr(self, name) != about.default
        }
        keys = {name: _plain(value) for name, value in given.items()}
        return {name: value for name, value in keys.items() if value not in ([], {})}

    def show(self) -> str:
        """The file as it is read: what it includes is in place."""
        import yaml

        keys = yaml.safe_dump(self.plain(), sort_keys=False, allow_unicode=True).rstrip()
        return f"{self.task}  {self.line_of('task')}\n\n{keys}"

    @property
    def eval_split(self) -> str | None:
        """The split that is asked about."""
        return self.test_split or self.validation_split

    def line_of(self, *key: str | int) -> str:
        """`file:line` of a key, for messages; the task's name when it has no file."""
        return f"task {self.task!r}" if self._origin is None else self._origin.where(key)


class GroupItem(_StrictModel):
    """A member of a group: a task, tag or group by name with keys that differ, or a group."""

    name: str
    overrides: dict[str, Any] = {}
    inner: Group | None = None
    """a group that is written inside the group"""

    @model_validator(mode="before")
    @classmethod
    def _read_item(cls, value: Any) -> Any:
        """`mmmu`, `{task: mmmu, num_fewshot: 2}` or `{group: name, task: [...]}`."""
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, dict):
            raise ValueError("expected the name of a task, or a mapping with `task`")
        task, rest = value.get("task"), {k: v for k, v in value.items() if k != "task"}
        if isinstance(task, list):
            return {"name": rest.get("group"), "inner": value}
        if not isinstance(task, str):
            raise ValueError("expected a mapping with `task`, the name of a task")
        return {"name": task, "overrides": rest}


class GroupMetric(_StrictModel):
    """One entry of `aggregate_metric_list`."""

    metric: str
    aggregation: str | Code = "mean"
    weight_by_size: bool = False
    filter_list: Names = ("none",)


class Group(_StrictModel):
    """A group file: tasks that run together, and what is averaged over them."""

    group: str
    group_alias: str | None = None
    task: tuple[GroupItem, ...] = ()
    aggregate_metric_list: Annotated[tuple[GroupMetric, ...], BeforeValidator(_as_list)] = ()
    metadata: Any = None
    overrides: dict[str, Any] = {}
    """any other key of the file: put onto every member"""

    _origin: Located | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        group_keys = {key: inner for key, inner in value.items() if key in GROUP_KEYS}
        rest = {key: inner for key, inner in value.items() if key not in GROUP_KEYS}
        return group_keys | {"overrides": rest}

    def line_of(self, *key: str | int) -> str:
        return f"group {self.group!r}" if self._origin is None else self._origin.where(key)


def result_name(metric: str, pipeline: str) -> str:
    """As results call it: a metric of a pipeline that is not `none` carries its name.

    >>> result_name("acc", "none"), result_name("acc", "strict")
    ('acc', 'acc,strict')
    """
    return metric if pipeline == "none" else f"{metric},{pipeline}"


def functions_of(value: Any) -> list[Function]:
    """Every `!function` in a value."""
    if isinstance(value, Function):
        return [value]
    if isinstance(value, BaseModel):
        value = [*(getattr(value, name) for name in type(value).model_fields), value.model_extra]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [function for item in value for function in functions_of(item)]
    return []


def _plain(value: Any) -> Any:
    if isinstance(value, Function):
        return str(value)
    if isinstance(value, BaseModel):
        named = {name: getattr(value, name) for name in type(value).model_fields}
        return _plain({**named, **(value.model_extra or {})})
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
