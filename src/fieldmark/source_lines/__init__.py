"""Line numbers: on which line of a TOML or YAML file does a value stand?

Files people write are read here, with the line of every key, so that each mistake in them can be
told as `file:line`. Nothing here knows what the files mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports
from fieldmark.source_lines.located import (
    Located,
    is_file,
    is_folder,
    is_there,
    read_text,
    read_toml,
    set_dotted,
    toml_value,
    with_home,
)
from fieldmark.source_lines.schema_errors import SchemaError, validate

if TYPE_CHECKING:
    from fieldmark.source_lines.yaml_reader import read_yaml

__all__ = [
    "Located",
    "SchemaError",
    "is_file",
    "is_folder",
    "is_there",
    "read_text",
    "read_toml",
    "read_yaml",
    "set_dotted",
    "toml_value",
    "validate",
    "with_home",
]

__getattr__ = exports(__name__)
