"""Sending requests: HTTP client, rate limiter, retry, and what keeps many in flight."""
