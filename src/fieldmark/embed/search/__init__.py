"""Exact search by inner product: which rows are nearest, and where do the right ones stand?"""

from fieldmark.embed.search.nearest import top_k
from fieldmark.embed.search.positives import CandidateCounts, PositiveRanks, rank_positives

__all__ = ["CandidateCounts", "PositiveRanks", "rank_positives", "top_k"]
