"""Tasks in lmms-eval's format: read, trusted code, documents, prompts, scores, checks, export.

read/     YAML files: includes, schema, index of folders, groups and tags
code/     code behind `!function`: where it may come from, how it is imported, called and hashed
data/     documents of a dataset and their pictures
ask/      prompts, few-shot examples, requests
score/    filters of responses, values of documents, scores with intervals
metrics/  metrics of one document, aggregations over all
check/    what is wrong with task files, for `fieldmark check`
compat/   what task code finds under the name `lmms_eval`

Nothing is imported, fetched or run before somebody asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.lmms.ask.run import ask_documents, estimate_documents
    from fieldmark.lmms.check.files import Checked, check_files, document_problems
    from fieldmark.lmms.check.problems import LEVELS, Problem, problems_of, told_once
    from fieldmark.lmms.check.render import Rendered, RenderedDocument, render_documents
    from fieldmark.lmms.code.digest import code_digest
    from fieldmark.lmms.code.trust import Trust
    from fieldmark.lmms.data.documents import DocumentPart, Documents, draw_part, open_documents
    from fieldmark.lmms.read.index import yaml_files
    from fieldmark.lmms.read.schema import DocumentTask, functions_of, plain_task
    from fieldmark.lmms.score.encoding import decode
    from fieldmark.lmms.score.scores import score_document_run
    from fieldmark.lmms.score.wanted import mean_of, metric_names

__all__ = [
    "LEVELS",
    "Checked",
    "DocumentPart",
    "DocumentTask",
    "Documents",
    "Problem",
    "Rendered",
    "RenderedDocument",
    "Trust",
    "ask_documents",
    "check_files",
    "code_digest",
    "decode",
    "document_problems",
    "draw_part",
    "estimate_documents",
    "functions_of",
    "mean_of",
    "metric_names",
    "open_documents",
    "plain_task",
    "problems_of",
    "render_documents",
    "score_document_run",
    "told_once",
    "yaml_files",
]

__getattr__ = exports(
    __name__,
    {
        "ask.run": (
            "ask_documents",
            "estimate_documents",
        ),
        "check.files": (
            "Checked",
            "check_files",
            "document_problems",
        ),
        "check.problems": (
            "LEVELS",
            "Problem",
            "problems_of",
            "told_once",
        ),
        "check.render": (
            "Rendered",
            "RenderedDocument",
            "render_documents",
        ),
        "code.digest": ("code_digest",),
        "code.trust": ("Trust",),
        "data.documents": (
            "DocumentPart",
            "Documents",
            "draw_part",
            "open_documents",
        ),
        "read.index": ("yaml_files",),
        "read.schema": (
            "DocumentTask",
            "functions_of",
            "plain_task",
        ),
        "score.encoding": ("decode",),
        "score.scores": ("score_document_run",),
        "score.wanted": (
            "mean_of",
            "metric_names",
        ),
    },
)
