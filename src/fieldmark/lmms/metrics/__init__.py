"""Metrics of one document and aggregations over all, as task files of lmms-eval name them."""
