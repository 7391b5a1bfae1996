"""How many of lmms-eval's own task files can be read, and the code of how many tasks imports?

    FIELDMARK_LMMS_EVAL=path/of/a/checkout python benchmarks/yaml_tasks.py [--quick]

Without the variable nothing is measured; `--quick` writes two small tasks instead. Every YAML file
is read with what it includes and held against the schema; the functions that tasks name are
imported in workers, with no network and with fieldmark's stand-in for `lmms_eval`, using the
packages of this environment. The bar is the 1,057 of 1,667 tasks that import with a stand-in of
five small modules. Files that cannot be read and the reasons why code does not import stand above
the figure. The imports are timed twice: the second time Python finds the bytecode of the libraries,
as on any ordinary machine.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from _quick import Flags, finish, skip
from fieldmark.errors import FieldmarkError
from fieldmark.lmms.check.code import try_imports
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.read.files import IndexEntry, index_folders
from fieldmark.lmms.read.groups import load_document_task, load_group

BAR = 1057
MOST_REASONS = 25
TOYS = {
    "_default.yaml": "dataset_path: json\ntest_split: test\noutput_type: generate_until\n",
    "sound.yaml": """include: _default.yaml
task: sound
doc_to_text: !function utils.ask
doc_to_target: name
""",
    "broken.yaml": """include: _default.yaml
task: broken
doc_to_text: !function missing.ask
doc_to_target: name
""",
    "utils.py": """from lmms_eval.tasks._task_utils.file_utils import generate_submission_file


def ask(doc):
    return doc["name"]
""",
    "missing.py": "import no_such_package\n",
}
"""a task whose code imports, and one whose code does not"""
BESIDE_THE_REASON = re.compile(r"^.*?  (!function \S+: )?(\S+\.py:\d+ )?|: `pip install.*`|\.$")


def read_all(folder: Path, trust: Trust) -> tuple[dict[Path, list[Function]], dict[Path, str], int]:
    """The functions of each task, what is wrong with other files, and how many files there are."""
    index = index_folders([folder])
    tasks: dict[Path, list[Function]] = {}
    problems = dict(index.problems)
    for entry in index.entries:
        try:
            if entry.kind == "task":
                tasks[entry.path] = load_document_task(entry.path, trust).functions
            elif entry.kind == "group":
                load_group(entry.path, trust)
            elif entry.kind == "python":
                problems[entry.path] = "a task written as a Python class"
        except FieldmarkError as error:
            problems[entry.path] = str(error)
            _count_as_broken(entry, tasks)
    return tasks, problems, len(index.entries) + len(index.problems)


def _count_as_broken(entry: IndexEntry, tasks: dict[Path, list[Function]]) -> None:
    """A task that cannot be read counts as a task whose code does not import."""
    if entry.kind == "task":
        tasks[entry.path] = [Function("", entry.path)]


def import_all(tasks: dict[Path, list[Function]], trust: Trust) -> tuple[dict[Function, str], str]:
    """What is wrong with each function, and how long it took to find out."""
    start, cpu = time.perf_counter(), children_cpu_s()
    told = try_imports([each for some in tasks.values() for each in some], trust)
    return told, f"{time.perf_counter() - start:.1f} s, {children_cpu_s() - cpu:.1f} s CPU"


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show_reasons(tasks: dict[Path, list[Function]], told: dict[Function, str]) -> None:
    reasons: Counter[str] = Counter()
    for functions in tasks.values():
        wrong = next((told[each] for each in functions if told[each]), "")
        if wrong:
            reasons[BESIDE_THE_REASON.sub("", wrong)] += 1
    for reason, n_tasks in reasons.most_common(MOST_REASONS):
        print(f"{n_tasks:5} tasks  {reason}")
    rest = reasons.most_common()[MOST_REASONS:]
    print(f"{sum(n for _, n in rest):5} tasks  {len(rest)} other reasons")


def write_toys(folder: Path) -> Path:
    for name, text in TOYS.items():
        (folder / name).write_text(text)
    return folder


def main() -> int:
    given = Flags(__doc__).parse()
    checkout = os.environ.pop("FIELDMARK_LMMS_EVAL", "")
    if given.quick:
        with tempfile.TemporaryDirectory() as name:
            return measure(write_toys(Path(name).resolve()), is_quick=True)
    if not checkout:
        return skip("FIELDMARK_LMMS_EVAL names no checkout of lmms-eval")
    return measure(Path(checkout).expanduser().resolve() / "lmms_eval" / "tasks", is_quick=False)


def measure(folder: Path, is_quick: bool) -> int:
    trust = Trust.of(folder)
    start, cpu = time.perf_counter(), time.process_time()
    tasks, problems, n_files = read_all(folder, trust)
    read_s, read_cpu_s = time.perf_counter() - start, time.process_time() - cpu
    for path, text in problems.items():
        print(f"{path.relative_to(folder)}  {text}")
    print(f"{n_files} files, {n_files - len(problems)} hold to the schema, {read_s:.1f} s "
          f"({read_cpu_s:.1f} s CPU)")  # fmt: skip
    with tempfile.TemporaryDirectory() as bytecode:
        os.environ["PYTHONPYCACHEPREFIX"] = bytecode
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        told, first = import_all(tasks, trust)
        told, again = import_all(tasks, trust)
    show_reasons(tasks, told)
    n_fine = sum(not any(told[each] for each in some) for some in tasks.values())
    figure = (
        f"yaml_tasks: {n_fine} of {len(tasks)} tasks import their functions, "
        f"{len(told)} functions in {again} (the first time {first}), "
        f"{n_files} files read in {read_s:.1f} s, {read_cpu_s:.1f} s CPU"
    )
    return finish(figure, {f"≥ {BAR} tasks": n_fine >= BAR}, is_quick)


if __name__ == "__main__":
    sys.exit(main())
