"""Batch APIs: many questions handed in together, answered within a day, at half price.

records    which questions are in which batch: on disk before and after each is handed in
forms      how OpenAI, Anthropic and Google take batches and give their results
sender     a `Sender` that hands questions in instead of asking them
"""
