"""Build the next model: words for images, shards of both, and (later) training on them.

taxa.py     names with their seven ranks; homonyms told from taxonomic disagreement
wiki/       pages of a MediaWiki, from its API or a dump, in one store; what they say
describe/   taxon → page → sections → sentences about appearance; examples per class
shards/     webdataset tars: make, index, check, copy
caption/    shards → one sentence per image, in a Parquet file beside each shard
"""
