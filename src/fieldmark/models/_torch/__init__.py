"""Torch networks as models: backbones, dual encoders, and where their weights come from."""
