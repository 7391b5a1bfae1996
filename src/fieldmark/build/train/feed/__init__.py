"""Data loading, from the samples of shards to the batches of a step.

index.py           where the samples lie; captions joined by key; what is missing, by name
order.py           which samples make up the batch of a step
texts.py           which text of a sample is taken
loader.py          samples → batches, beside the training: the door
sample_reader.py   a reader process; random crops
steps.py           what a step is made of

Nothing is imported here: reader processes must start without torch.
"""
