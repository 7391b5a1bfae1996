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

from fieldmark.cli._show import print_json, talk
from fieldmark.errors import FieldmarkError, UsageError


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
        raise UsageError(f"{args.path}  does not exist.")
    problems: list[tuple[str, str]] = []
    try:
        problems = _look(args)
    except FieldmarkError as error:
        if args.debug:
            raise
        problems = [("error", line) for line in str(error).splitlines()]
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
    talk(f"{args.path}  is fine." if not problems else f"{len(problems)} findings.")
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
    from fieldmark.data import load_dataset
    from fieldmark.metrics import load_metric
    from fieldmark.probes import load_probe
    from fieldmark.tasks import load_task

    task = load_task(str(path))
    load_dataset(task.dataset, where=str(path))
    for metric in (task.metric, *task.also):
        load_metric(metric)
    if task.probe is not None:
        load_probe(task.probe.classifier, task.probe.params)
