"""State on disk has three kinds: the store, a journal, a whole file. Who else writes is named here.

A file that opens something for writing by itself can leave half of it, or leave it without a lock,
after a kill: `files`, `journal` and `store` cannot.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "fieldmark"
KINDS = {"files.py", "journal.py", "leases.py", "store/database.py"}
"""whole files, append-only journals, lock files, SQLite: all state goes through them"""
PRODUCTS = {
    "build/shards/make.py": "tars: a lock per shard",
    "build/train/export.py": "weights of the model that is handed over",
    "build/train/record/checkpoint.py": "checkpoints",
    "build/train/run.py": "the lock of a run's folder",
    "build/wiki/store.py": "the page store (SQLite)",
    "data/_content.py": "the database of what images hold (SQLite)",
    "data/get/download.py": "files that are coming",
    "data/get/unpack.py": "what was unpacked is moved to its place",
    "embed/": "features (raw rows, Parquet)",
    "experiments/cluster/": "folders and logs of jobs; the results of a job are a store of its own",
    "lmms/code/inside.py": "/dev/null",
    "processes.py": "logs of helpers",
    "store/shards.py": "a copy of a shard that is open elsewhere, in a temporary folder",
    "report/site/": "pages and thumbnails, in a folder that gets its name when it is whole",
    # `data make`: a folder that gets its mark when it is whole
    **dict.fromkeys(
        ("data/sets/", "data/_make.py", "data/_synthetic.py", "data/read/"), "drawn datasets"
    ),
}
"""product writers, by file or folder, and what they write"""
METHODS = {"write_text", "write_bytes", "sink_parquet", "sink_csv", "touch"}
TABLES = {"write_csv", "write_ndjson", "write_parquet"}
"""of a data frame: given a path they write to it"""
FUNCTIONS = {
    *(
        "os.open",
        "sqlite3.connect",
        "pickle.dump",
        "torch.save",
        "np.save",
        "save_file",
    ),
    *("shutil.copy", "shutil.copyfile", "shutil.copytree", "shutil.move"),
    *("tempfile.NamedTemporaryFile", "tempfile.mkstemp", "np.memmap", "open_memmap"),
}


def writing_calls(tree: ast.AST) -> Iterator[int]:
    """Lines of calls that write to a path."""
    buffers = {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "io.BytesIO()"
        for target in node.targets
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (_opens(node) or _writes(node, buffers)):
            yield node.lineno


OPENERS = {"open", "bz2.open", "gzip.open", "lzma.open", "tarfile.open"}
"""what is given the path first"""


def _opens(call: ast.Call) -> bool:
    """`open(path, "w")`, `path.open("ab")`: a mode with w, a, x or +."""
    name = ast.unparse(call.func)
    if name != "open" and not name.endswith(".open"):
        return False
    given = call.args[1:2] if name in OPENERS else call.args[:1]
    given += [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    modes = [node.value for given_mode in given for node in ast.walk(given_mode)
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    return any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes)


def _writes(call: ast.Call, buffers: set[str]) -> bool:
    name = ast.unparse(call.func)
    if name == "zipfile.ZipFile":
        return len(call.args) > 1
    if name in FUNCTIONS:
        return "O_RDONLY" not in ast.unparse(call)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    is_table = method in TABLES and call.args and ast.unparse(call.args[0]) not in buffers
    return method in METHODS or bool(is_table)


@pytest.fixture(scope="module")
def writers() -> dict[str, list[int]]:
    """Source files with calls that write, and the lines of these."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if lines := list(writing_calls(ast.parse(path.read_text(encoding="utf-8")))):
            found[path.relative_to(SOURCE).as_posix()] = lines
    return found


def test_only_the_named_write_to_disk(writers: dict[str, list[int]]) -> None:
    named = (*KINDS, *PRODUCTS)
    strangers = {name: lines for name, lines in writers.items() if not name.startswith(named)}
    assert not strangers, f"write through fieldmark.files or fieldmark.journal: {strangers}"


def test_who_is_named_still_writes(writers: dict[str, list[int]]) -> None:
    named = (*KINDS, *PRODUCTS)
    idle = [name for name in named if not any(writer.startswith(name) for writer in writers)]
    assert not idle


@pytest.mark.parametrize(
    ("code", "is_writing"),
    [
        ('path.open("a")', True),
        ('open(path, "wb")', True),
        ('open(path, mode="x")', True),
        ('path.open("ab" if start else "wb", buffering=0)', True),
        ("path.write_text(text)", True),
        ("os.open(path, flags)", True),
        ('gzip.open(path, "wt")', True),
        ("shutil.copyfile(source, target)", True),
        ("frame.write_csv(path)", True),
        ("buffer = io.BytesIO()\nframe.write_csv(buffer)", False),
        ("text = frame.write_csv()", False),
        ("zipfile.ZipFile(path)", False),
        ("path.open()", False),
        ("os.open(path, os.O_RDONLY)", False),
        ('open(path, encoding="ascii")', False),
        ('tarfile.open(fileobj=file, mode="r:")', False),
        ("image.save(buffer)", False),
    ],
)
def test_what_counts_as_writing(code: str, is_writing: bool) -> None:
    assert bool(list(writing_calls(ast.parse(code)))) == is_writing
