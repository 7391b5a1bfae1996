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
    from fieldmark.lmms.ask.fields import Fields
    from fieldmark.lmms.ask.kwargs import (
        generation_kwargs,
        prompt_key,
        prompt_kwargs,
        target_kwargs,
    )
    from fieldmark.lmms.ask.part import DocumentPart, draw_part, open_part
    from fieldmark.lmms.ask.run import ask_documents, estimate_documents
    from fieldmark.lmms.ask.template import render
    from fieldmark.lmms.check import (
        LEVELS,
        Problem,
        code_problems,
        field_problems,
        problems_of,
        told_once,
    )
    from fieldmark.lmms.check.documents import document_problems
    from fieldmark.lmms.check.files import Checked, CheckedFile, check_files
    from fieldmark.lmms.check.render import Rendered, RenderedDocument, render_documents
    from fieldmark.lmms.code.call import call, load_function, seeded
    from fieldmark.lmms.code.digest import code_digest
    from fieldmark.lmms.data.documents import Documents, Split, open_documents
    from fieldmark.lmms.data.media import to_picture
    from fieldmark.lmms.read.files import kind_of, read_document_file
    from fieldmark.lmms.read.groups import Expanded, expand, expand_file
    from fieldmark.lmms.read.index import Entry, Index, index_folders, yaml_files
    from fieldmark.lmms.read.loader import load_document_task, load_group, make_group, make_task
    from fieldmark.lmms.read.marks import Function, Trust
    from fieldmark.lmms.read.plain import functions_of, plain_task
    from fieldmark.lmms.read.schema import (
        NOT_RUN,
        DocumentTask,
        Group,
        GroupMetric,
        MetricItem,
        Pipeline,
    )
    from fieldmark.lmms.score.filters import FILTERS, make_filter, register_filter, run_pipeline
    from fieldmark.lmms.score.reasoning import reasoning_tags, strip_response
    from fieldmark.lmms.score.scored import score_document_run
    from fieldmark.lmms.score.values import decode
    from fieldmark.lmms.score.wanted import mean_of, metric_names

__all__ = [
    "FILTERS",
    "LEVELS",
    "NOT_RUN",
    "Checked",
    "CheckedFile",
    "DocumentPart",
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
    "Rendered",
    "RenderedDocument",
    "Split",
    "Trust",
    "ask_documents",
    "call",
    "check_files",
    "code_digest",
    "code_problems",
    "decode",
    "document_problems",
    "draw_part",
    "estimate_documents",
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
    "mean_of",
    "metric_names",
    "open_documents",
    "open_part",
    "plain_task",
    "problems_of",
    "prompt_key",
    "prompt_kwargs",
    "read_document_file",
    "reasoning_tags",
    "register_filter",
    "render",
    "render_documents",
    "run_pipeline",
    "score_document_run",
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
        "check.files": (
            "Checked",
            "CheckedFile",
            "check_files",
        ),
        "check.render": (
            "Rendered",
            "RenderedDocument",
            "render_documents",
        ),
        "ask.part": (
            "DocumentPart",
            "draw_part",
            "open_part",
        ),
        "check.documents": ("document_problems",),
        "ask.run": (
            "ask_documents",
            "estimate_documents",
        ),
        "score.scored": ("score_document_run",),
        "score.values": ("decode",),
        "score.wanted": (
            "mean_of",
            "metric_names",
        ),
        "check": (
            "LEVELS",
            "Problem",
            "code_problems",
            "field_problems",
            "problems_of",
            "told_once",
        ),
        "code.call": ("call", "load_function", "seeded"),
        "code.digest": ("code_digest",),
        "data.documents": ("Documents", "Split", "open_documents"),
        "ask.fields": ("Fields",),
        "score.filters": ("FILTERS", "make_filter", "register_filter", "run_pipeline"),
        "read.groups": ("Expanded", "expand", "expand_file"),
        "read.index": ("Entry", "Index", "index_folders", "yaml_files"),
        "ask.kwargs": ("generation_kwargs", "prompt_key", "prompt_kwargs", "target_kwargs"),
        "read.loader": ("load_document_task", "load_group", "make_group", "make_task"),
        "read.marks": ("Function", "Trust"),
        "data.media": ("to_picture",),
        "read.plain": ("functions_of", "plain_task"),
        "read.files": ("kind_of", "read_document_file"),
        "score.reasoning": ("reasoning_tags", "strip_response"),
        "read.schema": (
            "NOT_RUN",
            "DocumentTask",
            "Group",
            "GroupMetric",
            "MetricItem",
            "Pipeline",
        ),
        "ask.template": ("render",),
    },
)
