"""Commands that build a model: from articles to captions, shards and a trained network."""
