"""What tests of training leave behind: nothing. A real Slurm for those that ask for it."""

from __future__ import annotations

from kit.slurm import slurm, slurm_of_worker
from kit.tiny_clip import own_architectures

__all__ = ["own_architectures", "slurm", "slurm_of_worker"]
