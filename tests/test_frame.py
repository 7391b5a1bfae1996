"""The frame of the house: what may know whom, one meaning per name, a dozen files to a folder."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import threading
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import FrameType

import grimp
import pytest

import fieldmark
from fieldmark.cli import main
from fieldmark.protocols import PROTOCOLS
from kit.made import made

SOURCE = Path(fieldmark.__file__).parent
TESTS = Path(__file__).parent
FOREIGN = SOURCE / "lmms" / "compat"
"""offers the names that another project gave: they are its words"""


@cache
def trees() -> dict[Path, ast.Module]:
    """Every file of the package, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def words_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names, attributes and strings that stand for themselves, with their lines; no prose."""
    docs = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # docstrings, and those under fields
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, str(node.module).rpartition(".")[2]
            yield from ((node.lineno, alias.name) for alias in node.names)


@pytest.mark.slow
def test_every_name_that_a_package_exports_is_there() -> None:
    """They are imported when they are asked for, so that a name that is gone is not missed."""
    for path in SOURCE.rglob("__init__.py"):
        package = importlib.import_module(".".join(path.parent.relative_to(SOURCE.parent).parts))
        assert all(hasattr(package, name) for name in getattr(package, "__all__", ())), package


KEYS_KEPT = {
    ("cli/data/check.py", "documents"),  # `check --json`: the rows of data that were rendered
    ("store/part_notes.py", "probe"),  # notes of a fit: the classifier's name, in old stores too
}
"""keys of printed or stored JSON that happen to be called as a protocol is"""


@pytest.mark.parametrize("package", ["experiments", "cli", "report", "store"])
def test_no_protocol_is_known_by_name(package: str) -> None:
    """A new protocol changes nothing there. `ask` and `documents` are also plain words, so only
    whole strings and names count.
    """
    protocols = set(PROTOCOLS.names())
    hits = [
        f"{name_of(path)}:{line} {word}"
        for path, tree in trees().items()
        if path.is_relative_to(SOURCE / package)
        for line, word in words_of(tree)
        if word in protocols and (name_of(path), word) not in KEYS_KEPT
    ]
    assert not hits


LMMS_NAMED = {
    "registry.py": 5,  # its metrics, export, report, protocol and task reader
    "__init__.py": 1,  # the public API: `register_aggregation`
}
"""how many lines outside `lmms` name it"""


def test_nothing_outside_lmms_speaks_of_it() -> None:
    """`lmms_eval` is the other project, whose name users write in paths and flags."""
    hits = Counter(
        name_of(path)
        for path in trees()
        if not path.is_relative_to(SOURCE / "lmms")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"fieldmark\.lmms|\blmms_(?!eval)|DocumentTask", line)
    )
    assert hits == LMMS_NAMED


@pytest.mark.parametrize(
    ("model", "protocol"), [("classical/colour", "probe"), ("chat/mock/wren", "ask")]
)
def test_a_run_passes_through_no_other_protocol(model: str, protocol: str, tmp_path: Path) -> None:
    """And a task of our form through no other form; bodies of modules and classes, which say what
    there is, do not count. The task could be asked by several protocols.
    """
    text = (SOURCE / "tasks" / "world-species.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("task: world-species", "task: mine"))
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(str(SOURCE)):
            passed.add(name_of(Path(code.co_filename)))

    where = f"--data world={made('world', 120)} --results {tmp_path} --quiet"
    words = ["run", "--model", model, "--task", str(tmp_path / "mine.yaml"), *where.split()]
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        assert main(words) == 0
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    protocols = {name.split("/")[1] for name in passed if re.match("protocols/[a-z]", name)}
    assert protocols == {protocol}
    assert not [name for name in passed if name.startswith("lmms/")]


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        if path.is_relative_to(FOREIGN):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(name_of(path))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_variables_are_named_after_what_they_hold() -> None:
    riddles = {"each", "found", "told", "said"}
    hits = Counter(
        name_of(path)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in riddles)
        or (isinstance(node, ast.arg) and node.arg in riddles)
    )
    assert hits == {}


def test_a_folder_holds_no_more_than_a_person_takes_in() -> None:
    """A dozen modules beside `__init__`. Datasets are found by their names, and may be more."""
    sizes = Counter(name_of(path.parent) for path in trees() if path.name[:2] != "__")
    allowed = {"data/sets": 30, ".": 14}
    assert {name: n for name, n in sizes.items() if n > allowed.get(name, 12)} == {}


TEN_SECONDS = {
    "what makes a run stale": ("identity", "experiments/identity.py", "stale"),
    "how a Slurm job resumes": ("slurm", "slurm/__init__.py", "how it resumes"),
    "how train and test images are drawn": ("split", "tasks/split.py", "train and test sets"),
    "tiers": ("tiers", "stats/tiers.py", "tiers: a holds"),
    "tokens of an image": ("tokens", "chat/tokens.py", "image tokens"),
    "learning-rate schedule": ("optimiser", "build/train/optimiser.py", "learning-rate schedule"),
    "resize of a photo": ("resize", "embed/gpu/resize.py", "resize of photos"),
    "retry policy": ("retry", "chat/send/retry.py", "exponential backoff"),
    "macro-F1": ("classification", "metrics/_classification.py", "macro_f1"),
    "section titles of Wikipedia": ("sections", "build/describe/sections.py", "heading"),
    "--max-usd": ("budget", "chat/budget.py", "how much may this cost"),
    "fingerprint of a user's model": ("fingerprint", "models/_user/fingerprint.py", "closure"),
    "exit codes": ("errors", "errors.py", "exit codes"),
    "what is in the database": ("sql", "store/sql/schema.sql", "create table"),
    "what draws the page": ("site/page", "report/site/page/leaderboard.js", "which model is best"),
}
"""question → the textbook word for it, the file that answers, and what it says there"""


@pytest.mark.parametrize("question", TEN_SECONDS)
def test_a_stranger_finds_it_by_its_textbook_word(question: str) -> None:
    """The word is in the file's path, and in paths of few other folders."""
    word, answer, term = TEN_SECONDS[question]
    paths = [path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.suffix != ".pyc"]
    hits = [path for path in paths if word in path.as_posix() and (SOURCE / path).is_file()]
    assert Path(answer) in hits
    assert len({path.parent for path in hits}) <= 3, hits
    assert term in (SOURCE / answer).read_text(encoding="utf-8").lower()


def test_modules_start_with_a_docstring() -> None:
    assert [name_of(path) for path, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_no_cycle_even_when_imports_inside_functions_count() -> None:
    """grimp counts them. Of modules, and of packages taken as one."""
    graph = grimp.build_graph("fieldmark", cache_dir=None, exclude_type_checking_imports=True)
    modules: dict[str, set[str]] = defaultdict(set)
    packages: dict[str, set[str]] = defaultdict(set)
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            here, there = (".".join(name.split(".")[:2]) for name in (importer, imported))
            modules[importer].add(imported)
            if here != there:
                packages[here].add(there)
    assert list(_cycles(modules)) == []
    assert list(_cycles(packages)) == []


def _cycles(edges: dict[str, set[str]]) -> Iterator[str]:
    """Those that lead back to themselves."""
    for start in list(edges):
        seen, ahead = set[str](), list(edges[start])
        while ahead:
            here = ahead.pop()
            if here == start:
                yield start
                break
            if here not in seen:
                seen.add(here)
                ahead.extend(edges.get(here, ()))


def test_tests_use_private_modules_of_their_own_package_only() -> None:
    hits = []
    for path in TESTS.rglob("*.py"):
        own = path.relative_to(TESTS).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fieldmark."):
                package, *inner = str(node.module).split(".")[1:]
                is_private = any(part.startswith("_") for part in (package, *inner))
                if is_private and package != own:
                    hits.append(f"{path.relative_to(TESTS)}:{node.lineno} {node.module}")
    assert hits == []


def test_every_folder_of_tests_is_collected() -> None:
    """pytest's own list of folders to pass over has "build" in it."""
    settings = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())
    patterns = settings["tool"]["pytest"]["ini_options"]["norecursedirs"]
    folders = {path.parent.name for path in TESTS.rglob("test_*.py")}
    assert not [name for name in folders for pattern in patterns if fnmatch(name, pattern)]
