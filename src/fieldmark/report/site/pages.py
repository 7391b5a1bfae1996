"""Page files: which files make the page itself, and how do data become scripts?

A page from a disk may load scripts, but may not fetch files. No folder of the user's goes out.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "page"
SCRIPTS = (
    "elements", "numbers", "state", "results", "packed", "controls", "leaderboard",
    "table_view", "task", "model", "compare", "grid", "predictions", "confusions", "charts",
    "methods", "start",
)  # fmt: skip
"""in the order they are joined; modules of their own are not allowed to a page from a disk"""
GENERATOR = "fieldmark site"


def page_files() -> dict[str, bytes]:
    """File name → content of all that is the same in every site."""
    scripts = [_read(f"{name}.js") for name in SCRIPTS]
    joined = "\n".join(['"use strict";', "(() => {", *scripts, "})();", ""])
    return {"app.js": joined.encode(), "style.css": _read("style.css").encode()}


def index_page(summary: Mapping[str, Any]) -> bytes:
    """index.html, with the scores as a plain table for those without scripts."""
    page = _read("index.html")
    return page.replace("{{generator}}", GENERATOR).replace("{{table}}", _table(summary)).encode()


def is_site(folder: Path) -> bool:
    """Was this folder written by `fieldmark site`?"""
    try:
        text = (folder / "index.html").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return f'<meta name="generator" content="{GENERATOR}">' in text


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _table(summary: Mapping[str, Any]) -> str:
    cells = {(cell[0], cell[1]): cell for cell in summary["cells"]}
    columns = summary["columns"]
    heads = [
        " ".join((column["heading"], *column["lines"], column["metric"])) for column in columns
    ]
    lines = [_row("th scope=col", ["model", *heads])]
    for number, row in enumerate(summary["rows"]):
        scores = [_score(cells.get((number, at)), column) for at, column in enumerate(columns)]
        lines.append(_row("td", [row["name"], *scores]))
    return "\n".join(lines)


def _row(tag: str, texts: list[str]) -> str:
    closing = tag.partition(" ")[0]
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{closing}>" for text in texts) + "</tr>"


def _score(cell: list[Any] | None, column: Mapping[str, Any]) -> str:
    if cell is None or cell[2] is None:
        return "–"
    factor, decimals = (100, 1) if column["is_fraction"] else (1, 3)
    value, low, high = (None if number is None else number * factor for number in cell[2:5])
    shown = f"{value:.{decimals}f}"
    return shown if low is None else f"{shown} [{low:.{decimals}f}, {high:.{decimals}f}]"


# --- scripts ---


_FOLDERS = re.compile(r"(?<![\w.~])(?:[A-Za-z]:)?~?[\\/](?:[^\\/?&=:\s]+[\\/])+")
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def receive_script(name: str, value: Mapping[str, Any]) -> bytes:
    """data/NAME.js: values on their way to the page."""
    return f"fieldmark.receive({script_json(name)},{script_json(value)});\n".encode()


def data_script(name: str, packed: bytes) -> bytes:
    """data/NAME.js: bytes on their way to the page."""
    text = base64.b64encode(packed).decode()
    return f'fieldmark.receive({script_json(name)},"{text}");\n'.encode()


def script_json(value: Any) -> str:
    """JSON that is safe wherever a script may stand; NaN is refused, not written.

    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if not any(sign in text for sign in _UNSAFE):  # most have none, and are long
        return text
    return "".join(_UNSAFE.get(letter, letter) for letter in text)


def without_folders(text: str) -> str:
    """The text without the folders of absolute paths: they say where somebody keeps their files.

    >>> without_folders("/home/ann/net.py:Mine?weights=/data/w.pt"), without_folders("a/b")
    ('net.py:Mine?weights=w.pt', 'a/b')
    """
    return _FOLDERS.sub("", text)


def public_names(names: Iterable[str]) -> dict[str, str]:
    """Each name without folders; a number tells those apart that become the same.

    >>> public_names(["/a/net.py:Mine", "/b/net.py:Mine"])
    {'/a/net.py:Mine': 'net.py:Mine', '/b/net.py:Mine': 'net.py:Mine (2)'}
    """
    public: dict[str, str] = {}
    for name in dict.fromkeys(names):
        shown, n = without_folders(name), 1
        while shown in public.values():
            n += 1
            shown = f"{without_folders(name)} ({n})"
        public[name] = shown
    return public
