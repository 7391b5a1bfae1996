"""Every mistake in a file is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from fieldmark.errors import UsageError
from fieldmark.source_lines import read_toml, read_yaml, toml_value, validate

TOML = '''
name = "a"
note = """
name = "not this one"
"""
n_train = [
  1,
  "ten",
]
[table.inner]
key = 1
[[models]]
org = "x"
[[models]]
ckpt = "y"
"quoted key" = 3
'''


def test_toml_keys_know_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(TOML)
    located = read_toml(path)
    lines = TOML.splitlines()
    assert lines[located.line(("name",)) - 1] == 'name = "a"'
    assert lines[located.line(("n_train", 1)) - 1] == '  "ten",'
    assert lines[located.line(("table", "inner", "key")) - 1] == "key = 1"
    assert lines[located.line(("models", 1, "ckpt")) - 1] == 'ckpt = "y"'
    assert lines[located.line(("models", 1, "quoted key")) - 1] == '"quoted key" = 3'
    assert located.line(("nowhere",)) is None


def test_yaml_keys_know_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\nb:\n  c: [1,\n    2]\n  d: x\n")
    located = read_yaml(path)
    assert [located.line(key) for key in [("a",), ("b", "d"), ("b", "c", 1)]] == [1, 5, 4]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\na: 2\n", 2, "duplicate"),
        ("a: [1\nb: 2\n", 2, "expected"),
        ("- 1\n", 1, "mapping"),
        ("a: !function x.y\n", 1, "the tag '!function'"),
        ("country: NO\n", 0, ""),
    ],
)
def test_yaml_faults(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    if not says:
        assert read_yaml(path).data == {"country": "NO"}
        return
    with pytest.raises(UsageError) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(f"{path}:{line}  ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_toml_fault_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("a = 1\nb = = 2\n")
    with pytest.raises(UsageError, match=r"a\.toml:2  is not valid TOML"):
        read_toml(path)


@pytest.mark.parametrize("opening", ["[", "{a = "])
def test_toml_nested_too_deep_is_one_line(tmp_path: Path, opening: str) -> None:
    """It ended in a traceback."""
    path = tmp_path / "a.toml"
    path.write_text("a = " + opening * 5000)
    with pytest.raises(UsageError, match="a.toml  is nested too deep: write it flatter"):
        read_toml(path)
    assert toml_value(opening * 5000) == opening * 5000


class _Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    width: int = 1


class _Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    count: int = 0
    inner: _Inner | None = None


def test_all_problems_of_a_file_at_once_with_the_closest_key(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('nmae = "x"\ncount = "ten"\n[inner]\nwidht = 3\n')
    with pytest.raises(UsageError) as caught:
        validate(_Outer, read_toml(path))
    told = str(caught.value).splitlines()
    assert f"{path}:1  key 'nmae' is not known. Did you mean 'name'?" in told
    assert any(line.startswith(f"{path}:2  count = 'ten': expected") for line in told)
    assert f"{path}:4  key 'widht' is not known. Did you mean 'width'?" in told
    assert any("key 'name' is missing: add it." in line for line in told)
    assert told[-1] == "4 problems, nothing was started."
