"""Score finished runs again, by their own metrics or new ones, without running anything.

What chat models answered is read again by the parser of this version; nothing is asked or paid.

examples:
  fieldmark rescore
  fieldmark rescore --task newt --metric macro_f1
  fieldmark rescore --metric my_metrics.py:cost
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import UseAppendAction, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, talk
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.experiments import Rescored


@dataclass(frozen=True, slots=True)
class RescoreArgs:
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """only these (* and ? work)"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    metric: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME")] = ()
    """a metric to add, by name or as my_metrics.py:my_metric"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: RescoreArgs) -> int:
    from fieldmark.experiments import rescore
    from fieldmark.progress import for_people
    from fieldmark.store import RunFilter, Store, nothing_stored

    settings = args.common.settings()
    if not settings.store.exists():
        raise nothing_stored(settings.store)
    where = RunFilter(models=args.model, tasks=args.task)
    # A store of an older fieldmark is brought up to date by opening it.
    with Store.open(settings.store) as store:
        n_done = sum(stored.state == "done" for stored in store.runs(where))
    if not n_done:
        raise DataError(
            f"{settings.store}  holds no such finished runs: `fieldmark table` shows what there is."
        )
    with for_people(args.common.quiet) as progress, Store.open(settings.store) as store:
        rescored = rescore(store, where, args.metric, progress)
    if args.json:
        print_json([_plain(result) for result in rescored])
        return 0
    n_changed = sum(bool(result.changed) for result in rescored)
    if n_read := sum(result.n_read for result in rescored):
        talk(f"{counted(n_read, 'answer')} read as something else than before.")
    n_left = sum(result.is_left for result in rescored)
    print(f"{counted(len(rescored) - n_left, 'run')} scored, {n_changed:,} with new values")
    if n_left:
        talk(f"{counted(n_left, 'run')} of documents, scored by their tasks' own code: left as is.")
    for name in sorted({name for result in rescored for name in result.kept}):
        talk(f"the metric {name!r} is not here: its scores stay as they were.")
    return 0


def _plain(result: Rescored) -> dict[str, object]:
    spec = result.run.spec
    names = {"model": spec.model, "task": spec.task, "variant": spec.task_variant}
    return {
        **names,
        "run": result.run.id,
        "changed": result.changed,
        "kept": result.kept,
        "n_read": result.n_read,
    }
