"""Addresses → files on disk: streamed, resumed, checked, unpacked, whatever the servers do.

    get_dataset(dataset, root, Choice(), progress)     a dataset's files into their layout
    get_urls(table, out, UrlColumns(), pace, progress)    a table of addresses into a folder

Only the standard library is used. Nothing is fetched twice, nothing half-done has a final name.
"""

from __future__ import annotations

from fieldmark.data.get.listed import get_dataset
from fieldmark.data.get.plan import Choice, FileState, announce, get_sources
from fieldmark.data.get.state import FOLDER
from fieldmark.data.get.urls import REPORT, UrlColumns, get_urls
from fieldmark.data.get.verify import Pace

__all__ = [
    "FOLDER",
    "REPORT",
    "Choice",
    "FileState",
    "Pace",
    "UrlColumns",
    "announce",
    "get_dataset",
    "get_sources",
    "get_urls",
]
