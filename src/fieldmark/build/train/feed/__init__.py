"""Data loading, from samples to batches: random crops, reader processes, decoding on the card.

The door is `fieldmark.build.train.loader`. Nothing is imported here: reader processes must start
without torch.
"""
