"""List the tasks, or show one in full.

examples:
  fieldmark tasks
  fieldmark tasks beluga
  fieldmark tasks mme --include-path lmms-eval/lmms_eval/tasks
  fieldmark tasks --metrics
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli.show import print_json, show, show_rows, talk
from fieldmark.words import counted

if TYPE_CHECKING:
    from fieldmark.tasks import NamedTask


@dataclass(frozen=True, slots=True)
class TasksArgs:
    query: Positional[str] = ""
    """text to search for, or the name of a task to show all of it"""
    include_path: Annotated[UseAppendAction[tuple[Path, ...]], arg(metavar="FOLDER")] = ()
    """also list the tasks of this folder, in lmms-eval's format"""
    metrics: bool = False
    """list the metrics that a task file can name"""
    probes: bool = False
    """list the probes that a task file can name"""
    json: bool = False
    """print JSON"""
    debug: bool = False
    """show full tracebacks instead of one-line errors"""


def run(args: TasksArgs) -> int:
    from fieldmark.settings import load_settings
    from fieldmark.tasks import Finder, list_tasks

    if args.metrics or args.probes:
        show_rows(_metrics() if args.metrics else _probes(), args.json)
        return 0
    folders = (*args.include_path, *load_settings().include_path)
    rows = list_tasks(args.query)
    if folders:
        query = args.query.lower()
        rows += [row for row in Finder(folders).rows() if query in " ".join(row.values()).lower()]
    exact = [row for row in rows if row["task"] == args.query]
    is_name = len(exact) == 1 or "@" in args.query or args.query.endswith((".yaml", ".yml"))
    if is_name or not rows:
        return _show_one(args, folders)
    show_rows(rows, args.json, (), ("metric", "dataset"))
    if not args.json:
        shows = "`fieldmark tasks NAME` shows one, `fieldmark run` runs it."
        talk(f"{counted(len(rows), 'task')}. {shows}")
    return 0


def _metrics() -> list[dict[str, str]]:
    from fieldmark.metrics import known_metrics, load_metric

    return [{"metric": name, "is": load_metric(name).title} for name in known_metrics()]


def _probes() -> list[dict[str, str]]:
    from fieldmark.probes import PROBES

    return [{"classifier": name, "is": getattr(PROBES.get(name), "SUMMARY", "")} for name in PROBES]


def _show_one(args: TasksArgs, folders: Sequence[Path]) -> int:
    """A group or tag shows all its tasks; as JSON they are a list then."""
    from fieldmark.tasks import Finder

    every = Finder(folders).find(args.query)
    if args.json:
        plain = [_plain(named.task) for named in every]
        print_json(plain[0] if len(plain) == 1 else plain)
        return 0
    for named in every:
        show(_shown(named))
    return 0


def _plain(task: Any) -> dict[str, Any]:
    from fieldmark.tasks import Task

    plain: dict[str, Any]
    plain = task.model_dump(mode="json") if isinstance(task, Task) else task.plain()
    return plain


def _shown(named: NamedTask) -> str:
    from fieldmark.tasks import Task, find_file, parse_name

    task = named.task
    if not isinstance(task, Task):
        return str(task.show())
    text = find_file(parse_name(named.name).base).read_text(encoding="utf-8").rstrip()
    return f"{task.task}  {task.title}\n\n{task.about}\n\n{text}"
