"""Images to features: once, cached by content, resumable."""

from fieldmark.embed.cache import (
    ModelCache,
    cached_models,
    clean_cache,
    read_keys,
    speed_of,
    trusted_fingerprint,
    write_behaviour,
)
from fieldmark.embed.engine import Embedded, EmbedOptions, checking, embed
from fieldmark.embed.patches import PatchFeatures, patch_fingerprint, patch_name

__all__ = [
    "EmbedOptions",
    "Embedded",
    "ModelCache",
    "PatchFeatures",
    "cached_models",
    "checking",
    "clean_cache",
    "embed",
    "patch_fingerprint",
    "patch_name",
    "read_keys",
    "speed_of",
    "trusted_fingerprint",
    "write_behaviour",
]
