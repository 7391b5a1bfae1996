"""Train CLIP on images, captions and taxonomic names: shards in, a model that open_clip loads out.

recipe.py      what a training run does, as TOML (recipes/ holds those that are shipped)
feed/          data loading: from the samples of shards to the batches of a step
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
