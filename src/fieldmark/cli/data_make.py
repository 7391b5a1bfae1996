"""Make a synthetic copy of a dataset: drawn pictures in its exact file layout.

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

from fieldmark.cli._flags import Common, CommonFlags, check_least
from fieldmark.cli._show import talk
from fieldmark.errors import DataError, UsageError
from fieldmark.settings import dataset_key


@dataclass(frozen=True, slots=True)
class DataMakeArgs:
    name: Annotated[Positional[str], arg(metavar="DATASET")]
    """a name as `fieldmark datasets` lists it"""
    size: int = 1000
    """about how many images"""
    seed: int = 0
    """seed of the synthetic world; another seed gives other creatures"""
    difficulty: float = 0.5
    """0 = easy, 1 = hard"""
    out: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """folder to write [the dataset's folder under --data-root]"""
    common: CommonFlags = Common()


def run(args: DataMakeArgs) -> int:
    from fieldmark.data import load_dataset
    from fieldmark.world import World

    dataset = load_dataset(args.name)
    check_least("--size", args.size, 1)
    if not 0 <= args.difficulty <= 1:
        raise UsageError(f"--difficulty {args.difficulty:g}: expected a number from 0 to 1.")
    world = World(seed=args.seed, difficulty=args.difficulty)
    root = args.out or args.common.settings().root_of(args.name)
    making = root.with_name(f".{root.name}.making")
    former = root.with_name(f".{root.name}.former")
    try:
        _refuse_foreign(root)
        for left in (making, former):  # behind by one that was killed
            shutil.rmtree(left, ignore_errors=True)
        making.mkdir(parents=True)
        dataset.make(making, world, args.size)
        # Renamed first: what a kill leaves half deleted would pass for files of the user's.
        if root.exists():
            root.rename(former)
        making.rename(root)
        shutil.rmtree(former, ignore_errors=True)
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


def _refuse_foreign(root: Path) -> None:
    """What was made here may be made anew; anything else is never touched."""
    from fieldmark.data import is_as_drawn

    if root.exists() and not root.is_dir():
        raise DataError(f"{root}  is a file: choose a folder with --out.")
    if root.exists() and any(root.iterdir()) and not is_as_drawn(root):
        raise DataError(
            f"{root}  holds files that fieldmark did not make: choose an empty folder with --out."
        )
