"""The live page: the site's own page, from a server on this machine, while runs go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.report.serve.live import LiveResults
    from fieldmark.report.serve.server import ServeAddress, make_app, serve

__all__ = ["LiveResults", "ServeAddress", "make_app", "serve"]

__getattr__ = exports(__name__)
