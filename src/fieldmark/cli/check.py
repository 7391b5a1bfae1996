"""Check a task file, an experiment file or a folder of data, without running anything.

examples:
  fieldmark check my_task.yaml
  fieldmark check grid.toml
  fieldmark check photos/ --dataset folder
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from fieldmark.cli._show import counted, print_json, talk
from fieldmark.errors import FieldmarkError, UsageError, join_problems


@dataclass(frozen=True, slots=True)
class Args:
    path: Positional[Path]
    """a .yaml task, a .toml experiment, a .csv table or a folder of images"""
    dataset: str = ""
    """read a folder as this dataset (default: `csv` for tables, `folder` for folders)"""
    json: bool = False
    """print JSON"""
    debug: bool = False
    """tracebacks instead of one-line errors"""


def run(args: Args) -> int:
    if not args.path.exists():
        from fieldmark.locate import read_text

        read_text(args.path)  # says so, with the closest name
    problems: list[tuple[str, str]] = []
    try:
        problems = _look(args)
    except FieldmarkError as error:
        if args.debug:
            raise
        lines = str(error).splitlines()
        # From two on, the last line counts them; here that is done below.
        problems = [("error", line) for line in (lines[:-1] if len(lines) > 1 else lines)]
        code = error.exit_code
    else:
        code = 3 if any(level == "error" for level, _ in problems) else 0
    if args.json:
        print_json(
            {"path": str(args.path), "ok": code == 0, "problems": [list(p) for p in problems]}
        )
        return code
    for level, text in problems:
        print(f"{level}  {text}")
    n = counted(len(problems), "finding")
    talk(f"{args.path}  {n}." if problems else f"{args.path}  is fine.")
    return code


def _look(args: Args) -> list[tuple[str, str]]:
    suffix = args.path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        _check_task(args.path)
        return []
    if suffix == ".toml":
        from fieldmark.experiments import read_grid

        return [("note", note) for note in read_grid(args.path).notes]
    from fieldmark.data import load_dataset

    guess = "csv" if args.path.is_file() else "folder"
    dataset = load_dataset(args.dataset or guess)
    return [(finding.level, finding.text) for finding in dataset.check(args.path)]


def _check_task(path: Path) -> None:
    """The file as it is, and with each variant's keys in place."""
    from fieldmark.protocols import task_problems
    from fieldmark.tasks import load_task

    task = load_task(str(path))
    every = [task, *(load_task(f"{path}@{variant}") for variant in task.variants)]
    problems = dict.fromkeys(line for each in every for line in task_problems(each))
    if problems:
        raise UsageError(join_problems(list(problems)))
