"""Readers that several datasets share: tables, class folders, parquet files, COCO, people's own
labelled photos."""
