"""Score finished runs again, with the same metrics or others. Nothing is run.

Stored answers of chat models are parsed again by this version; nothing is sent or paid.

examples:
  fieldmark rescore
  fieldmark rescore --task newt --metric macro_f1
  fieldmark rescore --metric my_metrics.py:cost
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from fieldmark.cli.flags import Common, CommonFlags, Only, RunChoice, Words, existing_store
from fieldmark.cli.show import counted, print_json, show, talk
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.experiments import Rescored


@dataclass(frozen=True, slots=True)
class RescoreArgs(RunChoice):
    metric: Annotated[Words, arg(metavar="NAME")] = ()
    """a metric to add, by name or as my_metrics.py:my_metric"""
    json: bool = False
    """print JSON"""
    common: Annotated[CommonFlags, Only(("results", "data", "quiet"))] = Common()


def run(args: RescoreArgs) -> int:
    from fieldmark.experiments import rescore
    from fieldmark.progress import for_people
    from fieldmark.store import Store

    path = existing_store(args.common)
    with Store.open(path) as store:
        if not any(stored.state == "done" for stored in store.runs(args.where)):
            raise DataError(
                f"{path}  has no finished runs like these: `fieldmark table` lists all."
            )
        with for_people(args.common.quiet) as progress:
            rescored = rescore(store, args.where, args.metric, progress)
    if args.json:
        print_json([_plain(result) for result in rescored])
        return 0
    n_changed = sum(bool(result.changed) for result in rescored)
    if n_read := sum(result.n_read for result in rescored):
        talk(f"{counted(n_read, 'answer')} are read differently than before.")
    n_left = sum(result.is_left for result in rescored)
    show(f"{counted(len(rescored) - n_left, 'run')} scored, {n_changed:,} with new values")
    if n_left:
        talk(f"{counted(n_left, 'run')} left as scored: their tasks have their own scoring code.")
    for name in sorted({name for result in rescored for name in result.kept}):
        talk(f"metric {name!r} is not available here: its scores stay as they were.")
    return 0


def _plain(result: Rescored) -> dict[str, object]:
    spec = result.run.spec
    return {
        "model": spec.model,
        "task": spec.task,
        "variant": spec.task_variant,
        "run": result.run.id,
        "changed": result.changed,
        "kept": result.kept,
        "n_read": result.n_read,
    }
