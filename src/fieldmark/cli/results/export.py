"""Write the results in other formats, or list the formats.

examples:
  fieldmark export
  fieldmark export csv --out scores.csv
  fieldmark export card --model 'classical/*' --out cards
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fieldmark.cli.flags import RunChoice
from fieldmark.cli.show import counted, show, show_json, show_rows, talk
from fieldmark.errors import DataError, UsageError
from fieldmark.files import whole_file

if TYPE_CHECKING:
    from fieldmark.report.export import ExportFile


@dataclass(frozen=True, slots=True)
class ExportArgs(RunChoice):
    form: Annotated[Positional[str], arg(name="format", metavar="FORMAT")] = ""
    """which format [by the ending of --out; without --out, lists all]"""
    out: Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="")] = None
    """file to write, or a folder for formats with one file per model [standard output]"""
    predictions: bool = False
    """export the prediction for each photo instead of the scores"""
    source: Annotated[str, arg(metavar="ADDRESS", help_behavior_hint="")] = ""
    """web address of the full results, for formats that link to it"""
    lmms_eval: bool = False
    """the same as the format `lmms-eval`"""
    json: bool = False
    """list the formats as JSON"""


def run(args: ExportArgs) -> int:
    from fieldmark.report.export import EXPORTS, choose, export, what_it_is

    form = args.form or ("lmms-eval" if args.lmms_eval else _form_of(args.out))
    if not form:
        show_rows([{"format": name, "is": what_it_is(name)} for name in EXPORTS], args.json)
        return 0
    EXPORTS.get(form)
    with args.open_store() as store:
        chosen = choose(store, args.where, args.predictions, args.source)
        files = export(form, chosen)
        if not files:
            why = "; ".join(chosen.left_out) or "none of these runs has a defined score"
            raise DataError(f"{form} cannot express these results: {why}.")
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
            f"--out {out}: no format has this ending. Expected one of {', '.join(endings)}; or "
            "give the format (`fieldmark export` lists them)."
        )
    return endings[out.suffix.lower()]


def _deliver(files: Sequence[ExportFile], form: str, out: Path | None) -> None:
    from fieldmark.report.export import is_binary

    is_single = len(files) == 1 and "/" not in files[0].name
    if out is None:
        if not is_single:
            n = counted(len(files), "file")
            raise UsageError(f"{form} makes {n}: say with --out FOLDER where to put them.")
        if is_binary(form):
            raise UsageError(f"{form} is a binary format: give a file with --out FILE.")
        for chunk in files[0].chunks:
            (show_json if form == "json" else show)(chunk.decode(), end="")
        return
    ending = Path(files[0].name).suffix
    if is_single and out.suffix and not out.is_dir():
        if out.suffix.lower() != ending:
            raise UsageError(f"--out {out}: {form} is written to a file that ends in {ending}.")
        paths = [out]
    else:
        paths = [out / file.name for file in files]
    for file, path in zip(files, paths, strict=True):
        with whole_file(path) as stream:
            stream.writelines(file.chunks)
    talk(f"{paths[0]}" if len(paths) == 1 else f"{out}  {counted(len(paths), 'file')}")
