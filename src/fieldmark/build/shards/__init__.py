"""webdataset shards: tar files of samples, made, indexed, checked and joined with captions.

tar.py          members of a tar file, one after the other; is it whole?
samples.py      members that belong together; webdataset's rule of keys
texts.py        the text members of TreeOfLife shards ↔ a taxon
index.py        counts and checksums of a shard, in the file that wids reads
access.py       where a sample lies and which texts it has: one read for each
check.py        what is wrong with a set of shards, by name
items.py        photos of a table, their taxa, keys and order
make.py         photos → shards
captions.py     where the captions of a shard lie; a copy that has them, members byte for byte
"""

from __future__ import annotations

from fieldmark.build.shards.captions import captions_files, join_captions, shard_name
from fieldmark.build.shards.check import check_shards
from fieldmark.build.shards.index import (
    ShardIndex,
    find_shards,
    read_index,
    relative_url,
    shard_index,
    write_index,
)
from fieldmark.build.shards.items import ShardSource, held_out, read_source
from fieldmark.build.shards.make import MadeShards, MakeOptions, make_shards
from fieldmark.build.shards.samples import (
    MemberReader,
    Sample,
    read_samples,
    sample_taxon,
)
from fieldmark.taxa import taxon_texts

__all__ = [
    "MadeShards",
    "MakeOptions",
    "MemberReader",
    "Sample",
    "ShardIndex",
    "ShardSource",
    "captions_files",
    "check_shards",
    "find_shards",
    "held_out",
    "join_captions",
    "make_shards",
    "read_index",
    "read_samples",
    "read_source",
    "relative_url",
    "sample_taxon",
    "shard_index",
    "shard_name",
    "taxon_texts",
    "write_index",
]
