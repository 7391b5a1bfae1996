"""Datasets: one file each, whose name is the dataset's. What they share lies beside this folder."""
