"""Draw a plot of the results, or list the kinds of plots.

examples:
  fieldmark plot
  fieldmark plot forest --task newt --out newt.pdf
  fieldmark plot pareto --by speed --json
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from fieldmark.cli.flags import RunChoice
from fieldmark.cli.show import print_json, show_rows, talk
from fieldmark.errors import UsageError
from fieldmark.files import write_file


@dataclass(frozen=True, slots=True)
class PlotArgs(RunChoice):
    kind: Annotated[Positional[str], arg(metavar="KIND", help_behavior_hint="")] = ""
    """which plot [lists all]"""
    metric: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """use this metric instead of each task's own"""
    by: Annotated[str, arg(metavar="SETTING", help_behavior_hint="")] = ""
    """the x axis: a setting for `sweep` [the one with most values], size or speed for `pareto`
    [size]"""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """a file that ends in .png, .svg or .pdf [KIND.png]"""
    json: bool = False
    """print the plot's Vega-Lite specification"""


def run(args: PlotArgs) -> int:
    from fieldmark.report.plots import PLOTS, render, what_it_shows

    if not args.kind:
        show_rows([{"plot": kind, "shows": what_it_shows(kind)} for kind in PLOTS], args.json)
        return 0
    PLOTS.get(args.kind)
    out = args.out or Path(f"{args.kind}.png")
    suffix = _suffix(out)
    spec = _spec(args)
    if args.json:
        print_json(spec)
    if not args.json or args.out:
        write_file(out, render(spec, suffix))
        talk(f"{out}  {' '.join(spec['title']['text'])}")
    return 0


def _suffix(out: Path) -> str:
    from fieldmark.report.plots import SUFFIXES

    suffix = out.suffix.lower().removeprefix(".")
    if suffix not in SUFFIXES:
        endings = ", ".join(f".{ending}" for ending in SUFFIXES)
        raise UsageError(f"--out {out}: expected a file that ends in one of {endings}.")
    return suffix


def _spec(args: PlotArgs) -> dict[str, Any]:
    from fieldmark.report.plots import draw, read_results

    with args.open_store() as store:
        results = read_results(store, args.where, args.metric, args.by)
        spec = draw(args.kind, results)
    for note in results.table.notes:
        talk(note)
    return spec
