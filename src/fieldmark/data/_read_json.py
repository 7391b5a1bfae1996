"""How is an annotation file in JSON read, and what is said when it cannot be?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fieldmark.errors import DataError, at


def read_json(path: Path) -> Any:
    """The content, whatever it is."""
    try:
        return json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        raise DataError(at(path, error.lineno, f"is not valid JSON: {error.msg}.")) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}  cannot be read as JSON: {error}.") from error


def read_json_object(path: Path, what: str) -> dict[str, Any]:
    """The content, which must be an object; `what` says what it should hold."""
    content = read_json(path)
    if not isinstance(content, dict):
        found = type(content).__name__
        raise DataError(f"{path}  holds a {found}: expected a JSON object, {what}.")
    return content
