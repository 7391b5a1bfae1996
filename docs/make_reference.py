"""Writes docs/reference/ from the code: `python docs/make_reference.py`. A test sees to it."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from fieldmark.cli import commands, main
from fieldmark.data import DATASETS
from fieldmark.models import known_models
from fieldmark.tasks import load_task, task_files

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- written by docs/make_reference.py: do not edit -->\n\n"


def pages() -> dict[str, str]:
    """File name → text."""
    return {
        "commands.md": _commands(),
        "datasets.md": _datasets(),
        "models.md": _models(),
        "tasks.md": _tasks(),
    }


def _commands() -> str:
    os.environ["COLUMNS"] = "96"
    parts = [f"{NOTE}# Commands\n"]
    for name in commands():
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            main([*name.split(), "--help"])
        parts.append(f"## fieldmark {name}\n\n```text\n{told.getvalue().rstrip()}\n```\n")
    return "\n".join(parts)


def _datasets() -> str:
    parts = [f"{NOTE}# Datasets\n"]
    for name in DATASETS.names():
        info = DATASETS.get(name).INFO
        parts.append(f"## {name}\n\n{info.title}\n\n- licence: {info.licence}")
        if info.homepage:
            parts[-1] += f"\n- home: {info.homepage}"
        parts.append(f"```text\n{info.layout.strip()}\n```\n\n{info.citation.strip()}\n")
    return "\n".join(parts)


def _models() -> str:
    rows = ["| model | known as | parameters | px | licence |", "|---|---|---:|---:|---|"]
    for each in known_models():
        params = "" if each.params is None else f"{each.params:,}"
        cells = (f"`{each.name}`", each.title, params, str(each.input_px or ""), each.licence)
        rows.append(f"| {' | '.join(cells)} |")
    text = "Any other checkpoint of a family works too. Parameters are those of the image tower."
    return "\n".join([f"{NOTE}# Models\n\n{text}\n", *rows, ""])


def _tasks() -> str:
    parts = [f"{NOTE}# Tasks\n"]
    for name, path in sorted(task_files().items()):
        task = load_task(name)
        variants = ", ".join(f"`{name}@{each}`" for each in task.variants) or "none"
        parts.append(
            f"## {name}\n\n**{task.title}** {task.about}\n\n- dataset: `{task.dataset}`\n"
            f"- metric: `{task.metric}`\n- variants: {variants}\n\n"
            f"```yaml\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
