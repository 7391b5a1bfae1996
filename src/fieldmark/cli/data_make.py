"""Make a synthetic copy of a dataset in its exact layout.

examples:
  fieldmark data make newt
  fieldmark data make beluga --size 400 --out /tmp/beluga
"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import talk
from fieldmark.errors import DataError, UsageError
from fieldmark.settings import dataset_key

MARK = "SYNTHETIC.txt"
"""says that everything beside it was drawn"""
ABOUT = "Drawn by fieldmark, seed {seed}, difficulty {difficulty}: no real photos.\n"


@dataclass(frozen=True, slots=True)
class Args:
    name: Annotated[Positional[str], arg(metavar="DATASET")]
    """a name as `fieldmark datasets` lists it"""
    size: int = 1000
    """about how many images"""
    seed: int = 0
    """another seed is another world"""
    difficulty: float = 0.5
    """0 = easy, 1 = hard"""
    out: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """where to write [the dataset's folder under --data-root]"""
    common: CommonFlags = Common()


def run(args: Args) -> int:
    from fieldmark.data import load_dataset
    from fieldmark.data.world import World

    dataset = load_dataset(args.name)
    if args.size < 1:
        raise UsageError(f"--size {args.size}: expected a whole number, 1 or more.")
    if not 0 <= args.difficulty <= 1:
        raise UsageError(f"--difficulty {args.difficulty:g}: expected a number from 0 to 1.")
    world = World(seed=args.seed, difficulty=args.difficulty)
    root = args.out or args.common.settings().root_of(args.name)
    try:
        _clear(root)
        (root / MARK).write_text(ABOUT.format(seed=args.seed, difficulty=args.difficulty))
        dataset.make(root, world, args.size)
        n_files = _n_files(root)
        (root / MARK).write_text(
            ABOUT.format(seed=args.seed, difficulty=args.difficulty) + f"files: {n_files}\n"
        )
    except OSError as error:
        raise DataError(
            f"{root}  cannot be written ({error.strerror or error}): choose another folder "
            "with --out."
        ) from error
    talk(f"{root}  holds a synthetic `{args.name}` of about {args.size} images.")
    talk(
        f"next: fieldmark data check {args.name}"
        + (f" --data {shlex.quote(f'{dataset_key(args.name)}={root}')}" if args.out else "")
    )
    return 0


def _clear(root: Path) -> None:
    """An empty folder: what was made here before goes, anything else is never touched."""
    if root.exists() and not root.is_dir():
        raise DataError(f"{root}  is a file: choose a folder with --out.")
    if root.exists() and any(root.iterdir()) and not _is_ours(root):
        raise DataError(
            f"{root}  holds files that were not made here: choose an empty folder with --out."
        )
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)


def _is_ours(root: Path) -> bool:
    """Is everything in it ours? Files added since it was made are somebody's."""
    mark = root / MARK
    if not mark.is_file():
        return False
    _, found, count = mark.read_text(encoding="utf-8", errors="replace").partition("files: ")
    return not found or count.strip() == str(_n_files(root))


def _n_files(root: Path) -> int:
    return sum(path.is_file() for path in root.rglob("*"))
