"""Shards → captions: one sentence per image, written beside the shard, never into it.

prompt.py     what the model is told; descriptions and class examples
checks.py     what a caption must and must not say
job.py        one shard: samples → requests → outcomes
plan.py       which shards, how they are asked about
run.py        many shards through one sender; what is skipped
outcomes.py   captions/SHARD.parquet in the shard's order, and the manifest beside it
copies.py     whether a captioned copy of a shard is the one of these captions
leases.py     which worker is on a shard
offline.py    engines that are asked in batches: bisection, quarantine
engine_process.py  one of them in a process of its own, with a watchdog
vllm.py       vLLM without a server
"""

from __future__ import annotations

from fieldmark.build.caption.checks import CaptionRules, CheckedCaption
from fieldmark.build.caption.offline import OfflineModel, isolated
from fieldmark.build.caption.outcomes import CaptionTotals
from fieldmark.build.caption.plan import CaptionOptions
from fieldmark.build.caption.prompt import CaptionPrompt, SpeciesWords, read_words
from fieldmark.build.caption.run import CaptionRun, caption_shards
from fieldmark.build.caption.vllm import vllm_model

__all__ = [
    "CaptionOptions",
    "CaptionPrompt",
    "CaptionRules",
    "CaptionRun",
    "CaptionTotals",
    "CheckedCaption",
    "OfflineModel",
    "SpeciesWords",
    "caption_shards",
    "isolated",
    "read_words",
    "vllm_model",
]
