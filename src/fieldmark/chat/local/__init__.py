"""Local chat models (Hugging Face transformers) on this machine: generate and score."""
