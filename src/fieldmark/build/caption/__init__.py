"""Shards → captions: one sentence per image, written beside the shard, never into it."""
