"""Train CLIP on images, captions and taxonomic names: shards in, a model that open_clip loads out.

recipe.py      what a training run does, as TOML (recipes/ holds those that are shipped)
index.py       where the samples of the shards lie; captions joined by key; what is missing, by name
order.py       which samples make up the batch of a step
texts.py       which text of a sample is taken
loader.py      samples → batches, beside the training (feed/: crops, reader processes)
network.py     an open_clip model with one projector per kind of text
losses/        softmax and sigmoid loss over all processes: one class, one file
parallel.py    several processes: DDP and FSDP under torchrun
optimiser.py   one step of the optimiser
run.py         the loop
record/        what a run writes down: checkpoints, log, page, scores
launch.py      a training as a job of a Slurm cluster
suite.py       evaluation on tasks, in a process of its own
export.py      a folder that open_clip loads
"""
