"""Contrastive training (CLIP): webdataset shards with texts and captions → a dual encoder."""
