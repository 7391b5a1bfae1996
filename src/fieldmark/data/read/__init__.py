"""Readers that several datasets share: tables, class folders, the hub's parquet files, COCO."""
