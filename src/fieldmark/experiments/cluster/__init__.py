"""Cluster (Slurm, several processes): how is a plan carried out in steps, on many machines?"""
