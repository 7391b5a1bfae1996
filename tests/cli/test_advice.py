"""Does advice work when it is typed? Every command that a message suggests is typed here.

Commands stand in backticks in the source and in the golden texts of `tests/broken`. A value that
is filled in at run time is typed as `1`. With `--help` behind it a command is parsed, not run.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

import fieldmark
from fieldmark.cli import commands, main

SOURCE = Path(fieldmark.__file__).parent
BROKEN = Path(__file__).parents[1] / "broken"
TYPED = re.compile(r"`fieldmark ([^`]+)`|^(?:next|to end them): fieldmark (.+)$", re.MULTILINE)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
LISTS = ("tasks", "models", "datasets", "export", "plot")
"""commands that only show something"""
TASK = """\
task: leaves
dataset: folder
data: photos
metric: accuracy
probe: {classifier: simpleshot}
"""


def texts_of(path: Path) -> Iterator[str]:
    """The strings of a file; the listing of an unknown name with the backticks that it gets."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    every = list(ast.walk(tree))
    pieces = {id(part) for node in every if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in every:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("UnknownName", "Registry"):
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield from (f"`{text}`" for text in map(text_of, values) if text)
        elif id(node) not in pieces and (text := text_of(node)):
            yield text


def text_of(node: ast.AST) -> str:
    """A string, with `1` for what is filled in; "" for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "1" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def commands_in(text: str) -> list[str]:
    return [one or two for one, two in TYPED.findall(text)]


def suggested() -> dict[str, str]:
    """Each command that the source suggests → the file that does."""
    found: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for text in texts_of(path):
            for command in commands_in(text):
                found.setdefault(" ".join(command.split()), str(path.relative_to(SOURCE)))
    return found


def golden() -> dict[str, str]:
    """Each case of a broken input → what is printed."""
    return {path.parent.name: path.read_text(encoding="utf-8")
            for path in sorted(BROKEN.glob("*/expected"))}  # fmt: skip


def refusal(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the parser says against a command; "" where it takes it."""
    words = shlex.split(command)
    if words[0] in ("1", "COMMAND"):  # which command it is, is filled in
        return ""
    code = main([*words, *([] if "--help" in words else ["--help"])])
    return "" if code == 0 else capsys.readouterr().err or "is no command"


def test_every_command_that_the_source_suggests_can_be_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    every = suggested()
    assert {"tasks --metrics", "models", "runs free", "doctor"} <= every.keys()
    wrong = {command: (file, told) for command, file in every.items()
             if (told := refusal(command, capsys))}  # fmt: skip
    assert wrong == {}


def test_every_command_that_a_golden_text_suggests_can_be_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = {}
    for case, text in golden().items():
        for command in commands_in(text):
            if told := refusal(command, capsys):
                wrong[case] = (command, told)
    assert wrong == {}


def test_every_flag_that_a_golden_text_suggests_is_one_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of the command that was typed, or of one that the same line names."""
    wrong = []
    for case, text in golden().items():
        typed = (BROKEN / case / "command").read_text(encoding="utf-8").splitlines()[-1]
        for line in text.splitlines():
            places = [*commands_in(line), typed.partition("fieldmark ")[2]]
            words = re.sub(r"'[^']*'", "", TYPED.sub("", line))  # quoted: what the user wrote
            for flag in {*FLAG.findall(words)} - {*FLAG.findall(typed), "--help"}:
                if all(lacks(place, flag, capsys) for place in places):
                    wrong.append((case, flag, line))
    assert wrong == []


def lacks(command: str, flag: str, capsys: pytest.CaptureFixture[str]) -> bool:
    words = shlex.split(command)
    name = next((n for k in (2, 1) if (n := " ".join(words[:k])) in commands()), None)
    if name is None:
        return True
    main([*name.split(), f"{flag}=1", "--help"])
    return "has no flag" in capsys.readouterr().err


def test_every_list_that_a_golden_text_suggests_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lists = {command for text in golden().values() for command in commands_in(text)
             if command.split()[0] in LISTS or command.endswith("--help")}  # fmt: skip
    assert len(lists) > 8
    for command in sorted(lists):
        assert main(shlex.split(command)) == 0, command
        assert capsys.readouterr().out, command


# --- advice followed to its end


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task on twelve photos of two kinds of leaves."""
    monkeypatch.chdir(tmp_path)
    for split, n in (("train", 4), ("test", 2)):
        for number, label in enumerate(("oak", "elm")):
            folder = tmp_path / "photos" / split / label
            folder.mkdir(parents=True)
            for i in range(n):
                Image.new("RGB", (8, 8), (40 * i, 200 * number, 9)).save(folder / f"{i}.png")
    path = tmp_path / "leaves.yaml"
    path.write_text(TASK)
    return path


def run(*words: str) -> int:
    return main(["run", "--task", "leaves.yaml", "--model", "classical/colour", *words])


def test_the_name_that_the_data_flag_needs(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task.write_text(TASK.replace("data: photos", "data: fotos"))
    assert run() == 3
    told = capsys.readouterr().err
    (flag,) = re.findall(r"--data \w+=FOLDER", told)
    assert "leaves.yaml:3" in told
    assert run(*flag.replace("FOLDER", "photos").split()) == 0


def test_the_name_that_the_data_flag_needs_for_a_dataset(
    task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task.write_text(TASK.replace("data: photos\n", ""))
    assert run() == 3
    (flag,) = re.findall(r"--data \w+=FOLDER", capsys.readouterr().err)
    assert run(*flag.replace("FOLDER", "photos").split()) == 0
    for name in ("leaves", "folder"):  # a folder that the flag itself gets wrong
        assert run("--data", f"{name}=fotos") == 3
        (flag,) = re.findall(r"--data \w+=FOLDER", capsys.readouterr().err)
        assert run(*flag.replace("FOLDER", "photos").split()) == 0


@pytest.mark.parametrize(
    ("key", "slip", "right"),
    [
        ("metric: accuracy", "metric: zzz", "macro_accuracy"),
        ("simpleshot", "zzz", "neighbours"),
    ],
)
def test_the_command_that_lists_metrics_or_probes(
    key: str, slip: str, right: str, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task.write_text(TASK.replace(key, slip))
    assert run() == 2
    (command,) = commands_in(capsys.readouterr().err)
    assert main(command.split()) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert right in names
    fixed = TASK.replace(key, key.replace("accuracy", right) if "metric" in key else right)
    task.write_text(fixed)
    assert run() == 0


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("bioclip", "open-clip/hf-hub:imageomics/bioclip"),
        ("bioclip-2", "open-clip/hf-hub:imageomics/bioclip-2"),
        ("dinov2", "hf/facebook/dinov2-base"),
        ("siglip", "hf/google/siglip-base-patch16-224"),
    ],
)
def test_a_model_by_its_short_name(
    slip: str, meant: str, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--task", str(task), "--model", slip]) == 2
    told = capsys.readouterr().err
    suggestion = told.partition("Did you mean ")[2].split("'")[1]
    assert suggestion == meant
    assert main(["plan", "--task", str(task), "--model", suggestion]) == 0
    (command,) = commands_in(told)
    capsys.readouterr()
    assert main(command.split()) == 0
    assert meant in capsys.readouterr().out


def test_how_to_split_a_folder_of_classes(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unsplit = TASK.replace("data: photos", "data: photos/train")
    task.write_text(unsplit)
    assert run() == 3
    lines = re.findall(r"`(\w+: \w+)`", capsys.readouterr().err)
    assert lines == ["shots: 2", "test: rest"]
    task.write_text("\n".join([unsplit, *lines]))
    assert main(["check", str(task)]) == 0
    assert "8 photos, 2 classes, 2 train + 2 test each" in capsys.readouterr().err
    assert run() == 0


def test_the_price_of_a_model_that_has_none(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task.write_text(TASK + "ask: {prompt: Which tree?}\n")
    Path("photos/SYNTHETIC.txt").touch()  # a mock runs on drawings only
    words = ["run", "--task", str(task), "--model", "chat/mock/wren", "--max-usd", "1"]
    assert main(words) == 2
    assert "--price IN/OUT" in capsys.readouterr().err
    assert main([*words, "--price", "0.5/1.5"]) == 0


def test_photos_without_a_model_lead_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "make", "folder", "--out", "My leaves", "--size", "12"]) == 0
    assert "next: fieldmark try 'My leaves/train'" in capsys.readouterr().err
    for words in (["My leaves"], ["--task", "My leaves"]):
        assert main(["run", *words]) == 2
        assert "`fieldmark try 'My leaves'` finds a model" in capsys.readouterr().err


def test_a_misspelt_class_or_file_is_told_before_anything_runs(
    task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (task.parent / "my_model.py").write_text("raise SystemError\nclass Net: ...\n")
    for name, meant in (("my_model.py:net", "Net"), ("mymodel.py:Net", "my_model.py")):
        words = ["run", "--model", str(task.parent / name), "--task", str(task)]
        assert main(words) == 2
        assert f"Did you mean {meant!r}?" in capsys.readouterr().err
