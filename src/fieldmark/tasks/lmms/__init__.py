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
    from fieldmark.tasks.lmms._code import call, load_function, seeded
    from fieldmark.tasks.lmms._digest import code_digest
    from fieldmark.tasks.lmms._documents import Documents, Split, open_documents
    from fieldmark.tasks.lmms._fields import Fields
    from fieldmark.tasks.lmms._filters import make_filter, register_filter, run_pipeline
    from fieldmark.tasks.lmms._groups import Expanded, expand, expand_file
    from fieldmark.tasks.lmms._index import Entry, Index, index_folders
    from fieldmark.tasks.lmms._kwargs import (
        generation_kwargs,
        prompt_key,
        prompt_kwargs,
        target_kwargs,
    )
    from fieldmark.tasks.lmms._loader import load_document_task, load_group
    from fieldmark.tasks.lmms._marks import Function, Trust
    from fieldmark.tasks.lmms._media import to_picture
    from fieldmark.tasks.lmms._plain import functions_of, plain_task
    from fieldmark.tasks.lmms._read import kind_of, read_document_file
    from fieldmark.tasks.lmms._reasoning import reasoning_tags, strip_response
    from fieldmark.tasks.lmms._schema import (
        DocumentTask,
        Group,
        GroupMetric,
        MetricItem,
        Pipeline,
    )
    from fieldmark.tasks.lmms._template import render

__all__ = [
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
    "Split",
    "Trust",
    "call",
    "code_digest",
    "expand",
    "expand_file",
    "functions_of",
    "generation_kwargs",
    "index_folders",
    "kind_of",
    "load_document_task",
    "load_function",
    "load_group",
    "make_filter",
    "open_documents",
    "plain_task",
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
]

__getattr__ = exports(
    __name__,
    {
        "_code": ("call", "load_function", "seeded"),
        "_digest": ("code_digest",),
        "_documents": ("Documents", "Split", "open_documents"),
        "_fields": ("Fields",),
        "_filters": ("make_filter", "register_filter", "run_pipeline"),
        "_groups": ("Expanded", "expand", "expand_file"),
        "_index": ("Entry", "Index", "index_folders"),
        "_kwargs": ("generation_kwargs", "prompt_key", "prompt_kwargs", "target_kwargs"),
        "_loader": ("load_document_task", "load_group"),
        "_marks": ("Function", "Trust"),
        "_media": ("to_picture",),
        "_plain": ("functions_of", "plain_task"),
        "_read": ("kind_of", "read_document_file"),
        "_reasoning": ("reasoning_tags", "strip_response"),
        "_schema": ("DocumentTask", "Group", "GroupMetric", "MetricItem", "Pipeline"),
        "_template": ("render",),
    },
)
