"""Addresses → files on disk: streamed, resumed, checked, unpacked, whatever the servers do.

    get_sources(sources, root, Choice(), progress)     a dataset's files into their layout
    get_urls(table, out, Columns(), pace, progress)    a table of addresses into a folder

Only the standard library is used. Nothing is fetched twice, nothing half-done has a final name.
"""

from __future__ import annotations

from fieldmark.data._get._dataset_files import Choice, FileState, announce, get_sources
from fieldmark.data._get._job import Pace
from fieldmark.data._get._state import FOLDER
from fieldmark.data._get._urls import POLITE, REPORT, Columns, Listed, get_urls

__all__ = [
    "FOLDER",
    "POLITE",
    "REPORT",
    "Choice",
    "Columns",
    "FileState",
    "Listed",
    "Pace",
    "announce",
    "get_sources",
    "get_urls",
]
