"""What tests of training leave behind: nothing."""

from __future__ import annotations

from kit.tiny_clip import own_architectures

__all__ = ["own_architectures"]
