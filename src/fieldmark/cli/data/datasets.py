"""List the datasets, or show one: layout, licence, source.

examples:
  fieldmark datasets
  fieldmark datasets newt
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tyro.conf import Positional

from fieldmark.cli.flags import Common, DataFlags
from fieldmark.cli.show import print_json, show, show_rows, show_sentence, size, talk


@dataclass(frozen=True, slots=True)
class DatasetsArgs:
    name: Positional[str] = ""
    """a dataset, or text to search for"""
    json: bool = False
    """print JSON"""
    common: DataFlags = Common()


def run(args: DatasetsArgs) -> int:
    from fieldmark.data import DATASETS
    from fieldmark.errors import UnknownName

    settings = args.common.settings()
    if args.name in DATASETS.names():
        _show_one(args, str(settings.root_of(args.name)))
        return 0
    rows = []
    for name in DATASETS.names():
        info = DATASETS.get(name).INFO
        root = settings.root_of(name)
        row = {"dataset": name, "title": info.title, "licence": info.licence}
        if args.name.lower() in " ".join(row.values()).lower():
            rows.append({**row, "here": str(root) if root.exists() else "-"})
    if not rows:
        raise UnknownName("dataset", args.name, DATASETS.names(), "fieldmark datasets")
    show_rows(rows, args.json, (), ("licence", "here"))
    if not args.json:
        talk("`fieldmark datasets NAME` shows the layout, licence and sources of one.")
    return 0


def _show_one(args: DatasetsArgs, root: str) -> None:
    from fieldmark.data import DATASETS

    info = DATASETS.get(args.name).INFO
    if args.json:
        print_json({"dataset": args.name, "root": root, **dataclasses.asdict(info)})
        return
    show_sentence(f"{args.name}  {info.title}\n\nlicence   {info.licence}\nfolder    {root}")
    if info.homepage:
        show(f"home      {info.homepage}")
    show("\nlayout:\n" + _indent(info.layout))
    if info.sources:
        show("\nwhere to get it:")
        for source in info.sources:
            show_sentence(_indent(_source(source)))
    show_sentence(f"\ncite:\n{_indent(info.citation)}")
    get, make = f"fieldmark data get {args.name}", f"fieldmark data make {args.name}"
    talk(f"next: {get if info.sources else make}")


def _source(source: Any) -> str:
    details = [source.url or source.filename]
    if source.n_bytes:
        details.append(size(source.n_bytes))
    for name in ("md5", "sha256"):
        if getattr(source, name):
            details.append(f"{name} {getattr(source, name)}")
    lines = ["  ".join(fact for fact in details if fact), *source.mirrors, source.steps]
    return "\n".join(line for line in lines if line)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())
