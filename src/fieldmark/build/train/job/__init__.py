"""A training as a job of a Slurm cluster.

launch.py      submits it once, and says how it stands
script.py      the script of the job (job.sh: what it does on the nodes)
"""
