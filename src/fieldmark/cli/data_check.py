"""Check a dataset's folder: what is missing, damaged or unexpected.

examples:
  fieldmark data check newt
  fieldmark data check beluga --data beluga=/data/beluga --json
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, talk
from fieldmark.errors import DataError


@dataclass(frozen=True, slots=True)
class DataCheckArgs:
    name: Annotated[Positional[str], arg(metavar="DATASET")]
    """a name as `fieldmark datasets` lists it"""
    checksums: bool = False
    """also print the SHA-256 of every label file, to compare two copies"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: DataCheckArgs) -> int:
    from fieldmark.data import MARK, Finding, annotation_digests, is_as_drawn, load_dataset

    root = args.common.settings().root_of(args.name)
    dataset = load_dataset(args.name)
    if not root.exists():
        from fieldmark.protocols import no_data

        raise DataError(no_data(args.name, root))
    findings = dataset.check(root)
    if (root / MARK).is_file() and not is_as_drawn(root):
        text = f"files have changed since fieldmark drew them. If all are real, remove {MARK}."
        findings.append(Finding("warning", text))
    is_broken = any(finding.level == "error" for finding in findings)
    digests = annotation_digests(root) if args.checksums else {}
    if args.json:
        rows = [{"level": finding.level, "text": finding.text} for finding in findings]
        report = {"dataset": args.name, "root": str(root), "ok": not is_broken, "findings": rows}
        print_json({**report, "sha256": digests} if args.checksums else report)
    else:
        for finding in findings:
            print(f"{finding.level}  {finding.text}")
        for path, digest in digests.items():
            print(f"sha256  {digest}  {path}")
        n = counted(len(findings), "finding")
        talk(f"{root}  {n}." if findings else f"{root}  is complete.")
    return 3 if is_broken else 0
