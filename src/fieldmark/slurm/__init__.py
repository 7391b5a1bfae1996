"""Slurm (sbatch, squeue, scontrol): how does fieldmark talk to a cluster, whatever its jobs do?

`options.py` is the table `[slurm]` of the files people write, `commands.py` calls the commands and
turns their answers into rows or errors. What a job does is not known here: `experiments/cluster`
submits steps of an experiment, `build/train` a training. Only sbatch, squeue, scancel and scontrol
are called: sacct needs a database that many clusters do not have.
"""
