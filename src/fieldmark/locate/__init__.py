"""On which line of a TOML or YAML file does a value stand?

Files people write are read here, with the line of every key, so that each mistake in them can be
told as `file:line`. Nothing here knows what the files mean.
"""

from fieldmark.locate._read import Located, read_text, read_toml, read_yaml
from fieldmark.locate._validate import validate

__all__ = ["Located", "read_text", "read_toml", "read_yaml", "validate"]
