"""Training losses: `softmax.py` is `[loss] kind = "softmax"`, one class per file.

A file's `LOSS` says how one projector's rows are scored against their columns; `loss.py` brings
rows, columns and positives together, over all processes.
"""

from fieldmark.registry import Registry

LOSSES = Registry("training loss", "fieldmark.build.train.losses")
