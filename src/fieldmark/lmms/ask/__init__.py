"""Asking a model: fields, prompts, examples, calls and choices of documents."""
