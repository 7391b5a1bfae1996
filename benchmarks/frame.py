"""How large is the house, who leans on whom, and how far does a run walk through it?

The import graph by grimp (imports inside functions counted), and three runs traced: a probe, a
mock chat model, a task in lmms-eval's form. A run is `fieldmark run`, counted in functions of this
package that are called (no class bodies, lambdas or comprehensions), files they stand in, and how
often the package changes along the order of first calls.

Lines of code are what is left without blank lines, comments, docstrings and imports. `tryout/`, a
feature of its own, is not counted. Compare two checkouts by running it in each:

    uv run --all-extras --group dev python benchmarks/frame.py [--quick]

`--quick` traces the probe alone.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import os
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import grimp

import fieldmark
from _quick import Flags, finish
from fieldmark.cli import main as main_of_fieldmark
from fieldmark.data import load_dataset
from fieldmark.world import World

SOURCE = Path(fieldmark.__file__).parent
TASK = """\
task: birds-frame
dataset_path: json
dataset_kwargs: {data_files: {test: birds.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "What is {{name}}?"
doc_to_target: "{{name}}"
metric_list: [{metric: exact_match}]
"""


LONG = 40
"""lines of a function past which a reader loses the beginning"""
APART = "tryout"


def main() -> int:
    given = Flags(__doc__).parse()
    _graph()
    n_lines = _lines()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["FIELDMARK_CACHE"] = str(place / "cache")
        drawn = place / "world"  # mocks answer about what lies in a folder that was drawn
        load_dataset("world").make(drawn, World(), 120)
        (drawn / "birds.yaml").write_text(TASK)
        rows = ({"name": name} for name in ("wren", "robin", "kite"))
        (drawn / "birds.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        runs: dict[str, tuple[str, str]] = {
            "probe": ("classical/colour", "world-species"),
            "ask": ("chat/mock/wren", "world-stage"),
            "lmms-eval": ("chat/mock/wren", str(drawn / "birds.yaml")),
        }
        for name, (model, task) in list(runs.items())[: 1 if given.quick else None]:
            with _traced() as calls:
                where = f"--data world={place}/world --results {place}/results --quiet"
                words = ["run", "--model", model, "--task", task, *where.split()]
                code = main_of_fieldmark(words)
            assert code == 0, f"{name} ended with {code}"
            print(f"{name}: {_walk(calls)}")
    return finish(f"frame: {n_lines:,} lines of code in {len(_files())} files", {}, given.quick)


def _graph() -> None:
    graph = grimp.build_graph("fieldmark", cache_dir=None, exclude_type_checking_imports=True)
    sizes: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in _files():
        package = path.relative_to(SOURCE).parts[0]
        sizes[package] += len(path.read_text(encoding="utf-8").splitlines())
        files[package] += 1
    edges: dict[str, set[str]] = defaultdict(set)
    n_across = 0
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            here, there = (".".join(name.split(".")[:2]) for name in (importer, imported))
            if here != there:
                n_across += 1
                edges[here].add(there)
    print(", ".join(f"{name} {files[name]}/{sizes[name]:,}" for name in sorted(sizes)))
    print(
        f"{sum(files.values())} files, {sum(sizes.values()):,} lines, {n_across} imports across "
        f"packages, {sum(map(len, edges.values()))} pairs of packages, "
        f"{_n_in_cycles(edges)} packages and {_n_in_cycles(_modules(graph))} modules in cycles"
    )


def _lines() -> int:
    """Lines of code; shows those of docstrings and comments, and how many functions are long."""
    counts: Counter[str] = Counter()
    for path in _files():
        counts += _lines_of(path)
    print(
        f"{counts['code']:,} lines of code, {counts['docs']:,} of docstrings, "
        f"{counts['comments']:,} with a comment; {counts['functions']:,} functions, "
        f"{counts['long']} of more than {LONG} lines"
    )
    return counts["code"]


def _files() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if APART not in path.relative_to(SOURCE).parts]


def _lines_of(path: Path) -> Counter[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs, passed_over = set[int](), set[int]()
    lengths = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lengths.append(len(_span(node)))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            passed_over |= _span(node)
        elif isinstance(node, ast.Expr) and _is_text(node.value):
            docs |= _span(node)
    code, comments = set[int](), set[int]()
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                comments.add(token.start[0])
            elif token.string.strip():
                code |= set(range(token.start[0], token.end[0] + 1))
    return Counter(
        code=len(code - docs - passed_over),
        docs=len(docs),
        comments=len(comments),
        functions=len(lengths),
        long=sum(length > LONG for length in lengths),
    )


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _modules(graph: Any) -> dict[str, set[str]]:
    return {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}


def _n_in_cycles(edges: dict[str, set[str]]) -> int:
    """How many lead back to themselves."""
    return sum(_leads_back(start, edges) for start in list(edges))


def _leads_back(start: str, edges: dict[str, set[str]]) -> bool:
    seen, ahead = set[str](), list(edges[start])
    while ahead:
        here = ahead.pop()
        if here == start:
            return True
        if here not in seen:
            seen.add(here)
            ahead.extend(edges.get(here, ()))
    return False


@contextmanager
def _traced() -> Iterator[dict[tuple[str, str], None]]:
    """(file, function) of every call into this package, in the order of first calls."""
    calls: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(SOURCE)):
            return
        # The body of a class is run like a function, but without fast locals.
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
            calls.setdefault((code.co_filename, code.co_qualname), None)

    hook: Callable[..., None] = note
    sys.setprofile(hook)
    threading.setprofile(hook)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _walk(calls: dict[tuple[str, str], None]) -> str:
    files = {file for file, _ in calls}
    packages = [Path(file).relative_to(SOURCE).parts[0] for file, _ in calls]
    switches = sum(here != there for here, there in itertools.pairwise(packages))
    return f"{len(calls)} functions, {len(files)} files, {switches} package switches"


if __name__ == "__main__":
    sys.exit(main())
