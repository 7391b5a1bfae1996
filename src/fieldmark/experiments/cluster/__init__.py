"""Cluster (Slurm, local processes): how is a plan carried out by many processes on many machines?

`work.py`, `steps.py` cut a plan into steps, `board.py` is the folder through which all processes
tell each other what they do, `places/` start workers, `worker.py` carries out a step and
`launch.py` submits, watches and merges.
"""
