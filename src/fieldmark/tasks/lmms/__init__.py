"""Tasks in lmms-eval's form: its own YAML files, read unchanged.

    trust = Trust.of(folder)                            code may run from there
    task = load_document_task(folder / "mme.yaml", trust)
    documents = open_documents(task, cache, fetch=False)
    Fields(task, prompt_kwargs(task, ["openai"]), None, documents.test.columns).text(document)

Nothing is imported, fetched or run before somebody asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.tasks.lmms._checks import (
        LEVELS,
        Problem,
        code_problems,
        field_problems,
        problems_of,
        told_once,
    )
    from fieldmark.tasks.lmms._code import call, load_function, seeded
    from fieldmark.tasks.lmms._digest import code_digest
    from fieldmark.tasks.lmms._documents import Documents, Split, open_documents
    from fieldmark.tasks.lmms._fields import Fields
    from fieldmark.tasks.lmms._filters import FILTERS, make_filter, register_filter, run_pipeline
    from fieldmark.tasks.lmms._groups import Expanded, expand, expand_file
    from fieldmark.tasks.lmms._index import Entry, Index, index_folders, yaml_files
    from fieldmark.tasks.lmms._kwargs import (
        generation_kwargs,
        prompt_key,
        prompt_kwargs,
        target_kwargs,
    )
    from fieldmark.tasks.lmms._loader import load_document_task, load_group, make_group, make_task
    from fieldmark.tasks.lmms._marks import Function, Trust
    from fieldmark.tasks.lmms._media import to_picture
    from fieldmark.tasks.lmms._plain import functions_of, plain_task
    from fieldmark.tasks.lmms._read import kind_of, read_document_file
    from fieldmark.tasks.lmms._reasoning import reasoning_tags, strip_response
    from fieldmark.tasks.lmms._schema import (
        NOT_RUN,
        DocumentTask,
        Group,
        GroupMetric,
        MetricItem,
        Pipeline,
    )
    from fieldmark.tasks.lmms._template import render

__all__ = [
    "FILTERS",
    "LEVELS",
    "NOT_RUN",
    "DocumentTask",
    "Documents",
    "Entry",
    "Expanded",
    "Fields",
    "Function",
    "Group",
    "GroupMetric",
    "Index",
    "MetricItem",
    "Pipeline",
    "Problem",
    "Split",
    "Trust",
    "call",
    "code_digest",
    "code_problems",
    "expand",
    "expand_file",
    "field_problems",
    "functions_of",
    "generation_kwargs",
    "index_folders",
    "kind_of",
    "load_document_task",
    "load_function",
    "load_group",
    "make_filter",
    "make_group",
    "make_task",
    "open_documents",
    "plain_task",
    "problems_of",
    "prompt_key",
    "prompt_kwargs",
    "read_document_file",
    "reasoning_tags",
    "register_filter",
    "render",
    "run_pipeline",
    "seeded",
    "strip_response",
    "target_kwargs",
    "to_picture",
    "told_once",
    "yaml_files",
]

__getattr__ = exports(
    __name__,
    {
        "_checks": (
            "LEVELS",
            "Problem",
            "code_problems",
            "field_problems",
            "problems_of",
            "told_once",
        ),
        "_code": ("call", "load_function", "seeded"),
        "_digest": ("code_digest",),
        "_documents": ("Documents", "Split", "open_documents"),
        "_fields": ("Fields",),
        "_filters": ("FILTERS", "make_filter", "register_filter", "run_pipeline"),
        "_groups": ("Expanded", "expand", "expand_file"),
        "_index": ("Entry", "Index", "index_folders", "yaml_files"),
        "_kwargs": ("generation_kwargs", "prompt_key", "prompt_kwargs", "target_kwargs"),
        "_loader": ("load_document_task", "load_group", "make_group", "make_task"),
        "_marks": ("Function", "Trust"),
        "_media": ("to_picture",),
        "_plain": ("functions_of", "plain_task"),
        "_read": ("kind_of", "read_document_file"),
        "_reasoning": ("reasoning_tags", "strip_response"),
        "_schema": ("NOT_RUN", "DocumentTask", "Group", "GroupMetric", "MetricItem", "Pipeline"),
        "_template": ("render",),
    },
)
