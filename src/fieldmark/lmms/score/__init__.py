"""Scoring responses: filters, values per document, aggregation and intervals."""
