"""Embedding on CUDA devices: from files to features at the rate of the network's forward pass.

The door is `pipeline.run_gpu`. Nothing is imported here: reader processes must start without torch.
"""
