"""List the tasks, or show one with its recipe.

examples:
  fieldmark tasks
  fieldmark tasks beluga
  fieldmark tasks --json
"""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from fieldmark.cli._show import print_json, show_rows, talk


@dataclass(frozen=True, slots=True)
class Args:
    query: Positional[str] = ""
    """words to look for, or a task's name to see all of it"""
    json: bool = False
    """print JSON"""
    debug: bool = False
    """tracebacks instead of one-line errors"""


def run(args: Args) -> int:
    from fieldmark.tasks import list_tasks

    rows = list_tasks(args.query)
    exact = [row for row in rows if row["task"] == args.query]
    if exact or "@" in args.query or args.query.endswith((".yaml", ".yml")):
        return _show_one(args)
    show_rows(rows, args.json)
    if not rows:
        from fieldmark.errors import UnknownName
        from fieldmark.tasks import task_files

        raise UnknownName("task", args.query, task_files(), "fieldmark tasks")
    if not args.json:
        talk(f"{len(rows)} tasks. `fieldmark tasks NAME` shows one, `fieldmark run` runs it.")
    return 0


def _show_one(args: Args) -> int:
    from fieldmark.tasks import find_file, load_task, parse_name

    task = load_task(args.query)
    if args.json:
        print_json(task.model_dump(mode="json"))
        return 0
    print(f"{task.task}  {task.title}\n\n{task.about}\n")
    print(find_file(parse_name(args.query).base).read_text(encoding="utf-8").rstrip())
    return 0
