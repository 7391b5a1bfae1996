"""Prompts: the question, the options, few-shot examples, and the messages made of them."""
