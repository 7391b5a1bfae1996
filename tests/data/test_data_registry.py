"""Is a dataset one file, found by its name, and is the package light until one is used?"""

import subprocess
import sys
from pathlib import Path

import pytest

from fieldmark import data
from fieldmark.data import DATASETS, load_dataset, register_dataset
from fieldmark.errors import UnknownName, UsageError
from fieldmark.world import World

OWN = """
from pathlib import Path
import polars as pl
from fieldmark.data import Info, finish_table

class Ponds:
    INFO = Info(title="Ponds", licence="CC0", citation="none")
    def table(self, root):
        rows = pl.DataFrame({"id": ["a"], "image": ["a.jpg"], "label": ["newt"]})
        return finish_table(rows, root)

ponds = Ponds()
half = Info(title="?", licence="?", citation="?")
"""


def test_files_are_datasets():
    assert {"beluga", "cornell_bird", "csv", "folder", "newt"} <= set(DATASETS.names())
    assert not [name for name in DATASETS.names() if name.startswith(("_", "-"))]
    assert load_dataset("newt").INFO.title.startswith("NeWT")


def test_an_unknown_name_gets_the_closest():
    with pytest.raises(UnknownName) as caught:
        load_dataset("belugas")
    assert str(caught.value) == (
        "dataset 'belugas' is not known. Did you mean 'beluga'? `fieldmark datasets` lists all."
    )


def test_own_datasets_from_a_file(tmp_path: Path):
    (tmp_path / "my.py").write_text(OWN)
    rows = load_dataset(f"{tmp_path}/my.py:ponds").table(tmp_path)
    assert rows["label"].to_list() == ["newt"]
    findings = load_dataset(f"{tmp_path}/my.py:ponds").check(tmp_path)
    assert [one.level for one in findings] == ["error", "warning", "error"]
    assert "a.jpg" in findings[2].text
    with pytest.raises(UsageError, match=r"dataset 'Ponds' has no make\(root, world, size\)"):
        load_dataset(f"{tmp_path}/my.py:ponds").make(tmp_path, World(), 3)
    with pytest.raises(UsageError) as caught:
        load_dataset(f"{tmp_path}/my.py:half")
    assert str(caught.value).endswith("lacks INFO, table: it needs INFO and table.")


def test_register_dataset():
    register_dataset("ponds", load_dataset("folder"))
    try:
        assert load_dataset("ponds").INFO is load_dataset("folder").INFO
        assert "ponds" in DATASETS.names()
        with pytest.raises(UsageError, match="dataset 'newt' already exists"):
            register_dataset("newt", load_dataset("folder"))
    finally:
        DATASETS.added.clear()


def test_public_names_are_there():
    for name in data.__all__:
        assert getattr(data, name) is not None
    with pytest.raises(AttributeError):
        data.nothing  # noqa: B018


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, fieldmark.data; fieldmark.data.DATASETS.names();"
        "print([m for m in ('polars', 'numpy', 'PIL', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
