"""What others wrote (names, labels, replies) steers no terminal and runs in no spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fieldmark.cli
from fieldmark.cli import main
from fieldmark.cli.show import print_json, show, talk
from fieldmark.report.plots import draw, read_results, render
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store

ESCAPE = "fox\x1b[2J\x07\x9b31m\u202e"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
FORMULA = "=HYPERLINK(1)"


def results(folder: Path) -> Path:
    """Two models, whose labels and names are hostile."""
    right = np.arange(24) % 3 > 0
    with Store.open(folder / "fieldmark.db") as store:
        for model in ("@one", f"two{ESCAPE}"):
            run = store.begin_run(RunSpec(model, f"t{ESCAPE}", "probe/ridge"), fingerprint="f")
            answers = [ESCAPE if one else FORMULA for one in right]
            given = Predictions(
                [f"{n}.jpg" for n in range(24)], [ESCAPE] * 12 + [FORMULA] * 12, answers
            )
            store.write_part(run, PartResult(given, seconds=1.0))
            store.finish_run(run, [Score("accuracy", 0.5, n=24, is_primary=True)])
    return folder


@pytest.mark.parametrize(
    "words",
    [["table"], ["table", "--long"], ["compare", "@one", "two*"], ["runs", "ls"],
     ["runs", "ls", "--json"], ["table", "--task", ESCAPE], ["plot", "confusion", "--json"]],
    ids=lambda words: "-".join(words[:2]).encode("ascii", "ignore").decode().replace("\x1b", ""),
)  # fmt: skip
def test_no_command_passes_control_characters_on(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*words, "--results", str(results(tmp_path))])
    told = capsys.readouterr()
    assert told.out + told.err
    assert not STEERING.search(told.out + told.err)


def test_messages_errors_and_json_are_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    show(ESCAPE)
    talk(ESCAPE)
    print_json({"label": ESCAPE})
    assert main(["run", "--task", "world-stage", "--model", ESCAPE]) == 2
    assert main([ESCAPE]) == 2
    told = capsys.readouterr()
    assert "fox\\x1b[2J\\x07\\x9b31m\\u202e" in told.out and "fox\\x1b" in told.err
    assert not STEERING.search(told.out + told.err)


def test_the_log_and_tracebacks_are_spelled_out() -> None:
    """They quote servers (`does not take temperature: …`) and names of files."""
    script = (
        "import logging, sys; from fieldmark.cli import main; sys.argv[1:] = ['version']; main();"
        f"logging.getLogger('x').warning('%s', {ESCAPE!r}); raise RuntimeError({ESCAPE!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" in done.stderr
    assert done.stderr.count("fox\\x1b[2J\\x07") == 2 and not STEERING.search(done.stderr)


def test_one_file_of_the_command_line_prints() -> None:
    folder = Path(fieldmark.cli.__file__).parent
    prints = {path.name for path in folder.rglob("*.py")
              if re.search(r"(?<![\w.])print\(|std(err|out)\.write", path.read_text())}  # fmt: skip
    assert prints == {"show.py"}


def test_one_function_writes_tables_for_people() -> None:
    """Those that `data make` draws hold no text of others."""
    source = Path(fieldmark.cli.__file__).parents[1]
    writers = {path.relative_to(source).as_posix() for path in source.rglob("*.py")
               if re.search(r"csv\.(DictW|w)riter|\.write_csv\(", path.read_text())}  # fmt: skip
    drawn = {"data/_make.py", "data/sets/birds525.py", "data/sets/world.py"}
    hashed = {"protocols/_question.py"}
    assert writers == {"files.py", "report/export/csv.py"} | drawn | hashed


def test_cells_of_a_csv_run_in_no_spreadsheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = results(tmp_path)
    for more in ([], ["--predictions"]):
        assert (
            main(
                ["export", "csv", "--out", str(tmp_path / "a.csv"), "--results", str(folder), *more]
            )
            == 0
        )
        cells = [
            cell
            for row in csv.reader(io.StringIO((tmp_path / "a.csv").read_text()))
            for cell in row
        ]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t", "\r")]
        capsys.readouterr()
        assert main(["export", "csv", "--results", str(folder), *more]) == 0
        told = capsys.readouterr().out
        assert told == (tmp_path / "a.csv").read_text() and not STEERING.search(told)
    assert f"'{FORMULA}" in cells
    assert "fox\\x1b[2J\\x07\\x9b31m\\u202e" in cells


def test_json_that_is_shown_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = results(tmp_path)
    capsys.readouterr()
    assert main(["export", "json", "--predictions", "--results", str(folder)]) == 0
    told = capsys.readouterr().out
    assert not STEERING.search(told)
    assert json.loads(told.splitlines()[0])["target"] == ESCAPE


def test_a_plot_survives_control_characters(tmp_path: Path) -> None:
    with Store.open(results(tmp_path) / "fieldmark.db", read_only=True) as store:
        spec = draw("confusion", read_results(store))
    assert not STEERING.search(str(spec))
    assert render(spec, "svg").startswith(b"<svg")
