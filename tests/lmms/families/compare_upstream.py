"""Where do lmms-eval's own classes and fieldmark differ? JSON to stdout: a count and a list.

python compare_upstream.py tasks       every field of every task of the checkout, per model
python compare_upstream.py families    texts, messages and values of the made documents
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fieldmark.errors import FieldmarkError
from fieldmark.lmms.ask.settings import generation_kwargs, prompt_kwargs, target_kwargs
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.read.files import index_folders
from fieldmark.lmms.read.groups import load_document_task
from fieldmark.lmms.read.schema import DocumentTask
from lmms.families.families import FAMILIES
from lmms.families.files import PLATES_ROOT
from lmms.families.kit import TASKS, Family, Unscored
from lmms.families.made_data import redirected, trusted, write_plates
from lmms.families.upstream import load_upstream

MODELS = ("openai", "qwen2_5_vl", "llava", "gpt4v", "qwen_vl", "neo_ov", "plm", "nobody")
_ELSEWHERE = ("generation_kwargs", "tag", "group", "metric_list", "filter_list", "description")
Pair = tuple[str, str, Any, Any]
"""file or task, what, theirs, ours"""


class Mark:
    """`!function` as upstream's reader meets it: the text and the folder it counts from."""

    def __init__(self, text: str, folder: str) -> None:
        self.text, self.folder = text, Path(folder).resolve()

    def __call__(self, *_: Any) -> None:
        """Upstream asks whether a field can be called."""

    def __deepcopy__(self, _: Any) -> Mark:
        return self

    def __repr__(self) -> str:
        return f"!function {self.text} of {self.folder}"

    def is_same(self, other: Any) -> bool:
        if not isinstance(other, Function):
            return False
        return other.text == self.text and other.file.parent.resolve() == self.folder


def is_same(theirs: Any, ours: Any) -> bool:
    """Equal in value and kind, lists and tuples alike."""
    if isinstance(theirs, Mark):
        return theirs.is_same(ours)
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)):
        pairs = zip(theirs, ours, strict=False)
        return len(theirs) == len(ours) and all(is_same(a, b) for a, b in pairs)
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        return theirs.keys() == ours.keys() and all(is_same(theirs[k], ours[k]) for k in theirs)
    if isinstance(theirs, bool) or isinstance(ours, bool) or theirs is None or ours is None:
        return theirs is ours
    return bool(theirs == ours)


def compare_tasks() -> Iterator[Pair]:
    utils, task = load_upstream()
    utils.import_function = lambda loader, node: Mark(
        loader.construct_scalar(node),
        os.path.dirname(loader.name),  # noqa: PTH120 - as upstream
    )
    for entry in index_folders([TASKS]).entries:
        if entry.kind != "task":
            continue
        name = str(entry.path.relative_to(TASKS))
        raw = utils.load_yaml_config(str(entry.path))
        try:
            ours = load_document_task(entry.path, trusted())
        except FieldmarkError as error:
            yield name, "cannot be read", "", str(error)
            continue
        for what, theirs, mine in _fields(task, raw, ours):
            yield name, what, theirs, mine


def _fields(task: Any, raw: dict[str, Any], ours: DocumentTask) -> Iterator[tuple[str, Any, Any]]:
    theirs = task.TaskConfig(**copy.deepcopy(raw))
    for name in theirs.__dataclass_fields__:
        if name not in _ELSEWHERE:
            yield name, getattr(theirs, name), getattr(ours, name)
    yield "description", theirs.description or "", ours.description
    tags = [theirs.tag] if isinstance(theirs.tag, str) else theirs.tag or []
    yield "tag", tags, ours.tag or ours.group
    yield "metric_list", _written(theirs.metric_list), _metrics(ours)
    yield "filter_list", theirs.filter_list, _filters(ours)
    for model in MODELS:
        yield from _of_model(task, raw, ours, model)


def _written(metrics: Any) -> Any:
    """Keys that stand without a value are as good as absent."""
    if metrics is None:
        return None
    return [{k: v for k, v in (each or {}).items() if v is not None} for each in metrics]


def _metrics(ours: DocumentTask) -> Any:
    if ours.metric_list is None:
        return None
    return [
        {
            key: value
            for key, value in (
                ("metric", item.metric),
                ("aggregation", item.aggregation),
                ("higher_is_better", item.higher_is_better),
                *item.options.items(),
            )
            if value is not None
        }
        for item in ours.metric_list
    ]


def _filters(ours: DocumentTask) -> Any:
    if ours.filter_list is None:
        return None
    return [
        {
            "name": each.name,
            "filter": [{"function": step.function, **step.options} for step in each.filter],
        }
        for each in ours.filter_list
    ]


def _of_model(
    task: Any, raw: dict[str, Any], ours: DocumentTask, model: str
) -> Iterator[tuple[str, Any, Any]]:
    made = object.__new__(task.ConfigurableTask)
    made._config, made.model_name = task.TaskConfig(**copy.deepcopy(raw)), model
    made._prepare_model_specific_config()
    settings = made._config.generation_kwargs
    yield f"prompts of {model}", made.lmms_eval_specific_kwargs, prompt_kwargs(ours, [model])
    yield f"targets of {model}", made.model_specific_target_kwargs, target_kwargs(ours, [model])
    yield f"settings of {model}", settings, generation_kwargs(ours, [model]) or None


def compare_families() -> Iterator[Pair]:
    utils, task = load_upstream()
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_plates(folder)
        os.environ[PLATES_ROOT] = os.environ["HF_DATASETS_CACHE"] = name
        for family in FAMILIES:
            for key in family.keys:
                raw = utils.load_yaml_config(str(TASKS / family.file)) | redirected(family, folder)
                raw.pop("fewshot_split", None)
                kind = task.ConfigurableTask if family.choices else task.ConfigurableMessagesTask
                made = kind(config=raw, model_name=key or "openai")
                for what, theirs, ours in _of_family(family, key, made):
                    yield family.task, f"{what} {key}", theirs, ours


def _of_family(family: Family, key: str, made: Any) -> Iterator[tuple[str, Any, Any]]:
    docs, code = list(made.eval_docs_no_media), family.code()
    has_shots = bool(made.config.num_fewshot)
    for number, doc in enumerate(docs):
        yield "target", made.doc_to_target(doc), family.target(code, family.bare(number))
        if family.choices:
            yield "choices", made.doc_to_choice(doc), family.choices(code, family.bare(number))
        if not has_shots:
            yield "text", made.fewshot_context(doc, 0), family.expected_text(number, key)
        if not has_shots and not family.choices:
            yield from _messages(family, key, number, made.doc_to_messages(made.task_docs[number]))
    if family.choices:
        return
    every = [_values(made, doc, said) for doc, said in zip(docs, family.answers, strict=True)]
    yield "values", every, [family.expected_values(number) for number in range(len(docs))]
    yield "aggregates", _aggregates(made, every), family.expected_aggregates()


def _values(made: Any, doc: dict[str, Any], said: Any) -> dict[str, Any]:
    """Through the real filters and the real scoring, under the names of results."""
    from lmms_eval.api.instance import Instance

    about = {"task": made.config.task, "doc_id": 0, "repeats": made.config.repeats}
    asked = Instance(request_type="generate_until", arguments=(), idx=0, metadata=about)
    asked.resps = [said.rpartition("</think>")[2]] if isinstance(said, str) else list(said)
    found = {}
    for ensemble in made._filters:
        ensemble.apply([asked], [doc])
        values = made.process_results(doc, [asked.filtered_resps[ensemble.name]])
        end = "" if ensemble.name == "none" else f",{ensemble.name}"
        found |= {f"{name}{end}": value for name, value in values.items()}
    return found


def _messages(family: Family, key: str, number: int, told: Any) -> Iterator[tuple[str, Any, Any]]:
    parts = [part for message in told for part in message["content"]]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    yield "sent", text, family.expected_sent(number, key)
    n_shown = sum(part["type"] == "image" for part in parts)
    yield "n pictures", n_shown, len(family.expected_visuals(number))


def _aggregates(made: Any, every: list[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    pipelines = [each.name for each in made._filters]
    named = [
        (name if pipeline == "none" else f"{name},{pipeline}", function)
        for pipeline in pipelines
        for name, function in made.aggregation().items()
    ]
    for name, function in named:
        items = [each[name] for each in every if name in each]
        try:
            found |= {name: function(items)} if items else {}
        except AssertionError:
            found[name] = Unscored
    return found


def main() -> None:
    compare = {"tasks": compare_tasks, "families": compare_families}[sys.argv[1]]
    n, different = 0, []
    with contextlib.redirect_stdout(io.StringIO()):
        for n, (where, what, theirs, ours) in enumerate(compare(), 1):  # noqa: B007 - is counted
            if not is_same(theirs, ours):
                different.append((where, what, repr(theirs), repr(ours)))
    sys.stdout.write(json.dumps({"n_compared": n, "different": different}))


if __name__ == "__main__":
    main()
