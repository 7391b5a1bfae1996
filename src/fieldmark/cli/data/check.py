"""Check photos, task files or experiment files. Runs nothing.

examples:
  fieldmark check my_task.yaml
  fieldmark check lmms-eval/lmms_eval/tasks --json > problems.json
  fieldmark check tasks/ --data --n-documents 2
  fieldmark check tasks/ --run-code --data
  fieldmark check grid.toml
  fieldmark check photos/
  fieldmark check data/newt --dataset newt
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli.flags import check_least
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class CheckArgs:
    path: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH…", help_behavior_hint="")]
    """.yaml tasks and folders of them (fieldmark's own or lmms-eval's), .toml experiments, or
    labelled photos as `fieldmark try` takes them: a folder, a table (.csv)"""
    dataset: str = ""
    """read the data as this dataset [labelled photos]"""
    data: bool = False
    """for tasks in lmms-eval's format: open the data and show the prompts they give"""
    n_documents: int = 3
    """how many prompts to show for each task, with --data"""
    fetch: bool = False
    """allow --data to download datasets"""
    include_path: Annotated[UseAppendAction[tuple[Path, ...]], arg(metavar="FOLDER")] = ()
    """a further folder whose files tasks may include, and whose code they may run"""
    run_code: bool = False
    """run the code that tasks name, in separate processes without network and keys"""
    code_s: float = 30.0
    """seconds that importing one file of code may take"""
    json: bool = False
    """print JSON: counts, and the problems by file and by kind"""
    debug: bool = False
    """show full tracebacks instead of one-line errors"""


def run(args: CheckArgs) -> int:
    from fieldmark.cli.data._check import as_json, check_paths, show_findings
    from fieldmark.cli.show import print_json, talk
    from fieldmark.registry import without_code

    if not args.path:
        raise UsageError(
            "nothing to check: give files or folders, for example `fieldmark check my_task.yaml`."
        )
    check_least("--n-documents", args.n_documents, 1)
    if args.code_s <= 0:
        raise UsageError(
            f"--code-s {args.code_s:g}: expected more than 0 (it counts with --run-code)."
        )
    with nullcontext(set[Path]()) if args.run_code else without_code() as not_run:
        findings = check_paths(args)
    if args.json:
        print_json(as_json(args, findings))
    else:
        show_findings(args, findings)
        if not_run:
            names = ", ".join(sorted({path.name for path in not_run}))
            talk(f"not run: {names} (`--run-code` runs and checks such files).")
    return findings.code
