"""The site: a folder with the results that opens by double click, without server or network.

Python writes data, the files in `page/` show them. `fieldmark serve` shows the same page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.report.site.build import SiteOptions, build_site
    from fieldmark.report.site.predictions import task_predictions
    from fieldmark.report.site.summary import build_summary

__all__ = ["SiteOptions", "build_site", "build_summary", "task_predictions"]

__getattr__ = exports(__name__)
