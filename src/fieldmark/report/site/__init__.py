"""The site: a folder with the results that opens by double click, without server or network.

Python writes data, the files in `page/` show them. `fieldmark serve` shows the same page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.report.site.build import SiteOptions, build_site
    from fieldmark.report.site.charts import chart_specs, vega_script
    from fieldmark.report.site.images import Photo, Photos, thumbnail
    from fieldmark.report.site.pages import index_page, page_files
    from fieldmark.report.site.predictions import ColumnData, pack, read_column, task_predictions
    from fieldmark.report.site.scripts import data_script, summary_script
    from fieldmark.report.site.summary import build_summary

__all__ = [
    "ColumnData",
    "Photo",
    "Photos",
    "SiteOptions",
    "build_site",
    "build_summary",
    "chart_specs",
    "data_script",
    "index_page",
    "pack",
    "page_files",
    "read_column",
    "summary_script",
    "task_predictions",
    "thumbnail",
    "vega_script",
]

__getattr__ = exports(
    __name__,
    {
        "build": ("SiteOptions", "build_site"),
        "charts": ("chart_specs", "vega_script"),
        "images": ("Photo", "Photos", "thumbnail"),
        "pages": ("index_page", "page_files"),
        "predictions": ("ColumnData", "pack", "read_column", "task_predictions"),
        "scripts": ("data_script", "summary_script"),
        "summary": ("build_summary",),
    },
)
