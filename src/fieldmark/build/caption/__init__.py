"""Shards → captions: one sentence per image, written beside the shard, never into it.

prompt.py    what the model is told; descriptions and class examples
checks.py    the five rules of a caption, what is mended, the ways to write a species' name
shard.py     one shard: samples → requests → captions/SHARD.parquet and its manifest
run.py       many shards in one session; leases, journals, what is skipped
"""

from __future__ import annotations

from fieldmark.build.caption.checks import CheckedCaption, check_caption
from fieldmark.build.caption.prompt import CaptionPrompt, SpeciesWords, read_words
from fieldmark.build.caption.run import CaptionOptions, CaptionRun, CaptionTotals

__all__ = [
    "CaptionOptions",
    "CaptionPrompt",
    "CaptionRun",
    "CaptionTotals",
    "CheckedCaption",
    "SpeciesWords",
    "check_caption",
    "read_words",
]
