"""Is the optional package here that a family stands on?"""

from __future__ import annotations

import importlib
from typing import Any

from fieldmark.errors import MissingExtra
from fieldmark.models._name import Request


def need_package(request: Request, package: str) -> Any:
    """The imported package, with torch seen to first; the line that installs them where it is
    missing.
    """
    for name in ("torch", package):
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise MissingExtra(request.name.text, "vision", name) from error
    return module
