"""How does a specification become a file?

By vl-convert, which carries Vega and a JavaScript engine: no browser, no network. The same
specification gives the same bytes; of a PDF the same objects, whose order vl-convert leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fieldmark.errors import UnknownName
from fieldmark.report.plots._theme import VERSION

SUFFIXES = ("png", "svg", "pdf")
_SCALE = 2
"""PNG pixels per unit: a panel with its names gets 300 dots per inch in a column of 90 mm"""


def render(spec: Mapping[str, Any], suffix: str) -> bytes:
    """The picture in the format of that suffix."""
    import vl_convert as vl

    text = dict(spec)
    makers: dict[str, Callable[[], bytes | str]] = {
        "png": lambda: vl.vegalite_to_png(text, VERSION, _SCALE, allowed_base_urls=[]),
        "svg": lambda: vl.vegalite_to_svg(text, VERSION, allowed_base_urls=[]),
        "pdf": lambda: vl.vegalite_to_pdf(text, VERSION, allowed_base_urls=[]),
    }
    if suffix not in makers:
        raise UnknownName("picture format", suffix, makers)
    made = makers[suffix]()
    return made.encode() if isinstance(made, str) else bytes(made)
