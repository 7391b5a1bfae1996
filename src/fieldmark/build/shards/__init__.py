"""webdataset shards: tar files of samples, made, indexed, checked and copied."""
