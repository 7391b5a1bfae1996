"""List the tasks, or show one with its recipe.

examples:
  fieldmark tasks
  fieldmark tasks beluga
  fieldmark tasks mme --include-path lmms-eval/lmms_eval/tasks
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli._show import print_json, show_rows, talk

if TYPE_CHECKING:
    from fieldmark.lmms import DocumentTask
    from fieldmark.tasks import AnyTask


@dataclass(frozen=True, slots=True)
class Args:
    query: Positional[str] = ""
    """words to look for, or a task's name to see all of it"""
    include_path: Annotated[UseAppendAction[tuple[Path, ...]], arg(metavar="FOLDER")] = ()
    """folder of tasks in lmms-eval's form, listed too"""
    json: bool = False
    """print JSON"""
    debug: bool = False
    """tracebacks instead of one-line errors"""


def run(args: Args) -> int:
    from fieldmark.settings import load_settings
    from fieldmark.tasks import list_tasks

    folders = (*args.include_path, *load_settings().include_path)
    rows = [*list_tasks(args.query), *(_document_rows(args.query, folders) if folders else ())]
    exact = [row for row in rows if row["task"] == args.query]
    is_name = len(exact) == 1 or "@" in args.query or args.query.endswith((".yaml", ".yml"))
    if is_name or not rows:
        return _show_one(args, folders)
    show_rows(rows, args.json)
    if not args.json:
        talk(f"{len(rows)} tasks. `fieldmark tasks NAME` shows one, `fieldmark run` runs it.")
    return 0


def _document_rows(query: str, folders: Sequence[Path]) -> list[dict[str, str]]:
    """Tasks, groups and tags in lmms-eval's form that match."""
    from fieldmark.tasks import Finder

    rows = Finder(folders).rows()
    return [row for row in rows if query.lower() in " ".join(row.values()).lower()]


def _show_one(args: Args, folders: Sequence[Path]) -> int:
    """A group or tag shows all its tasks; as JSON they are a list then."""
    from fieldmark.lmms import DocumentTask
    from fieldmark.tasks import Finder

    every = Finder(folders).find(args.query)
    if args.json:
        plain = [_plain(each.task) for each in every]
        print_json(plain[0] if len(plain) == 1 else plain)
        return 0
    for each in every:
        if isinstance(each.task, DocumentTask):
            _print_document(each.task)
        else:
            print(f"{each.task.task}  {each.task.title}\n\n{each.task.about}\n")
            print(_text_of(each.name))
    return 0


def _plain(task: AnyTask) -> dict[str, Any]:
    from fieldmark.lmms import DocumentTask, plain_task

    return plain_task(task) if isinstance(task, DocumentTask) else task.model_dump(mode="json")


def _text_of(name: str) -> str:
    from fieldmark.tasks import find_file, parse_name

    return find_file(parse_name(name).base).read_text(encoding="utf-8").rstrip()


def _print_document(task: DocumentTask) -> None:
    """The file as it is read: what it includes is in place."""
    import yaml

    from fieldmark.lmms import plain_task

    print(f"{task.task}  {task.place_of('task')}\n")
    print(yaml.safe_dump(plain_task(task), sort_keys=False, allow_unicode=True).rstrip())
