"""What fits chose and which images were left out, as tables, programs and the page show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldmark.protocols import FitNotes
from fieldmark.report import fit_lines, plain_fits, read_table
from fieldmark.report.export._chosen import choose
from fieldmark.report.export.json import export
from fieldmark.report.site.summary import CELL, build_summary
from fieldmark.store import PartRecord, PartResult, Predictions, RunSpec, Score, Store, fit_summary

EDGE = "alpha = 1024 is the largest of its grid: a larger one may be better"
BAD = {f"photos/{number}.jpg": "cannot be decoded" for number in range(4)}


class Chose:
    """A probe as it is after a fit."""

    def __init__(self, notes: tuple[str, ...] = (), **chosen: Any) -> None:
        self.chosen_, self.fit_notes_ = chosen, list(notes)


def info(*fits: Chose, **more: Any) -> dict[str, Any]:
    noted = FitNotes("ridge")
    for fit in fits:
        noted.add(fit, {})
    return noted.noted() | more


def record(part: str, repeat: int = 0, **noted: Any) -> PartRecord:
    return PartRecord(part, repeat, "", 9, 4, 4, 0.1, json.loads(json.dumps(noted)))


@pytest.fixture
def noted(tmp_path: Path):
    """One run of two parts, of which one chose the last value of its grid."""
    answers = Predictions(["a", "b"], ["x", "y"], ["x", "x"])
    with Store.open(tmp_path / "results.db") as store:
        run = store.begin_run(RunSpec("m/one", "birds", "probe/ridge", {}, data="0a"))
        first = info(Chose(alpha=32.0, cv_score=0.871), bad_images=BAD, n_bad_images=4)
        second = info(Chose((EDGE,), alpha=np.float64(1024), cv_score=0.5))
        for name, each in (("day", first), ("night", second)):
            store.write_part(run, PartResult(answers, part=name, info=each))
        scores = [Score("accuracy", 0.5, part, is_primary=not part) for part in ("", "day")]
        store.finish_run(run, scores)
        yield store


def test_the_long_table_tells_them(noted: Store) -> None:
    lines = fit_lines(noted, read_table(noted).rows, width=200)
    assert lines == [
        "notes of the runs:",
        "  m/one, birds: ridge: alpha 32 (32 to 1024), cv score 0.5 (0.5 to 0.871) (2 fits); "
        f"{EDGE} (in 1 of 2 fits)",
        "left out because they cannot be read (--json names all):",
        "  birds: 4 images: photos/0.jpg (cannot be decoded); photos/1.jpg (cannot be decoded); "
        "photos/2.jpg (cannot be decoded); ...",
    ]


def test_programs_get_every_value_and_every_image(noted: Store) -> None:
    whole, day = plain_fits(noted, read_table(noted, by_part=True).rows)
    assert whole["fit"]["chosen"] == {"alpha": [32.0, 1024.0], "cv_score": [0.871, 0.5]}
    assert whole["fit"]["notes"] == {EDGE: 1} and whole["bad_images"] == BAD
    assert day["fit"]["chosen"] == {"alpha": [32.0], "cv_score": [0.871]}
    (file,) = export(choose(noted))
    assert json.loads(b"".join(file.chunks))[0]["fit"] == whole["fit"]


def test_the_page_knows_them(noted: Store) -> None:
    (cell,) = build_summary(noted)["cells"]
    told = dict(zip(CELL, cell, strict=True))
    assert told["fit"][0].startswith("ridge: alpha 32") and EDGE in told["fit"][1]
    assert told["left_out"].startswith("4 images: photos/0.jpg")


def test_repeats_and_joint_parts_are_counted_once() -> None:
    two = info(Chose(kernel="rbf"), Chose(kernel="linear"))
    told = fit_summary([record("", 0, **two), record("", 1, **two)])
    assert told.n_fits == 2 and told.line == "ridge: kernel 1 × rbf, 1 × linear (2 fits)"
    joint = FitNotes("mlp", is_joint=True)
    joint.add(Chose(learning_rate=0.01), {})
    told = fit_summary([record("fins", **joint.noted()), record("tail", **joint.noted())])
    assert told.n_fits == 1 and told.line == "mlp: learning rate 0.01"


def test_odd_values_of_a_users_probe_are_stored_plainly() -> None:
    noted = info(Chose(path=Path("a/b"), gain=float("inf"), n=np.int64(3), flag=True))["fit"]
    assert noted["chosen"] == {"path": ["a/b"], "gain": [None], "n": [3], "flag": [True]}
    assert info(Chose()) == {} and info() == {}
