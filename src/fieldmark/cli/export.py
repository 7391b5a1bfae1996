"""Write results for other programs and pages, or list the formats.

examples:
  fieldmark export
  fieldmark export csv --out scores.csv
  fieldmark export card --model 'classical/*' --out cards
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, show_rows, talk
from fieldmark.errors import DataError, UsageError

if TYPE_CHECKING:
    from fieldmark.report.export import ExportFile


@dataclass(frozen=True, slots=True)
class ExportArgs:
    form: Annotated[Positional[str], arg(name="format", metavar="FORMAT")] = ""
    """which format; without it, the ending of --out tells, or all are listed"""
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """only these (* and ? work; NAME#4ae7 is one version)"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    out: Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="")] = None
    """the file, or the folder of formats with a file per model [standard output]"""
    predictions: bool = False
    """the answers to single items in place of scores"""
    source: Annotated[str, arg(metavar="ADDRESS", help_behavior_hint="")] = ""
    """where the full results can be seen, for formats that point there"""
    lmms_eval: bool = False
    """the same as the format lmms-eval"""
    json: bool = False
    """list the formats as JSON"""
    common: CommonFlags = Common()


def run(args: ExportArgs) -> int:
    from fieldmark.report.export import EXPORTS, choose, export, what_it_is
    from fieldmark.store import RunFilter, Store

    form = args.form or ("lmms-eval" if args.lmms_eval else _form_of(args.out))
    if not form:
        show_rows([{"format": name, "is": what_it_is(name)} for name in EXPORTS], args.json)
        return 0
    EXPORTS.get(form)
    where = RunFilter(models=args.model, tasks=args.task)
    with Store.open(args.common.settings().store, read_only=True) as store:
        chosen = choose(store, where, args.predictions, args.source)
        files = export(form, chosen)
        if not files:
            why = "; ".join(chosen.left_out) or "none of these runs has a defined score"
            raise DataError(f"{form} can say nothing of these results: {why}.")
        _deliver(files, form, args.out)
    for reason in chosen.left_out:
        talk(f"left out: {reason}.")
    return 0


def _form_of(out: Path | None) -> str:
    """The format that an ending stands for."""
    if out is None:
        return ""
    endings = {".csv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json"}
    if out.suffix.lower() not in endings:
        raise UsageError(
            f"--out {out}: the ending tells no format, expected one of {', '.join(endings)}, or "
            "name the format (`fieldmark export` lists them)."
        )
    return endings[out.suffix.lower()]


def _deliver(files: Sequence[ExportFile], form: str, out: Path | None) -> None:
    from fieldmark.report.export import is_binary

    is_single = len(files) == 1 and "/" not in files[0].name
    if out is None:
        if not is_single:
            raise UsageError(f"{form} makes {counted(len(files), 'file')}: --out FOLDER is needed.")
        if is_binary(form):
            raise UsageError(f"{form} is no text: --out FILE is needed.")
        for chunk in files[0].chunks:
            sys.stdout.write(chunk.decode())
        return
    ending = Path(files[0].name).suffix
    if is_single and out.suffix and not out.is_dir():
        _check_ending(form, out, ending)
        places = [out]
    else:
        places = [out / file.name for file in files]
    for file, place in zip(files, places, strict=True):
        _write(file, place)
    talk(f"{places[0]}" if len(places) == 1 else f"{out}  {counted(len(places), 'file')}")


def _check_ending(form: str, out: Path, ending: str) -> None:
    if out.suffix.lower() != ending:
        raise UsageError(f"--out {out}: {form} is written to a file that ends in {ending}.")


def _write(file: ExportFile, place: Path) -> None:
    """Whole or not at all: what a reader finds is never half of it."""
    part = place.with_name(f"{place.name}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as stream:
            for chunk in file.chunks:
                stream.write(chunk)
        part.replace(place)
    except OSError as error:
        raise DataError(f"{place}  cannot be written: {error.strerror or error}.") from error
