"""Wants what is not installed."""

import nonumpy  # noqa: F401


class Mine:
    pass
