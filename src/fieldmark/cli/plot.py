"""Draw results into a picture, or list the kinds of plots.

examples:
  fieldmark plot
  fieldmark plot forest --task newt --out newt.pdf
  fieldmark plot size --json
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import print_json, show_rows, talk
from fieldmark.errors import DataError, UsageError


@dataclass(frozen=True, slots=True)
class PlotArgs:
    kind: Annotated[Positional[str], arg(metavar="KIND", help_behavior_hint="")] = ""
    """which plot; without it, all are listed"""
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """only these (* and ? work; NAME#4ae7 is one version)"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    metric: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """another metric than the tasks' own"""
    by: Annotated[str, arg(metavar="SETTING", help_behavior_hint="")] = ""
    """of a sweep: over this setting [the one with most values]"""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """a file that ends in .png, .svg or .pdf [KIND.png]"""
    json: bool = False
    """print the plot's Vega-Lite specification"""
    common: CommonFlags = Common()


def run(args: PlotArgs) -> int:
    from fieldmark.report.plots import PLOTS, what_it_shows

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
        _write(out, spec, suffix)
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
    from fieldmark.store import RunFilter, Store

    where = RunFilter(models=args.model, tasks=args.task)
    with Store.open(args.common.settings().store, read_only=True) as store:
        results = read_results(store, where, args.metric, args.by)
        spec = draw(args.kind, results)
    for note in results.notes:
        talk(note)
    return spec


def _write(out: Path, spec: dict[str, Any], suffix: str) -> None:
    from fieldmark.report.plots import render

    picture = render(spec, suffix)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(picture)
    except OSError as error:
        raise DataError(f"{out}  cannot be written: {error.strerror or error}.") from error
    talk(f"{out}  {' '.join(spec['title']['text'])}")
