"""How many at once, when memory is short or one of them is bad?

A batch that does not fit is halved, and the smaller size is kept for all that follow. A batch that
the model refuses is gone through one by one, so that a bad prompt fails alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from fieldmark.chat._local_engine import Unfit
from fieldmark.devices import free_memory, is_out_of_memory
from fieldmark.errors import DataError, OutOfMemory, UsageError

LOG = logging.getLogger(__name__)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Batches:
    def __init__(self, size: int, device: Any) -> None:
        if size < 1:
            raise UsageError(f"batch_size = {size}, expected at least 1.")
        self.size, self.device = size, device

    def run(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Sequence[Result]],
        failed: Callable[[Item, str], Result] | None = None,
    ) -> Iterator[tuple[Item, Result]]:
        """Every item with what `work` made of it, or with what `failed` makes of the reason.

        Without `failed` the first item that cannot be worked raises.
        """
        done = 0
        while done < len(items):
            batch = items[done : done + self.size]
            made, error = _tried(work, batch)
            if isinstance(error, OutOfMemory) and len(batch) > 1:
                self._halve(len(batch))
                continue
            if error is not None and len(batch) > 1:
                for item in batch:
                    yield from self.run([item], work, failed)
            elif error is not None:
                yield batch[0], _ruled(batch[0], failed, error)
            else:
                yield from zip(batch, made, strict=True)
            done += len(batch)

    def _halve(self, size: int) -> None:
        self.size = max(1, size // 2)
        LOG.warning("%s is out of memory for %d at once: now %d", self.device, size, self.size)
        free_memory(self.device)


def _tried(
    work: Callable[[Sequence[Item]], Sequence[Result]], batch: Sequence[Item]
) -> tuple[Sequence[Result], Exception | None]:
    """What was made, or why not; the error that is passed on holds no tensors of its frames."""
    try:
        return work(batch), None
    except Unfit as error:
        return (), DataError(f"{error}.")
    except DataError as error:
        return (), error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return (), OutOfMemory("the device has too little memory for this prompt alone.")


def _ruled(item: Item, failed: Callable[[Item, str], Result] | None, error: Exception) -> Result:
    if failed is None:
        raise error
    return failed(item, str(error))
