"""Print scores with intervals, ties with the best, and the line that reproduces them.

examples:
  fieldmark table
  fieldmark table --task newt --by-part
  fieldmark table --long --json
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import UseAppendAction, arg

from fieldmark.cli._flags import Common
from fieldmark.cli._show import print_json, talk
from fieldmark.errors import DataError


@dataclass(frozen=True, slots=True)
class Args(Common):
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """only these (* and ? work)"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    long: bool = False
    """one row per run"""
    by_part: bool = False
    """one row per part or group of parts"""
    json: bool = False
    """print JSON"""


def run(args: Args) -> int:
    raise DataError(f"{args.settings().store}  holds no finished runs.")
