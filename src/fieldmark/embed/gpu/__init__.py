"""Embedding on CUDA devices: from files to features at the rate of the network's forward pass."""

from fieldmark.embed.gpu.pipeline import run_gpu

__all__ = ["run_gpu"]
