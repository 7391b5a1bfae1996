"""Check task files, experiment files or folders of data, without running anything.

examples:
  fieldmark check my_task.yaml
  fieldmark check lmms-eval/lmms_eval/tasks --json > found.json
  fieldmark check tasks/ --data --n-documents 2
  fieldmark check grid.toml
  fieldmark check photos/ --dataset folder
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli._flags import check_least
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class CheckArgs:
    path: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH…", help_behavior_hint="")]
    """.yaml tasks and folders of them (fieldmark's own or lmms-eval's), .toml experiments, .csv
    tables, folders of images"""
    dataset: str = ""
    """read a folder as this dataset (default: `csv` for tables, `folder` for folders)"""
    data: bool = False
    """of tasks in lmms-eval's form: open the data and show what documents become"""
    n_documents: int = 3
    """so many of each task, with --data"""
    fetch: bool = False
    """--data may download datasets"""
    include_path: Annotated[UseAppendAction[tuple[Path, ...]], arg(metavar="FOLDER")] = ()
    """folder that tasks may include from, and whose code they may run, besides those checked"""
    no_code: bool = False
    """do not import the code that tasks name"""
    code_s: float = 30.0
    """seconds that importing one file of code may take"""
    json: bool = False
    """print JSON: counts, and the reasons per file and per kind"""
    debug: bool = False
    """tracebacks instead of one-line errors"""


def run(args: CheckArgs) -> int:
    from fieldmark.cli._check import as_json, check_paths, show
    from fieldmark.cli._show import print_json

    if not args.path:
        raise UsageError(
            "nothing to check: give files or folders, for example `fieldmark check my_task.yaml`."
        )
    check_least("--n-documents", args.n_documents, 1)
    if args.code_s <= 0:
        raise UsageError(
            f"--code-s {args.code_s:g}: expected more than 0 (--no-code imports nothing)."
        )
    findings = check_paths(args)
    if args.json:
        print_json(as_json(args, findings))
    else:
        show(args, findings)
    return findings.code
