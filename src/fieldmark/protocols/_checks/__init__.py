"""Which task files are wrong, and what do their documents become? For `fieldmark check`."""

from fieldmark.protocols._checks._data import Rendered, RenderedDocument, render_documents
from fieldmark.protocols._checks._files import Checked, CheckedFile, check_files

__all__ = [
    "Checked",
    "CheckedFile",
    "Rendered",
    "RenderedDocument",
    "check_files",
    "render_documents",
]
