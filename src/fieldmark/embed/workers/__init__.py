"""Worker processes (data parallelism): how do several devices of one machine fill one cache?

One process per device, the one that wants the features among them: the images that the cache lacks
are shared out, the others compute theirs with a copy of the model, and all write to the same
folder, each to files of its own. Workers only warm the cache: what one of them does not bring is
computed by the process that wanted it, so that a worker which fails costs time and never a result.
"""

from fieldmark.embed.workers.pool import DeviceWorkers, devices_for, share_out

__all__ = ["DeviceWorkers", "devices_for", "share_out"]
