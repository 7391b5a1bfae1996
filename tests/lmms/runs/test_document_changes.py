"""Documents that change while they are asked about end the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.experiments import ExecuteOptions, execute
from fieldmark.progress import Silent
from fieldmark.store import Store
from kit.identity import make_world, plan_of, run_it, settings_at
from kit.pictures import mark_drawn, write_image

pytest.importorskip("datasets")
CHAT = "chat/mock/wren?skill=0.8"


class Swapping(Silent):
    """Somebody replaces a picture as soon as something is asked."""

    def __init__(self, picture: Path) -> None:
        self.picture = picture

    def advance(self, n: int = 1) -> None:
        write_image(self.picture, 999)


def test_a_picture_replaced_while_documents_are_asked_is_told(tmp_path: Path) -> None:
    place = mark_drawn(make_world(tmp_path / "w"))
    plan, settings = plan_of(place, CHAT, "docs.yaml"), settings_at(place)
    outcome = execute(plan, settings, Swapping(place / "d" / "5.png"), ExecuteOptions())
    assert "run the same command again" in outcome.failures[0].error
    with Store.open(settings.store, read_only=True) as store:
        assert [run.state for run in store.runs()] == ["failed"]
    run_it(place, CHAT, "docs.yaml")
    with Store.open(settings.store, read_only=True) as store:
        assert sorted(run.state for run in store.runs()) == ["done", "failed"]
