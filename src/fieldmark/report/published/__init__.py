"""Published numbers, typed in with their sources, and how ours compare with them.

One TOML file per source. A column names the task (with its variant) that asks the same question
here, the metric, and how far apart two honest runs may lie; a column or model known to be wrong
at its source says why. Nothing is compared that was not asked the same way.
"""

from fieldmark.report.published._load import Published, published
from fieldmark.report.published._match import Match, match_published
from fieldmark.report.published._text import plain_published, published_text

__all__ = [
    "Match",
    "Published",
    "match_published",
    "plain_published",
    "published",
    "published_text",
]
