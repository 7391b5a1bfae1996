"""What tests of a cluster share: a real Slurm."""

from __future__ import annotations

from kit.slurm import slurm, slurm_of_worker

__all__ = ["slurm", "slurm_of_worker"]
