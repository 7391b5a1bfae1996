"""Fields, templates and kwargs, held against lmms-eval's own resolution, run from a checkout.

FIELDMARK_LMMS_EVAL names it; nothing of it is copied here. Only the functions that resolve a field
are taken out of its modules, because the modules themselves import a torch stack.
"""

from __future__ import annotations

import ast
import copy
import inspect
import os
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fieldmark.errors import FieldmarkError
from fieldmark.lmms.ask.fields import Fields, render
from fieldmark.lmms.ask.settings import generation_kwargs, prompt_kwargs, target_kwargs
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.read.groups import load_document_task
from fieldmark.lmms.read.schema import DocumentTask

CHECKOUT = os.environ.get("FIELDMARK_LMMS_EVAL", "")
pytestmark = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")
MODELS = ("openai", "qwen2_5_vl", "llava", "plm", "cot", "a model nobody knows")
VALUES: tuple[Any, ...] = (
    "a frog", "3", 2, ["moth", "newt", "owl", "bat", "bee"], True, "['p', 'q']",
    {"text": ["x", "y"], "label": ["A", "B"]}, [{"text": "x", "label": "A"}],
)  # fmt: skip


def _run_alone(nodes: list[ast.stmt], names: set[str], path: Path, space: dict[str, Any]) -> None:
    """Compiles the named functions on their own."""
    kept = [each for each in nodes if isinstance(each, ast.FunctionDef) and each.name in names]
    assert {each.name for each in kept} == names
    future = ast.parse("from __future__ import annotations").body
    module = ast.fix_missing_locations(ast.Module([*future, *kept], []))
    exec(compile(module, str(path), "exec"), space)


@pytest.fixture(scope="module")
def upstream() -> dict[str, Any]:
    from jinja2 import BaseLoader, Environment, StrictUndefined

    env = Environment(loader=BaseLoader(), undefined=StrictUndefined)
    utils: dict[str, Any] = {"re": re, "env": env}
    path = Path(CHECKOUT) / "lmms_eval" / "utils.py"
    _run_alone(ast.parse(path.read_text()).body, {"regex_replace", "apply_template"}, path, utils)
    env.filters["regex_replace"] = utils["regex_replace"]

    space: dict[str, Any] = {
        "ast": ast,
        "inspect": inspect,
        "os": os,
        "eval_logger": SimpleNamespace(warning=lambda *a: None, error=lambda *a: None),
        "utils": SimpleNamespace(apply_template=utils["apply_template"]),
    }
    path = Path(CHECKOUT) / "lmms_eval" / "api" / "task.py"
    classes = {e.name: e for e in ast.parse(path.read_text()).body if isinstance(e, ast.ClassDef)}
    _run_alone(classes["TaskConfig"].body, {"__post_init__"}, path, space)
    names = {"doc_to_text", "doc_to_target", "doc_to_choice", "_prepare_model_specific_config"}
    _run_alone(classes["ConfigurableTask"].body, names, path, space)
    return space | utils


@pytest.fixture(scope="module")
def tasks() -> list[DocumentTask]:
    folder = Path(CHECKOUT) / "lmms_eval" / "tasks"
    found = []
    for path in sorted(folder.rglob("*.yaml")):
        try:
            found.append(load_document_task(path, Trust.of(folder)))
        except FieldmarkError:
            continue
    assert len(found) > 1600
    return found


def _old(upstream: dict[str, Any], task: DocumentTask, model: str, columns: list[str]) -> Any:
    """Upstream's `self`, made as its constructor makes it."""
    config = SimpleNamespace(
        **{name: copy.deepcopy(getattr(task, name)) for name in DocumentTask.model_fields}
    )
    config.group = None
    upstream["__post_init__"](config)
    self = SimpleNamespace(config=config, _config=config, model_name=model, features=columns)
    upstream["_prepare_model_specific_config"](self)
    return self


def test_kwargs_are_those_of_upstream_for_every_task_and_model(
    upstream: dict[str, Any], tasks: list[DocumentTask]
) -> None:
    seen = 0
    for task in tasks:
        for model in MODELS:
            try:
                old = _old(upstream, task, model, [])
            except (AttributeError, TypeError):  # upstream cannot build this task at all
                continue
            assert prompt_kwargs(task, [model]) == old.lmms_eval_specific_kwargs
            assert target_kwargs(task, [model]) == old.model_specific_target_kwargs
            assert generation_kwargs(task, [model]) == (old.config.generation_kwargs or {})
            seen += 1
    assert seen > 9000


def _documents(template: str) -> list[dict[str, Any]]:
    from jinja2 import Environment, meta

    names = sorted(meta.find_undeclared_variables(Environment().parse(template)))
    same = [dict.fromkeys(names, value) for value in VALUES]
    draw = random.Random(template)
    mixed = [{name: draw.choice(VALUES) for name in names} for _ in range(40)]
    return same + mixed


def test_templates_render_as_upstream(upstream: dict[str, Any], tasks: list[DocumentTask]) -> None:
    keys = ("doc_to_text", "doc_to_target", "doc_to_choice", "description")
    templates = {getattr(task, key) for task in tasks for key in keys
                 if isinstance(getattr(task, key), str)}  # fmt: skip
    rendered = set()
    for template in sorted(templates):
        for doc in _documents(template):
            try:
                expected = upstream["apply_template"](template, copy.deepcopy(doc))
            except Exception:  # noqa: BLE001 - a made document that does not fit the template
                with pytest.raises(FieldmarkError):
                    render(template, doc)
                continue
            assert render(template, doc) == expected
            rendered.add(template)
    assert len(rendered) > 0.9 * len(templates) > 200


def test_fields_are_resolved_as_upstream(
    upstream: dict[str, Any], tasks: list[DocumentTask]
) -> None:
    seen: set[tuple[Any, ...]] = set()
    n_compared = 0
    for task in tasks:
        for key, mine in (("doc_to_text", Fields.text), ("doc_to_target", Fields.target),
                          ("doc_to_choice", Fields.choices)):  # fmt: skip
            value = getattr(task, key)
            case = (key, repr(value), task.doc_to_choice is None)
            if value is None or isinstance(value, Function) or case in seen:
                continue
            seen.add(case)
            is_text = isinstance(value, str)
            is_column = is_text and value.isidentifier()
            docs = _documents("{{" + value + "}}" if is_column else str(value) if is_text else "")
            columns = [value] if is_column else list(docs[0])
            old = _old(upstream, task, "openai", columns)
            fields = Fields(task, None, None, columns)
            for doc in docs[:12]:
                try:
                    expected = upstream[key](old, copy.deepcopy(doc))
                except Exception:  # noqa: BLE001 - a made document that does not fit the field
                    continue
                if key == "doc_to_choice" and not isinstance(expected, list):
                    continue
                assert mine(fields, doc) == expected, (task.task, key, doc)
                n_compared += 1
    assert n_compared > 1000
