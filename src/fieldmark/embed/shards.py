"""Sharding (hash partition): which images does which process embed?

An image belongs to one of 256 buckets for ever, by the name of its file; members of an archive go
with it, so that one process reads it from its start to its end. A shard is some of the buckets.
"""

from __future__ import annotations

import hashlib

from fieldmark.data import split_reference

N_BUCKETS = 256


def bucket(image: str) -> int:
    """The bucket of an image reference, the same in every process."""
    name = split_reference(image)[0]
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=1).digest()[0]


def in_shard(image: str, index: int, n: int) -> bool:
    """Is the image in this one of `n` shards?"""
    return bucket(image) % n == index
