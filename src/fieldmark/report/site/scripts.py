"""How do data become scripts? A page from a disk may load scripts, but may not fetch files."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_FOLDERS = re.compile(r"(?<![\w.~])(?:[A-Za-z]:)?~?[\\/](?:[^\\/?&=:\s]+[\\/])+")
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def summary_script(summary: Mapping[str, Any]) -> bytes:
    """data/summary.js."""
    return f'fieldmark.receive("summary",{script_json(summary)});\n'.encode()


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
    return "".join(_UNSAFE.get(each, each) for each in text) if _has_unsafe(text) else text


def _has_unsafe(text: str) -> bool:
    return any(each in text for each in _UNSAFE)


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
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        shown, n = without_folders(name), 1
        while shown in found.values():
            n += 1
            shown = f"{without_folders(name)} ({n})"
        found[name] = shown
    return found
