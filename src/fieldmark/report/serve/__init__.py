"""The live page: the site's own page, from a server on this machine, while runs go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.report.serve.app import make_app
    from fieldmark.report.serve.live import LiveResults
    from fieldmark.report.serve.run import Place, serve

__all__ = ["LiveResults", "Place", "make_app", "serve"]

__getattr__ = exports(
    __name__, {"app": ("make_app",), "live": ("LiveResults",), "run": ("Place", "serve")}
)
