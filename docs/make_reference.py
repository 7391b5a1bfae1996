"""Writes docs/reference/ from the code: `python docs/make_reference.py`. A test sees to it."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import itertools
import os
import re
import sys
import textwrap
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import fieldmark.metrics
from fieldmark.cli import commands, main
from fieldmark.data import DATASETS
from fieldmark.lmms.metrics.registry import document_metric, known_document_metrics
from fieldmark.metrics import known_metrics, load_metric
from fieldmark.models import known_models
from fieldmark.probes import PROBES, load_probe
from fieldmark.protocols import (
    OtherModel,
    Pairs,
    Protocol,
    Setting,
    field_docs,
    main_key,
    protocols,
    settings_of,
    summary_of,
)
from fieldmark.tasks import load_task, task_files

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- written by docs/make_reference.py: do not edit -->\n\n"


def pages() -> dict[str, str]:
    """File name → text."""
    return {
        "commands.md": _commands(),
        "datasets.md": _datasets(),
        "metrics.md": _metrics(),
        "models.md": _models(),
        "probes.md": _probes(),
        "protocols.md": _protocols(),
        "tasks.md": _tasks(),
    }


def _commands() -> str:
    os.environ["COLUMNS"] = "96"
    parts = [f"{NOTE}# Commands\n"]
    for name in commands():
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            main([*name.split(), "--help-all"])
        parts.append(f"## fieldmark {name}\n\n```text\n{shown.getvalue().rstrip()}\n```\n")
    return "\n".join(parts)


def _datasets() -> str:
    parts = [f"{NOTE}# Datasets\n"]
    for name in DATASETS.names():
        info = DATASETS.get(name).INFO
        parts.append(f"## {name}\n\n{info.title}\n\n- licence: {info.licence}")
        if info.homepage:
            parts[-1] += f"\n- home: {info.homepage}"
        parts.append(f"```text\n{info.layout.strip()}\n```\n\n{info.citation.strip()}\n")
    return "\n".join(parts)


def _models() -> str:
    rows = ["| model | known as | parameters | px | licence |", "|---|---|---:|---:|---|"]
    for model in known_models():
        if "#" in model.name:  # handed over as an object in this process
            continue
        params = "" if model.params is None else f"{model.params:,}"
        cells = (f"`{model.name}`", model.title, params, str(model.input_px or ""), model.licence)
        rows.append(f"| {' | '.join(cells)} |")
    text = "Any other checkpoint of a family works too. Parameters are those of the image tower."
    return "\n".join([f"{NOTE}# Models\n\n{text}\n", *rows, ""])


def _tasks() -> str:
    parts = [f"{NOTE}# Tasks\n"]
    for name, path in sorted(task_files().items()):
        task = load_task(name)
        variants = ", ".join(f"`{name}@{variant}`" for variant in task.variants) or "none"
        parts.append(
            f"## {name}\n\n**{task.title}** {task.about}\n\n- dataset: `{task.dataset}`\n"
            f"- metric: `{task.metric}`\n- variants: {variants}\n\n"
            f"```yaml\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"
        )
    return "\n".join(parts)


TRAINING = {
    "needed": "fits",
    "possible": "fits nothing; can show some",
    "none": "fits nothing; needs no",
}


def _protocols() -> str:
    text = (
        "A protocol is how a model is asked a task. A task's file has one block per protocol, and "
        "a model has abilities. It is asked in every way that both can; `--protocol NAME` chooses "
        "one "
        '(in an experiment file `protocol = "NAME"`). '
        "[Add a protocol](../add-a-protocol.md) of your own: one file."
    )
    parts = [f"{NOTE}# Protocols\n\n{text}\n"]
    owners: dict[type, str] = {}
    for name, protocol in protocols().items():
        facts = [
            f"- needs a model that {', or that '.join(map(_needs, protocol.needs))}",
            f"- {TRAINING[protocol.training]} training images",
        ]
        about = inspect.getdoc(sys.modules[type(protocol).__module__]) or ""
        listed = "\n".join(facts)
        parts.append(f"## {name}\n\n{_sentence(summary_of(protocol))}\n\n{listed}\n\n{about}\n")
        parts.append(_block(protocol) + _settings(protocol, owners))
    return "\n".join(parts)


def _block(protocol: Protocol) -> str:
    block = protocol.Block
    if block is None:
        return "It has no block: the task's file says everything.\n"
    docs, rows = field_docs(block), []
    for key, field in block.model_fields.items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        shown = "required" if field.is_required() else _value(default)
        rows.append((f"`{key}`", _type(field.annotation), shown, docs[key]))
    head = f"### The `{protocol.name}` block\n\n{inspect.getdoc(block)}\n\n"
    example = f"`--{protocol.name} KEY=VALUE`, in an experiment file the table `[{protocol.name}]`"
    word = f"; a word alone is its `{main_key(protocol)}`"
    tail = f"\nAll keys are part of a run's key. Changed for one command by {example}{word}.\n"
    return head + _table(("key", "type", "default", "meaning"), rows) + tail


def _needs(way: frozenset[str]) -> str:
    return " and ".join(_plain(need) for need in sorted(way))


def _settings(protocol: Protocol, owners: dict[type, str]) -> str:
    settings = settings_of(protocol.Settings)
    if not settings:
        return "\nIt has no settings.\n"
    if protocol.Settings in owners:
        owner = owners[protocol.Settings]
        own = [setting.name for setting in settings if setting.changes_answers]
        applies = inspect.getmodule(type(protocol)).APPLIES  # type: ignore[union-attr]
        refused = [name for name in own if name not in applies]
        told = f"\nIts settings are those of [`{owner}`](#settings-of-{owner})."
        return f"{told} Refused, as the task writes its own prompts: {_names(refused)}.\n"
    owners[protocol.Settings] = protocol.name
    rows = [
        (
            f"`{_flag(setting)}`",
            f"`{setting.name}`",
            _type(setting.type) + (setting.range.words if setting.range else ""),
            "yes" if setting.changes_answers else "no",
            setting.doc,
        )
        for setting in settings
    ]
    about = _sentence(inspect.getdoc(protocol.Settings))
    head = (
        f"\n### Settings of `{protocol.name}`\n\n{about} What is part of a run's key may be a list "
        "in an experiment file: one run for each value.\n\n"
    )
    return head + _table(("flag", "in a file", "value", "in the run key", "meaning"), rows)


def _flag(setting: Setting) -> str:
    words = "" if setting.type is bool else " " + ("|".join(setting.choices) or "VALUE")
    return f"--{setting.name.replace('_', '-')}{words}"


def _probes() -> str:
    text = (
        "A probe is a light classifier on the features of a frozen model: the `classifier` of a "
        "task's [`probe` block](protocols.md#the-probe-block). Its parameters are further keys of "
        "that block (`probe: {classifier: neighbours, k: 5}`); `--probe neighbours k=5`, or "
        "`[probe]` in an experiment file, changes them. "
        "[Add a probe](../add-a-probe.md) of your own: one class."
    )
    parts = [f"{NOTE}# Probes\n\n{text}\n"]
    for name in PROBES.names():
        cls = type(load_probe(name))
        module = sys.modules[cls.__module__]
        title, _, _ = (inspect.getdoc(module) or "").partition("\n")
        facts = [f"- equals: `{module.RECIPE}`", f"- can: {_abilities(cls)}"]
        if extra := getattr(module, "EXTRA", ""):
            facts.append(f"- needs: `pip install 'fieldmark[{extra}]'`")
        parts.append(f"## {name}\n\n{title}\n\n" + "\n".join(facts) + "\n")
        parts.append(_parameters(cls) + f"\n{inspect.getdoc(cls)}\n")
    return "\n".join(parts)


def _abilities(cls: type) -> str:
    marks = {
        "predict_score": "say how sure it is",
        "predict_leave_one_out": "leave one out",
        "predict_repeats": "do many draws in one pass",
        "is_multilabel": "learn several traits at once",
        "takes_tensors": "stay on a GPU",
    }
    return ", ".join(words for name, words in marks.items() if getattr(cls, name, False))


def _parameters(cls: type) -> str:
    docs = parameter_docs(cls)
    lists = getattr(cls, "list_parameters", ())
    rows = [
        (
            f"`{name}`",
            "number or list" if name in lists else _type(hint),
            _value(parameter.default),
            docs[name],
        )
        for name, parameter in inspect.signature(cls).parameters.items()
        for hint in [typing.get_type_hints(cls.__init__)[name]]
    ]
    if not rows:
        return "It has no parameters.\n"
    return _table(("parameter", "type", "default", "meaning"), rows)


def parameter_docs(cls: type) -> dict[str, str]:
    """The docstring under each `self.name = name` of a class's `__init__`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lines = [line for made in functions if made.name == "__init__" for line in made.body]
    docs: dict[str, str] = {}
    for line, below in itertools.pairwise(lines):
        match line, below:
            case ast.Assign(targets=[ast.Attribute(attr=name)]), ast.Expr(ast.Constant(text)):
                docs[name] = " ".join(str(text).split())
    return docs


def _metrics() -> str:
    text = (
        "The `metric` of a task's file is its score; those named in `also` stand beside it. How "
        "intervals are made: [methods](../methods.md). "
        "[Add a metric](../add-a-probe.md) of your own: one function."
    )
    parts = [f"{NOTE}# Metrics\n\n{text}\n"]
    uses = dict(re.findall(r"^    (\w+) {2,}(.+)$", fieldmark.metrics.__doc__ or "", re.M))
    for name in known_metrics():
        metric = load_metric(name)
        better = "more" if metric.direction == "up" else "less"
        low, high = metric.bounds
        parts.append(
            f"## {name}\n\n**{_sentence(metric.title)}** {inspect.getdoc(metric)}\n\n"
            f"- {better} is better\n- from {low:g} to {high:g}\n- made from: {uses[metric.uses]}\n"
        )
    rows = []
    for name in known_document_metrics():
        known = document_metric(name)
        better = "more" if known.higher_is_better else "less"
        outputs = _names(known.outputs) or "the task's own `process_results`"
        rows.append((f"`{name}`", f"`{known.aggregation}`", better, outputs))
    parts.append(
        "## Metrics of tasks in lmms-eval's form\n\nNames that a `metric_list` may hold, besides "
        "functions of your own ([lmms-eval's form](../lmms-eval.md)).\n\n"
        + _table(("metric", "aggregation", "better", "from answers of"), rows)
    )
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _sentence(text: str | None) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _plain(ability: str) -> str:
    return ability.replace("_", " ")


def _type(hint: Any) -> str:
    """A type in words."""
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    words |= {OtherModel: "a model", Pairs: "keys and values"}
    arguments = [kind for kind in typing.get_args(hint) if kind not in (type(None), ...)]
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"table: {_type(arguments[0])} → {_type(arguments[1])}"
    return words[hint] if hint in words else " or ".join(map(_type, arguments))


def _value(value: Any) -> str:
    """A default as a task file has it."""
    if value in (None, "", (), {}):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{list(value)}`" if isinstance(value, tuple) else f"`{value}`"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
