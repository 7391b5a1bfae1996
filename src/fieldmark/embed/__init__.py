"""Images and texts to features: once, cached by content, resumable."""

from fieldmark.embed.cache import (
    ModelCache,
    behaviour_of,
    cached_models,
    clean_cache,
    does_alike,
    kept_facts,
    read_behaviour,
    read_keys,
    throughput_of,
    trusted_fingerprint,
    write_behaviour,
)
from fieldmark.embed.chunks import EmbeddedChunk, embed_chunks
from fieldmark.embed.engine import (
    Embedded,
    EmbedOptions,
    checking,
    embed,
    fill,
)
from fieldmark.embed.patches import (
    PatchFeatures,
    patch_fingerprint,
)
from fieldmark.embed.search import CandidateCounts, PositiveRanks, rank_positives, top_k
from fieldmark.embed.shards import N_BUCKETS, bucket, in_shard
from fieldmark.embed.sink import Filled
from fieldmark.embed.texts import CutTexts, count_cut, embed_texts
from fieldmark.embed.work import (
    Throughput,
    add_throughputs,
    decode_of,
    n_parameters_of,
    noted_decode,
)
from fieldmark.embed.workers import DeviceWorkers, devices_for
from fieldmark.embed.write import FileForm, check_place, write_chunks

__all__ = [
    "N_BUCKETS",
    "CandidateCounts",
    "CutTexts",
    "DeviceWorkers",
    "EmbedOptions",
    "Embedded",
    "EmbeddedChunk",
    "FileForm",
    "Filled",
    "ModelCache",
    "PatchFeatures",
    "PositiveRanks",
    "Throughput",
    "add_throughputs",
    "behaviour_of",
    "bucket",
    "cached_models",
    "check_place",
    "checking",
    "clean_cache",
    "count_cut",
    "decode_of",
    "devices_for",
    "does_alike",
    "embed",
    "embed_chunks",
    "embed_texts",
    "fill",
    "in_shard",
    "kept_facts",
    "n_parameters_of",
    "noted_decode",
    "patch_fingerprint",
    "rank_positives",
    "read_behaviour",
    "read_keys",
    "throughput_of",
    "top_k",
    "trusted_fingerprint",
    "write_behaviour",
    "write_chunks",
]
