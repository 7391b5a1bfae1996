"""Which task files are wrong, and what do their documents become? For `fieldmark check`."""

from fieldmark.protocols._checks._data import Rendered, RenderedDocument, render_documents
from fieldmark.protocols._checks._files import Checked, CheckedFile, check_files
from fieldmark.tasks.lmms._checks import LEVELS, Problem, problems_of, told_once

__all__ = [
    "LEVELS",
    "Checked",
    "CheckedFile",
    "Problem",
    "Rendered",
    "RenderedDocument",
    "check_files",
    "problems_of",
    "render_documents",
    "told_once",
]
