"""A user's file is all the code of the user's that it runs: what it imports counts, and runs as it
is now.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmark.code import closure_of
from fieldmark.errors import UsageError
from fieldmark.registry import code_hash, load_reference
from kit.cpu_time import least_cpu_s

MAIN = """
import helper
from pack.deep import depth
from pack import leaf
def answer():
    import late
    return [helper.VALUE, depth(), leaf.VALUE, late.VALUE]
"""
FILES = {
    "main.py": MAIN,
    "helper.py": "from second import VALUE\n",
    "second.py": "VALUE = 1\n",
    "late.py": "VALUE = 1\n",
    "pack/__init__.py": "",
    "pack/deep.py": "from . import sibling\ndef depth():\n    return sibling.VALUE\n",
    "pack/sibling.py": "from .inner.most import VALUE\n",
    "pack/inner/most.py": "VALUE = 1\n",
    "pack/leaf.py": "VALUE = 1\n",
}
VALUES = ("second.py", "late.py", "pack/inner/most.py", "pack/leaf.py")


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def rewrite_in_place(path: Path, text: str) -> None:
    """Other bytes, as many as before, and the old date."""
    before = path.stat()
    assert len(text) == before.st_size
    with path.open("r+") as file:
        file.write(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("changed", VALUES)
@pytest.mark.parametrize("age_s", [0, 3600])
def test_every_module_it_imports_counts_and_runs_as_it_is(
    tmp_path: Path, changed: str, age_s: int
) -> None:
    name = f"{write(tmp_path, FILES)}/main.py:answer"
    for path in tmp_path.rglob("*.py"):
        date = path.stat().st_mtime - age_s
        os.utime(path, (date, date))
    first = code_hash(name)
    assert load_reference(name)() == [1, 1, 1, 1]
    rewrite_in_place(tmp_path / changed, (tmp_path / changed).read_text().replace("1", "2"))
    assert code_hash(name) != first
    assert sorted(load_reference(name)()) == [1, 1, 1, 2]
    assert not list(tmp_path.rglob("__pycache__"))


def test_stale_bytecode_is_never_run(tmp_path: Path) -> None:
    write(tmp_path, {"main.py": "from helper import VALUE\n", "helper.py": "VALUE = 1\n"})
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import helper"
    subprocess.run([sys.executable, "-c", script], check=True, env={"PATH": os.environ["PATH"]})
    assert list(tmp_path.rglob("*.pyc"))
    rewrite_in_place(tmp_path / "helper.py", "VALUE = 2\n")
    assert load_reference(f"{tmp_path}/main.py:VALUE") == 2


def test_what_is_loaded_stays_what_was_hashed(tmp_path: Path) -> None:
    """An import inside a function comes after an edit, and still gets the bytes of its version."""
    name = f"{write(tmp_path, FILES)}/main.py:answer"
    before = load_reference(name)
    (tmp_path / "late.py").write_text("VALUE = 7\n")
    after = load_reference(name)
    assert (before()[3], after()[3]) == (1, 7)


def test_two_folders_with_a_helper_each_get_their_own(tmp_path: Path) -> None:
    for number in (1, 2):
        text = f"VALUE = {number}\n"
        files = {"main.py": "def get():\n    import helper\n    return helper.VALUE\n"}
        write(tmp_path / str(number), files | {"helper.py": text})
    one, two = (load_reference(f"{tmp_path}/{number}/main.py:get") for number in (1, 2))
    assert [one(), two(), one()] == [1, 2, 1]
    assert "helper" not in sys.modules


def test_place_and_neighbours_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (write(tmp_path / name, FILES) for name in ("a", "b/c"))
    (tmp_path / "link").symlink_to(second)
    name = f"{first}/main.py:answer"
    before = code_hash(name)
    assert (
        before == code_hash(f"{second}/main.py:answer") == code_hash(f"{tmp_path}/link/main.py:x")
    )
    write(first, {"unrelated.py": "VALUE = 3\n", "notes.txt": "x", "other.npy": "x"})
    monkeypatch.syspath_prepend(str(second))
    load_reference(f"{second}/main.py:answer")
    assert code_hash(name) == before


def test_modules_elsewhere_on_the_path_are_the_users_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "lib", {"lab/__init__.py": "", "lab/nets.py": "WIDTH = 1\n"})
    write(tmp_path / "here", {"main.py": "from lab.nets import WIDTH\nimport numpy, json\n"})
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    name = f"{tmp_path}/here/main.py:WIDTH"
    first = code_hash(name)
    assert load_reference(name) == 1
    (tmp_path / "lib/lab/nets.py").write_text("WIDTH = 2\n")
    assert code_hash(name) != first
    assert load_reference(name) == 2
    closure = closure_of((tmp_path / "here/main.py").resolve())
    assert closure.libraries == {"numpy", "json"}
    assert set(closure.sources) == {"", "lab", "lab.nets"}


@pytest.mark.parametrize(
    "line",
    [
        "sys.path.insert(0, str(Path(__file__).parent.parent / 'lib'))",
        "sys.path.append(os.path.join(os.path.dirname(__file__), '..', 'lib'))",
        "sys.path.insert(0, {lib!r})",
        "sys.path.append(str(Path(__file__).resolve().parents[1])); import lib.tools as tools",
    ],
)
def test_a_changed_path_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    first = line.format(lib=str(tmp_path / "lib"))
    more = "" if "import" in line else "import tools\n"
    files = {"models/main.py": f"import os, sys\nfrom pathlib import Path\n{first}\n{more}"}
    write(tmp_path, files | {"lib/tools.py": "VALUE = 1\n"})
    name = f"{tmp_path}/models/main.py:tools"
    before = code_hash(name)
    assert load_reference(name).VALUE == 1
    assert code_hash(name) == before
    (tmp_path / "lib/tools.py").write_text("VALUE = 2\n")
    assert code_hash(name) != before
    assert load_reference(name).VALUE == 2


def test_names_of_libraries_and_of_the_file_itself(tmp_path: Path) -> None:
    """`timm.py` that imports timm means the library; a helper may import the file it helps."""
    write(tmp_path, {"json.py": "import json\nKIND = json.dumps\n", "sys.py": "raise OSError\n"})
    assert load_reference(f"{tmp_path}/json.py:KIND")(1) == "1"
    files = {"main.py": "import sys\nBASE = 2\nimport helper\nEND = helper.twice()\n"}
    helper = "def twice():\n    from main import BASE\n    return 2 * BASE\n"
    write(tmp_path, files | {"helper.py": helper})
    assert load_reference(f"{tmp_path}/main.py:END") == 4


def test_weights_that_the_source_names_count(tmp_path: Path) -> None:
    code = "import os\nfrom pathlib import Path\nW = Path(__file__).parent / 'nets' / 'w.npy'\n"
    write(tmp_path, {"main.py": code, "nets/w.npy": "1", "w.npy": "1"})
    name = f"{tmp_path}/main.py:W"
    before = code_hash(name)
    rewrite_in_place(tmp_path / "nets/w.npy", "2")
    assert code_hash(name) != before
    assert list(closure_of((tmp_path / "main.py").resolve()).data) == ["nets/w.npy", "w.npy"]


def test_many_threads_get_one_object(tmp_path: Path) -> None:
    name = f"{write(tmp_path, FILES)}/main.py:answer"
    found: list[Callable[[], list[int]]] = []
    threads = [threading.Thread(target=lambda: found.append(load_reference(name))) for _ in "x" * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


@pytest.mark.parametrize(
    ("helper", "says"),
    [
        ("x = 1 / 0\n", r"helper\.py:1  cannot be run: ZeroDivisionError: division by zero\."),
        ("def f(:\n", r"helper\.py:1  cannot be run: SyntaxError: invalid syntax\."),
        ("from . import gone\n", r"helper\.py:1  cannot be run: ImportError: cannot import name"),
        ("import pack.gone\n", r"ModuleNotFoundError: No module named 'pack\.gone'\."),
    ],
)
def test_faults_in_a_helper_name_the_helper(tmp_path: Path, helper: str, says: str) -> None:
    write(tmp_path, {"main.py": "import helper\n", "helper.py": helper, "pack/__init__.py": ""})
    with pytest.raises(UsageError, match=says) as caught:
        load_reference(f"{tmp_path}/main.py:x")
    assert "fieldmark_user" not in str(caught.value)


def test_asking_again_is_cheap(tmp_path: Path) -> None:
    name = f"{write(tmp_path, FILES)}/main.py:answer"
    code_hash(name)
    assert least_cpu_s(lambda: [code_hash(name) for _ in range(50)]) < 50 * 0.002


@pytest.mark.parametrize(
    ("call", "reads"),
    [
        ("open(x)", True),
        ("open(x, 'rb')", True),
        ("np.load(x)", True),
        ("Path(x).read_text()", True),
        ("open(x, 'a')", False),
        ("open(x, mode='wb')", False),
        ("json.loads(x)", False),
        ("image.resize((2, 2))", False),
    ],
)
def test_whether_code_reads_files_shows_in_its_calls(
    tmp_path: Path, call: str, reads: bool
) -> None:
    (tmp_path / "m.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text(f"def f(x):\n    return {call}\n")
    assert closure_of(tmp_path / "m.py").reads_files is reads


@pytest.mark.parametrize(
    "line",
    ['open("log.npy", "a")', 'Path("log.npy").open("w")', 'Path("log.npy").write_text("x")'],
)
def test_a_file_that_the_code_writes_is_no_part_of_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "m.py").write_text(f'from pathlib import Path\n{line}\nopen("names.npy")\n')
    (tmp_path / "log.npy").touch()
    (tmp_path / "names.npy").touch()
    assert set(closure_of(tmp_path / "m.py").data) == {"names.npy"}
