"""Images and texts to features: once, cached by content, resumable."""

from fieldmark.embed.cache import (
    ModelCache,
    cached_models,
    clean_cache,
    read_keys,
    speed_of,
    trusted_fingerprint,
    write_behaviour,
)
from fieldmark.embed.engine import (
    Embedded,
    EmbedOptions,
    Filled,
    checking,
    embed,
    fill,
    refuse_bad,
)
from fieldmark.embed.patches import PatchFeatures, patch_fingerprint, patch_name
from fieldmark.embed.positives import CandidateCounts, PositiveRanks, rank_positives
from fieldmark.embed.search import top_k
from fieldmark.embed.texts import CutTexts, count_cut, embed_texts
from fieldmark.embed.workers import DeviceWorkers, devices_for

__all__ = [
    "CandidateCounts",
    "CutTexts",
    "DeviceWorkers",
    "EmbedOptions",
    "Embedded",
    "Filled",
    "ModelCache",
    "PatchFeatures",
    "PositiveRanks",
    "cached_models",
    "checking",
    "clean_cache",
    "count_cut",
    "devices_for",
    "embed",
    "embed_texts",
    "fill",
    "patch_fingerprint",
    "patch_name",
    "rank_positives",
    "read_keys",
    "refuse_bad",
    "speed_of",
    "top_k",
    "trusted_fingerprint",
    "write_behaviour",
]
