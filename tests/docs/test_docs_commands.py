"""Every command in the README and the docs runs, and every link leads somewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit import forked
from kit.made import made_once
from kit.rings import mostly_slow

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
MAKE = re.compile(r"fieldmark data make \w+ --size \d+")
HEADING = re.compile(r"^#+ (.+)$", re.M)


def commands(page: Path) -> list[tuple[str, str, str]]:
    return [(lang, title, text) for lang, title, text in BLOCK.findall(page.read_text())]


WITH_COMMANDS = [page for page in PAGES if any(lang == "sh" for lang, _, _ in commands(page))]


@pytest.mark.parametrize(
    "page", mostly_slow(WITH_COMMANDS, ROOT / "docs" / "add-a-probe.md"), ids=lambda page: page.name
)
def test_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """Blocks with a title are files; `sh` blocks are run line by line in a folder of their own: one
    for a page, and one for each block of the README, whose readers go through one door only. A
    comment may say with which exit code a command ends. Pages share made data and features.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    is_cleaning = "fieldmark cache clean" in page.read_text()
    cache = tmp_path if is_cleaning else Path(os.environ["TEST_DATASETS"])
    environment = os.environ | {
        "PATH": path,
        "FIELDMARK_OFFLINE": "1",
        "FIELDMARK_CACHE": str(cache / "docs-cache"),
    }
    n_run = 0
    for number, (lang, title, text) in enumerate(commands(page)):
        folder = tmp_path / (str(number) if page.name == "README.md" else "page")
        folder.mkdir(exist_ok=True)
        if not (folder / "examples").exists():
            (folder / "examples").symlink_to(ROOT / "examples")  # readers are in their clone
        if title:
            (folder / title).parent.mkdir(exist_ok=True)
            (folder / title).write_text(text)
        for line in text.splitlines() if lang == "sh" else []:
            line, _, comment = line.removeprefix("pip install uv && uv run ").partition(" #")
            line, code = line.strip(), re.search(r"exit code (\d)", comment)
            if line in ("pip install .", "--all-extras --group dev pytest"):
                continue  # test_installation.py, and this very run
            run = run_shared if MAKE.fullmatch(line) else run_line
            run(line, folder, environment, int(code[1]) if code else 0)
            n_run += 1
    assert n_run


def run_shared(line: str, folder: Path, environment: dict[str, str], code: int) -> None:
    """The same words make the same data: the first page runs them, the others have a copy."""

    def make(draft: Path) -> None:
        draft.mkdir(exist_ok=True)
        run_line(line, draft, environment, code)

    shutil.copytree(made_once(line, make), folder, dirs_exist_ok=True)


def run_line(line: str, folder: Path, environment: dict[str, str], code: int) -> None:
    """A command of ours in a forked process, which has imported all it needs; others by a shell."""
    words = shlex.split(line)
    if words[0] == "fieldmark" and not set("|<>&;$`") & set(line):
        script = Path(sys.executable).with_name("fieldmark")
        done = forked.run([script, *words[1:]], folder, environment)
    else:
        done = subprocess.run(
            line, shell=True, cwd=folder, env=environment, capture_output=True, text=True
        )
    assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_no_shell_expands_a_name(page: Path) -> None:
    """zsh, the shell of every Mac, refuses `newt/ml_*` and `jay?skill=1` without quotes."""
    lines = [line for lang, _, text in commands(page) if lang == "sh" for line in text.splitlines()]
    for line in lines:
        bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", line).partition(" #")[0]
        assert not set("*?[") & set(bare), f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in LINK.findall(page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not heading or heading in anchors(file), f"{page.name} links to {target}#{heading}"


def anchors(page: Path) -> list[str]:
    """What headings are called in addresses: small letters and hyphens, no punctuation."""
    headings = HEADING.findall(page.read_text())
    return [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings]


def test_files_of_the_docs_are_all_python_yaml_or_toml() -> None:
    for page in PAGES:
        for lang, title, _ in commands(page):
            assert not title or Path(title).suffix in (".py", ".yaml", ".toml"), (page, title)
            assert lang in ("sh", "python", "yaml", "toml", "text"), (page, lang)
