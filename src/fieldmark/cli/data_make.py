"""Make a synthetic copy of a dataset in its exact layout.

examples:
  fieldmark data make newt
  fieldmark data make beluga --size 400 --out /tmp/beluga
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import talk
from fieldmark.errors import DataError

MARK = "SYNTHETIC.txt"
"""says that everything beside it was drawn"""


@dataclass(frozen=True, slots=True)
class Args:
    name: Positional[str]
    """a dataset"""
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
    root = args.out or args.common.settings().root_of(args.name)
    _clear(root)
    (root / MARK).write_text(
        f"Drawn by fieldmark, seed {args.seed}, difficulty {args.difficulty}: no real photos.\n"
    )
    dataset.make(root, World(seed=args.seed, difficulty=args.difficulty), args.size)
    talk(f"{root}  holds a synthetic `{args.name}` of about {args.size} images.")
    talk(
        f"next: fieldmark data check {args.name}"
        + (f" --data {args.name}={root}" if args.out else "")
    )
    return 0


def _clear(root: Path) -> None:
    """An empty folder: what was made here before goes, anything else is never touched."""
    if root.exists() and any(root.iterdir()) and not (root / MARK).exists():
        raise DataError(
            f"{root}  holds files that were not made here: choose an empty folder with --out."
        )
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)
