"""A real wiki for the tests of the builder."""

from __future__ import annotations

from kit.mediawiki import mediawiki

__all__ = ["mediawiki"]
